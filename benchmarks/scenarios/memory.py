"""Resident memory: after loading, at most over all shapes, and what a thousand calls add."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peer_process import PeerProcess
from benchmarks.session import Row, Session, row, warm_up
from benchmarks.workloads import WORKLOADS, Workload

_MIB = 1 << 20


def measure(session: Session, models: Sequence[str], calls: int) -> list[Row]:
    """One peer's process at a time: what another holds is not its own. `calls` at the first shape."""
    rows: list[Row] = []
    for model in models:
        workload = WORKLOADS[model]
        for peer in session.peers:
            session.say(f"memory: {model}, {peer.name}")

            def grow(process: PeerProcess, workload: Workload = workload) -> None:
                rows.append(_grow(workload, process, calls))

            with session.started("memory", model, [peer]) as started:
                session.able("memory", model, started, grow)
    return rows


def _grow(workload: Workload, process: PeerProcess, calls: int) -> Row:
    loaded, _ = process.memory()
    # The shape that is called most comes last: its buffers are there when growth is counted.
    for dims in reversed(workload.dims):
        process.prepare("shape", workload.inputs(dims))
        warm_up(process, "shape")
    before, _ = process.memory()
    process.time("shape", least=calls, most=calls)
    after, peak = process.memory()
    return row(
        "memory",
        workload.name,
        workload.label(workload.dims[0]),
        process.peer,
        loaded_mib=loaded / _MIB,
        peak_mib=peak / _MIB,
        calls=calls,
        growth_mib=(after - before) / _MIB,
    )
