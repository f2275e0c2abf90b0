"""Calls a second with one, two and four client threads, each with inputs of its own."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.comparison import Arrays
from benchmarks.peer_process import PeerProcess
from benchmarks.session import Row, Session, row, warm_up
from benchmarks.statistics import Summary
from benchmarks.workloads import WORKLOADS

CLIENTS = (1, 2, 4)


def measure(session: Session, models: Sequence[str], seconds: float) -> list[Row]:
    """Each model at its first shape; `seconds` for each number of clients in each round."""
    rows: list[Row] = []
    for model in models:
        workload = WORKLOADS[model]
        label = workload.label(workload.dims[0])
        session.say(f"throughput: {model}, loading")
        with session.started("throughput", model) as loaded:
            slots = [f"client {number}" for number in range(max(CLIENTS))]
            inputs = workload.inputs(workload.dims[0])

            def begin(
                process: PeerProcess, slots: Sequence[str] = slots, inputs: Arrays = inputs
            ) -> None:
                for number, slot in enumerate(slots):
                    process.prepare(slot, inputs, client=number)
                warm_up(process, slots[0])

            started = session.able("throughput", model, loaded, begin)
            rates: dict[tuple[str, int], list[float]] = {}
            for number in range(session.rounds):
                for clients in CLIENTS:
                    for process in started:
                        session.say(f"throughput: {model} {label}, round {number + 1}")
                        rate = process.together(slots[:clients], seconds)
                        rates.setdefault((process.peer.name, clients), []).append(rate)
        for peer in (process.peer for process in started):
            for clients in CLIENTS:
                found = Summary.of(rates[peer.name, clients])
                rows.append(
                    row(
                        "throughput",
                        model,
                        label,
                        peer,
                        clients=clients,
                        calls_a_second=found.median,
                        q1=found.first_quartile,
                        q3=found.third_quartile,
                    )
                )
    return rows
