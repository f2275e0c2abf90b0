"""The floor under a model: its products by weights and nothing else, each with a weight of its own.

oneDNN's, packed, on all cores: every product is cut over the cores by rows, or by columns, whichever took less for
the shape. No core waits for another between two products. What Python adds is a few microseconds a product.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import Arrays, Call
from benchmarks.onednn import Product, load
from benchmarks.workloads import WORKLOADS, Products

#: Rounds of either cut before one is chosen.
_ROUNDS = 7


class ProductsEngine:
    """The products of one model."""

    def __init__(self, precision: str) -> None:
        self._precision = precision
        self._library = load()
        self._products: Callable[[Sequence[int]], Products] | None = None

    def load(self, kind: str, path: str) -> None:
        workload = WORKLOADS[Path(path).name]
        if workload.products is None:
            raise ValueError(f"the products of {workload.name} are not listed")
        self._products = workload.products

    def prepare(self, arrays: Arrays, client: int) -> Call:
        assert self._products is not None
        products = self._products(next(iter(arrays.values())).shape)
        crews = [_Crew(self._cut(products, way)) for way in ("rows", "columns")]
        seconds = [min(_seconds(crew) for _ in range(_ROUNDS)) for crew in crews]
        return crews[seconds.index(min(seconds))]

    def _cut(self, products: Products, way: str) -> list[list[Product]]:
        """What each core runs."""
        cores = len(os.sched_getaffinity(0))
        work: list[list[Product]] = [[] for _ in range(cores)]
        for rows, k, n in products:
            step = 64 if way == "columns" else 1
            whole = n if way == "columns" else rows
            # In whole panels of columns; the last core has the rest.
            share = -(-whole // (cores * step)) * step
            for core in range(cores):
                size = min(share, whole - core * share)
                if size > 0:
                    part = (rows, k, size) if way == "columns" else (size, k, n)
                    work[core].append(Product(self._library, *part, self._precision))
        return work

    def prepare_case(self, size: int) -> tuple[Call, int]:
        raise ValueError("products have no micro cases")

    def outputs(self, result: Any) -> Arrays:
        return {}

    def empty(self) -> Call:
        return lambda: None

    def version(self) -> str:
        return "oneDNN of tf_disc"

    def settle(self) -> None:
        """Nothing is compiled in the background."""

    def report(self) -> dict[str, Any]:
        return {}


class _Crew:
    """A thread a core, each with its list of products; a call runs all lists once."""

    def __init__(self, work: list[list[Product]]) -> None:
        self._mine = work[0]
        self._starts = [threading.Semaphore(0) for _ in work[1:]]
        self._ends = [threading.Semaphore(0) for _ in work[1:]]
        for products, start, end in zip(work[1:], self._starts, self._ends):
            threading.Thread(target=_serve, args=(products, start, end), daemon=True).start()

    def __call__(self) -> None:
        for start in self._starts:
            start.release()
        for product in self._mine:
            product.run()
        for end in self._ends:
            end.acquire()


def _serve(products: list[Product], start: threading.Semaphore, end: threading.Semaphore) -> None:
    while start.acquire():
        for product in products:
            product.run()
        end.release()


def _seconds(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def make(precision: str, options: Mapping[str, str]) -> ProductsEngine:
    return ProductsEngine(precision)
