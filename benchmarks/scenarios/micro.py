"""The micro suite: small graphs of memory-bound work, each at a size in L2 and one beyond the caches."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peer_process import processes
from benchmarks.session import EMPTY, Row, Session, keep_notes, timed_rows, warm_up


def measure(session: Session, only: Sequence[str]) -> list[Row]:
    """Peers that trace functions only. `only`: parts of names of cases; all if empty."""
    peers = [peer for peer in session.peers if peer.micro]
    rows: list[Row] = []
    with processes(peers, session.envs, session.disc_options) as started:
        for process in started:
            session.versions[process.peer.name] = process.version
        cases = started[0].micro_cases()
        for case in cases:
            name = case["name"]
            if only and not any(part in name for part in only):
                continue
            for process in started:
                process.load("micro", name)
                process.prepare_empty(EMPTY)
            for size in case["sizes"]:
                slot = str(size)
                session.say(f"micro: {name} {size}")
                for process in started:
                    input_bytes = process.prepare_case(slot, size)
                    warm_up(process, slot)
                found = timed_rows(session, "micro", name, slot, started, 0, input_bytes)
                for process in started:
                    process.drop(slot)
                for row in found:
                    row["bound"] = case["bound"]
                rows += found
        keep_notes(session, started)
    return rows
