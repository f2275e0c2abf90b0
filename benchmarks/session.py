"""What all scenarios of one run share: who is measured, how long, and the results so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.artifacts import Artifacts
from benchmarks.comparison import Arrays, Comparison, compare
from benchmarks.peer_process import PeerError, PeerProcess, processes
from benchmarks.peers import Peer
from benchmarks.roofline import Roofline
from benchmarks.statistics import Summary, net, ratio

#: The slot of the graph that does nothing.
EMPTY = "empty"

Row = dict[str, Any]


@dataclass
class Session:
    """Settings of a run. `seconds` is how long one peer is timed in one round of one case."""

    peers: Sequence[Peer]
    envs: Path
    artifacts: Artifacts
    roofline: Roofline
    rounds: int
    seconds: float
    disc_options: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = print
    versions: dict[str, str] = field(default_factory=dict)
    failures: list[Row] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def able(
        self,
        scenario: str,
        model: str,
        started: Sequence[PeerProcess],
        action: Callable[[PeerProcess], Any],
    ) -> list[PeerProcess]:
        """Those for whom an action works. The failure of another is recorded, and shown in the page.

        Raises PeerError if TensorFlow itself fails: nothing can be compared then.
        """
        result = []
        for process in started:
            try:
                action(process)
            except PeerError as error:
                if process.peer.name == "tf":
                    raise
                self.say(f"{process.peer.name} cannot run {model}")
                failure = {"scenario": scenario, "model": model, "peer": process.peer.name}
                self.failures.append({**failure, "error": str(error)})
            else:
                result.append(process)
        return result

    @contextmanager
    def started(
        self, scenario: str, model: str, peers: Sequence[Peer] | None = None
    ) -> Iterator[list[PeerProcess]]:
        """A fresh process a peer, the model loaded in each; without those that cannot load it."""

        def load(process: PeerProcess) -> None:
            kind = process.peer.reads
            process.load(kind, str(self.artifacts.path(model, kind)))
            self.versions[process.peer.name] = process.version

        chosen = self.peers if peers is None else peers
        with processes(chosen, self.envs, self.disc_options) as started:
            yield self.able(scenario, model, started, load)


def row(scenario: str, model: str, shape: str, peer: Peer, **values: Any) -> Row:
    """One result: what was measured, of whom, and the numbers."""
    return {
        "scenario": scenario,
        "model": model,
        "shape": shape,
        "peer": peer.name,
        "precision": peer.precision,
        **values,
    }


def interleaved(
    session: Session, started: Sequence[PeerProcess], slots: Sequence[str]
) -> dict[tuple[str, str], list[list[float]]]:
    """Seconds of calls by peer and slot, a list a round: within a round all peers take their turns.

    Who begins moves on by one each round, so that none always follows the same other.
    """
    times: dict[tuple[str, str], list[list[float]]] = {
        (process.peer.name, slot): [] for process in started for slot in slots
    }
    for number in range(session.rounds):
        first = number % len(started)
        for slot in slots:
            for process in [*started[first:], *started[:first]]:
                seconds = session.seconds / 4 if slot == EMPTY else session.seconds
                times[process.peer.name, slot].append(process.time(slot, seconds))
    return times


#: Calls of a size after which never_slower has made up its mind on a machine that does nothing else:
#: six of either way in blocks of four whose first does not count (ADR 0021).
_TRIAL_CALLS = 24


def warm_up(process: PeerProcess, slot: str) -> float:
    """First call, compiles awaited, then calls until weights are packed and kernels are chosen.

    Returns the seconds of the first.
    """
    first, _ = process.run(slot)
    process.settle()
    disc = process.peer.options.get("way") == "tf_disc"
    process.time(slot, seconds=0.1, least=_TRIAL_CALLS if disc else 3, most=100)
    return first


def compare_all(started: Sequence[PeerProcess], slot: str) -> tuple[dict[str, Comparison], int]:
    """Each peer's outputs against TensorFlow's, and the bytes of TensorFlow's."""
    expected: Arrays = {}
    found = {}
    for process in started:
        _, outputs = process.run(slot)
        if not process.peer.computes:
            found[process.peer.name] = Comparison(0.0, 0.0, correct=True)
            continue
        if process.peer.name == "tf":
            expected = outputs
        found[process.peer.name] = compare(expected, outputs, process.peer.precision)
    return found, sum(array.nbytes for array in expected.values())


def timed_rows(
    session: Session,
    scenario: str,
    model: str,
    slot: str,
    started: Sequence[PeerProcess],
    flops: int,
    input_bytes: int,
) -> list[Row]:
    """Outputs compared, then calls timed in turn with those of the empty graph: one row a peer."""
    compared, output_bytes = compare_all(started, slot)
    before = {p.peer.name: p.totals() for p in started}
    times = interleaved(session, started, [slot, EMPTY])
    rows = latency_rows(
        session,
        scenario,
        model,
        slot,
        [p.peer for p in started],
        {p.peer.name: times[p.peer.name, slot] for p in started},
        {p.peer.name: times[p.peer.name, EMPTY] for p in started},
        flops,
        input_bytes + output_bytes,
        compared,
    )
    for found, process in zip(rows, started, strict=True):
        found["kernel_share"] = kernel_share(before[process.peer.name], process.totals())
    return rows


def latency_rows(
    session: Session,
    scenario: str,
    model: str,
    shape: str,
    peers: Sequence[Peer],
    times: Mapping[str, list[list[float]]],
    empty: Mapping[str, list[list[float]]],
    flops: int,
    num_bytes: int,
    compared: Mapping[str, Comparison],
) -> list[Row]:
    """One row a peer, with ratios to every other: above 1 where this one is faster.

    `net` figures have the empty graph's median taken off, and are None where nothing is left.
    """
    medians, nets, summaries, empties = {}, {}, {}, {}
    for name, rounds in times.items():
        summaries[name] = Summary.of([value for values in rounds for value in values])
        medians[name] = summaries[name].median
        empties[name] = Summary.of([value for values in empty[name] for value in values]).median
        nets[name] = net(medians[name], empties[name])
    rows = []
    for peer in peers:
        own, own_net = medians[peer.name], nets[peer.name]
        floor, limit = session.roofline.floor(flops, num_bytes, peer.precision)
        comparison = compared[peer.name]
        rows.append(
            row(
                scenario,
                model,
                shape,
                peer,
                **summaries[peer.name].as_ms(),
                round_medians_ms=[Summary.of(r).median * 1e3 for r in times[peer.name]],
                empty_ms=empties[peer.name] * 1e3,
                net_ms=None if own_net is None else own_net * 1e3,
                ratio_to={name: ratio(other, own) for name, other in medians.items()},
                net_ratio_to={name: ratio(other, own_net) for name, other in nets.items()},
                flops=flops,
                bytes=num_bytes,
                limit=limit,
                floor_ms=floor * 1e3,
                # After the empty graph: the bound knows nothing of calls.
                roofline_share=ratio(floor, own_net),
                gbs=None if own_net is None else num_bytes / own_net / 1e9,
                difference=comparison.difference,
                relative_difference=comparison.relative,
                correct=comparison.correct,
                wrong=comparison.reason,
            )
        )
    return rows


def keep_notes(session: Session, started: Sequence[PeerProcess]) -> None:
    """What tf_disc itself has to say about a run goes on the page: options without effect, for one."""
    for process in started:
        for note in process.report().get("notes", []):
            notes = session.notes.setdefault(process.peer.name, [])
            if note not in notes:
                notes.append(note)


def kernel_share(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Share of launches between two reports that ran a kernel, not TensorFlow; None without any."""
    calls = after.get("calls", 0) - before.get("calls", 0)
    return (after["kernel_runs"] - before["kernel_runs"]) / calls if calls else None
