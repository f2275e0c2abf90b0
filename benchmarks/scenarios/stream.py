"""Two hundred random sizes in the order in which they arrive, and one size that comes again and again.

Each peer is warmed by one size, as a server would be. Then every arrival is called three times: the
first call may pay a compile, the others are steady. Between arrivals a fixed size is called: its p99
over p50 shows what new sizes do to calls of a known one. A peer that compiles for each size gets the
first few arrivals only: its first calls take seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.peer_process import PeerProcess
from benchmarks.session import Row, Session, row, warm_up
from benchmarks.statistics import percentile
from benchmarks.workloads import WORKLOADS, Dims

SEED = 20261201


def arrivals(model: str, count: int) -> list[Dims]:
    """The sizes, equal in every run; none twice in a row."""
    generator = np.random.default_rng(SEED)
    result: list[Dims] = []
    while len(result) < count:
        dims = WORKLOADS[model].random_dims(generator)
        if not result or dims != result[-1]:
            result.append(dims)
    return result


def measure(session: Session, models: Sequence[str], count: int, compiling_count: int) -> list[Row]:
    """`compiling_count`: arrivals for peers that compile for each size."""
    return [r for model in models for r in _measure_model(session, model, count, compiling_count)]


def _measure_model(session: Session, model: str, count: int, compiling_count: int) -> list[Row]:
    workload = WORKLOADS[model]
    fixed = "fixed"
    fixed_dims = tuple((most + 1) // 2 for most in workload.arrivals)
    session.say(f"stream: {model}, loading")
    with session.started("stream", model) as loaded:

        def begin(process: PeerProcess) -> None:
            process.prepare(fixed, workload.inputs(fixed_dims))
            warm_up(process, fixed)

        started = session.able("stream", model, loaded, begin)
        before = {p.peer.name: p.totals() for p in started}
        firsts: dict[str, list[float]] = {p.peer.name: [] for p in started}
        steady: dict[str, list[float]] = {p.peer.name: [] for p in started}
        equal: dict[str, list[float]] = {p.peer.name: [] for p in started}
        generator = np.random.default_rng(SEED + 1)
        for number, dims in enumerate(arrivals(model, count)):
            session.say(f"stream: {model} {number + 1} of {count}, {workload.label(dims)}")
            inputs = workload.make(dims, generator)
            for process in started:
                if process.peer.compiles_per_shape and number >= compiling_count:
                    continue
                name = process.peer.name
                process.prepare("arrival", inputs)
                firsts[name] += process.time("arrival", least=1, most=1, warm=0)
                steady[name] += process.time("arrival", least=2, most=2, warm=0)
                # The same number of calls of the same size after each arrival.
                equal[name] += process.time(fixed, least=2, most=2, warm=0)
        return [
            _row(model, workload.label(fixed_dims), process, before, firsts, steady, equal)
            for process in started
        ]


def _row(
    model: str,
    fixed: str,
    process: PeerProcess,
    before: dict[str, dict[str, float]],
    firsts: dict[str, list[float]],
    steady: dict[str, list[float]],
    equal: dict[str, list[float]],
) -> Row:
    name = process.peer.name
    totals = process.totals()
    values: dict[str, Any] = {"arrivals": len(firsts[name])}
    for what, times in (("first", firsts), ("steady", steady), ("equal", equal)):
        values[f"{what}_p50_ms"] = percentile(times[name], 50) * 1e3
        values[f"{what}_p99_ms"] = percentile(times[name], 99) * 1e3
        values[f"{what}_max_ms"] = max(times[name]) * 1e3
    values["equal_p99_over_p50"] = values["equal_p99_ms"] / values["equal_p50_ms"]
    # None where the peer does not count its compiles.
    values["compiles"] = totals["compiles"] - before[name]["compiles"] if totals else None
    values["times_first_ms"] = [value * 1e3 for value in firsts[name]]
    return row("stream", model, f"random; equal: {fixed}", process.peer, **values)
