"""Resident memory: after loading, at most over all shapes, and what a thousand calls add."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.session import Row, Session, row, warm_up
from benchmarks.workloads import WORKLOADS

_MIB = 1 << 20


def measure(session: Session, models: Sequence[str], calls: int) -> list[Row]:
    """One peer's process at a time: what another holds is not its own. `calls` at the first shape."""
    rows: list[Row] = []
    for model in models:
        workload = WORKLOADS[model]
        for peer in session.peers:
            session.say(f"memory: {model}, {peer.name}")
            with session.started(model, [peer]) as (process,):
                loaded, _ = process.memory()
                for dims in workload.dims:
                    process.prepare("shape", workload.inputs(dims))
                    warm_up(process, "shape")
                small = workload.dims[0]
                process.prepare("shape", workload.inputs(small))
                warm_up(process, "shape")
                before, _ = process.memory()
                process.time("shape", least=calls, most=calls)
                after, peak = process.memory()
            rows.append(
                row(
                    "memory",
                    model,
                    workload.label(small),
                    peer,
                    loaded_mib=loaded / _MIB,
                    peak_mib=peak / _MIB,
                    calls=calls,
                    growth_mib=(after - before) / _MIB,
                )
            )
    return rows
