"""What it takes until a model runs at its own speed: cold, and with kernels on disk from before.

tf_disc compiles while the first call waits (mode sync), so that its first call holds all of it; the
second process finds the first one's folder. Others have no such folder: their two processes are alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from benchmarks.peer_process import PeerProcess
from benchmarks.peers import Peer
from benchmarks.session import Row, Session, row
from benchmarks.workloads import WORKLOADS


def measure(session: Session, models: Sequence[str]) -> list[Row]:
    """Two rows a peer and model: cold and warm."""
    rows: list[Row] = []
    for model in models:
        for peer in session.peers:
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    session.say(f"compile: {model}, {peer.name}, {state}")
                    rows += _measure_start(session, model, peer, folder, state)
    return rows


def _measure_start(session: Session, model: str, peer: Peer, folder: str, state: str) -> list[Row]:
    disc = peer.options.get("way") == "tf_disc"
    options = {**session.disc_options, "mode": "sync", "cache_dir": folder} if disc else {}
    rows: list[Row] = []
    with PeerProcess(peer, session.envs, options) as process:
        session.versions[peer.name] = process.version
        session.able(
            "compile", model, [process], lambda p: rows.append(_start(session, model, p, state))
        )
    return rows


def _start(session: Session, model: str, process: PeerProcess, state: str) -> Row:
    workload = WORKLOADS[model]
    peer = process.peer
    load = process.load(peer.reads, str(session.artifacts.path(model, peer.reads)))
    firsts = []
    for dims in workload.dims:
        label = workload.label(dims)
        process.prepare(label, workload.inputs(dims))
        firsts.append(process.time(label, least=1, most=1, warm=0)[0])
    steady = process.time(workload.label(workload.dims[0]), seconds=0.2, least=5)
    totals = process.totals()
    signatures = [s for c in process.report().get("clusters", []) for s in c["signatures"]]
    return row(
        "compile",
        model,
        workload.label(workload.dims[0]),
        peer,
        state=state,
        import_s=process.import_seconds,
        load_s=load,
        first_call_s=firsts[0],
        # Of every further shape: no more than a call where no size is compiled for.
        next_first_calls_s=firsts[1:],
        steady_ms=min(steady) * 1e3,
        compiles=totals.get("compiles"),
        compile_ms=totals.get("compile_ms"),
        load_kernels_ms=sum(s["load_ms"] for s in signatures) if totals else None,
        sources=sorted({s["source"] for s in signatures}),
    )
