"""What the machine can do at most: `python -m benchmarks.roofline`, in a fresh process of the run.

Arithmetic: oneDNN's matrix product through its C interface, f32 and BF16, on one core: 256 rows by a
packed weight of 768x768, random numbers, everything in the core's own cache. It is what a library
that is tuned for this machine reaches, not what a data sheet says. It is the copy that tf_disc ships,
asked through ctypes, with one OpenMP thread.

Copying: the C library's memcpy, on one core and on all at once, each with arrays of its own, at three
working sets a core: half its L2 cache, a share of L3, and far beyond. Bytes moved are those read and
those written. Large ones it stores past the caches, so nothing is read just to be overwritten.

Each figure is the best of its rounds: a bound is what is possible, and neighbours only take away.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onednn import DTYPES, Product, load

_ROW_COUNT, _WIDTH = 256, 768


@dataclass(frozen=True)
class Roofline:
    """GFLOP/s of one core by precision; GB/s of copies by level (`l2`, `l3`, `memory`)."""

    cores: int
    gflops_a_core: dict[str, float]
    copy_one_core: dict[str, float]
    copy_all_cores: dict[str, float]
    level_bytes: dict[str, int]

    def level(self, num_bytes: int) -> str:
        """The nearest memory that holds so many bytes, spread over the cores."""
        for name in ("l2", "l3"):
            if num_bytes <= 2 * self.level_bytes[name] * self.cores:
                return name
        return "memory"

    def floor(self, flops: int, num_bytes: int, precision: str) -> tuple[float, str]:
        """Least seconds on all cores of so much arithmetic and so many bytes, and what limits them."""
        arithmetic = flops / (self.gflops_a_core[precision] * self.cores * 1e9)
        level = self.level(num_bytes)
        # Where two cores copy no faster than one, the one's figure may be the better measured.
        speed = max(self.copy_one_core[level], self.copy_all_cores[level])
        copying = num_bytes / (speed * 1e9)
        limits = ((arithmetic, "arithmetic"), (copying, f"copying in {level}"))
        return max(limits)


def _best(run: Callable[[], None], seconds: float, inner: int) -> float:
    """Seconds of one run, at best."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        best = min(best, (time.perf_counter() - start) / inner)
    return best


def gemm_gflops(library: Any, precision: str, seconds: float) -> float:
    """Of one core."""
    product = Product(library, _ROW_COUNT, _WIDTH, _WIDTH, precision)
    best = _best(product.run, seconds, 4)
    return 2 * _ROW_COUNT * _WIDTH * _WIDTH / best / 1e9


def copy_gbs(copy: Any, num_bytes: int, threads: int, seconds: float) -> float:
    """GB/s, read and written, of `threads` cores together; each copies `num_bytes` to as many."""
    # One foreign call is a good while long: what Python adds to it must not count. ctypes lets go of
    # the interpreter's lock meanwhile.
    barrier = threading.Barrier(threads)
    inner = max(1, int(2e6 // num_bytes))
    rounds: list[list[tuple[float, float]]] = [[] for _ in range(threads)]
    count = max(5, int(seconds / (2 * num_bytes * inner / 20e9)))

    def work(core: int) -> None:
        os.sched_setaffinity(0, {sorted(_CORES)[core]})
        source = np.random.default_rng(core).integers(0, 255, num_bytes, np.uint8)
        target = np.ones_like(source)
        a, b = source.ctypes.data, target.ctypes.data
        for _ in range(count):
            barrier.wait()
            start = time.perf_counter()
            for _ in range(inner):
                copy(b, a, num_bytes)
            rounds[core].append((start, time.perf_counter()))

    workers = [threading.Thread(target=work, args=(core,)) for core in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    best = min(
        max(end for _, end in together) - min(start for start, _ in together)
        for together in zip(*rounds)
    )
    return 2 * num_bytes * inner * threads / best / 1e9


_CORES = os.sched_getaffinity(0)


def cache_bytes(index: int) -> int:
    """Size of the first core's cache of a level, as the system tells. Raises OSError if it does not."""
    name = f"/sys/devices/system/cpu/cpu{min(_CORES)}/cache/index{index}/size"
    text = Path(name).read_text(encoding="ascii").strip()
    return int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]]


def measure(seconds: float) -> Roofline:
    """`seconds`: of each of the figures."""
    library = load()
    cores = len(_CORES)
    copy = ctypes.CDLL(None).memcpy
    copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    copy.restype = ctypes.c_void_p
    # Two arrays each: a quarter of the cache to a quarter of it.
    level_bytes = {
        "l2": cache_bytes(2) // 4,
        "l3": cache_bytes(3) // 4 // cores,
        "memory": max(64 << 20, 4 * cache_bytes(3) // cores),
    }
    return Roofline(
        cores,
        {precision: gemm_gflops(library, precision, seconds) for precision in DTYPES},
        {name: copy_gbs(copy, size, 1, seconds) for name, size in level_bytes.items()},
        {name: copy_gbs(copy, size, cores, seconds) for name, size in level_bytes.items()},
        level_bytes,
    )


if __name__ == "__main__":
    # Read by libgomp when the library is loaded: one core is what is asked about.
    os.environ["OMP_NUM_THREADS"] = "1"
    print(json.dumps(asdict(measure(float(os.environ.get("ROOFLINE_SECONDS", "0.5"))))))
