"""Latency of each model at each of its shapes, one call at a time."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.comparison import Arrays
from benchmarks.peer_process import PeerProcess
from benchmarks.session import EMPTY, Row, Session, keep_notes, timed_rows, warm_up
from benchmarks.workloads import WORKLOADS, Dims


def measure(session: Session, models: Sequence[str], shapes: Sequence[str] = ()) -> list[Row]:
    """`shapes`: labels of those wanted; all if empty."""
    rows: list[Row] = []
    for model in models:
        workload = WORKLOADS[model]
        dims = [d for d in workload.dims if not shapes or workload.label(d) in shapes]
        if dims:
            rows += _measure_model(session, model, dims)
    return rows


def _measure_model(session: Session, model: str, all_dims: Sequence[Dims]) -> list[Row]:
    workload = WORKLOADS[model]
    rows: list[Row] = []
    session.say(f"latency: {model}, loading")
    with session.started("latency", model) as loaded:
        for process in loaded:
            process.prepare_empty(EMPTY)
        for dims in all_dims:
            label = workload.label(dims)
            session.say(f"latency: {model} {label}")
            inputs = workload.inputs(dims)
            firsts: dict[str, float] = {}

            def begin(
                process: PeerProcess,
                label: str = label,
                inputs: Arrays = inputs,
                firsts: dict[str, float] = firsts,
            ) -> None:
                process.prepare(label, inputs)
                firsts[process.peer.name] = warm_up(process, label)

            started = session.able("latency", f"{model} {label}", loaded, begin)
            found = timed_rows(
                session,
                "latency",
                model,
                label,
                started,
                session.artifacts.flops(model, dims),
                sum(array.nbytes for array in inputs.values()),
            )
            for row in found:
                row["first_call_ms"] = firsts[row["peer"]] * 1e3
                if workload.length is not None:
                    row["length"] = dims[workload.length]
                    row["elements"] = _product(dims)
            rows += found
        keep_notes(session, loaded)
    return rows


def _product(dims: Dims) -> int:
    result = 1
    for dim in dims:
        result *= dim
    return result
