"""A peer's own process: `python -m benchmarks.peer_server`, spoken to over its stdin and stdout.

Each request is a message (benchmarks.wire) with a field `do` that names a method of Server; the
answer holds its result, or `error` with the traceback.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.engines import Arrays, Call, Engine, make_engine
from benchmarks.wire import receive, send

Answer = tuple[dict[str, Any], Arrays]


def timed(call: Call, seconds: float, least: int, most: int) -> list[float]:
    """Seconds of each call, for about `seconds`. An output lives one call only: it dies in its time."""
    times: list[float] = []
    clock = time.perf_counter
    end = clock() + seconds
    while len(times) < least or (len(times) < most and clock() < end):
        start = clock()
        call()
        times.append(clock() - start)
    return times


class Server:
    """What a peer is asked to do. Slots name calls that are ready to be made."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._slots: dict[str, Call] = {}

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the first request must be `start`")
        return self._engine

    def start(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Imports the runtime."""
        begin = time.perf_counter()
        self._engine = make_engine(fields["engine"], fields["precision"], fields["options"])
        return {"seconds": time.perf_counter() - begin, "version": self.engine.version()}, {}

    def load(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Loads the model; its slots start anew."""
        begin = time.perf_counter()
        self._slots.clear()
        self.engine.load(fields["kind"], fields["path"])
        return {"seconds": time.perf_counter() - begin}, {}

    def prepare(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Puts inputs in place for a slot."""
        self._slots[fields["slot"]] = self.engine.prepare(arrays, fields["client"])
        return {}, {}

    def prepare_case(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        call, num_bytes = self.engine.prepare_case(fields["size"])
        self._slots[fields["slot"]] = call
        return {"input_bytes": num_bytes}, {}

    def prepare_empty(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        self._slots[fields["slot"]] = self.engine.empty()
        return {}, {}

    def drop(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Frees a slot's inputs."""
        del self._slots[fields["slot"]]
        return {}, {}

    def run(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """One call: its seconds and its outputs."""
        begin = time.perf_counter()
        result = self._slots[fields["slot"]]()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds}, self.engine.outputs(result)

    def time(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Many calls: the seconds of each. One before them, uncounted, wakes what sleeps."""
        call = self._slots[fields["slot"]]
        for _ in range(fields["warm"]):
            call()
        return {"seconds": timed(call, fields["seconds"], fields["least"], fields["most"])}, {}

    def together(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """All slots named, each on a thread of its own, for `seconds`: calls made, time taken."""
        calls = [self._slots[slot] for slot in fields["slots"]]
        barrier = threading.Barrier(len(calls) + 1)
        counts, ends = [0] * len(calls), [0.0] * len(calls)
        end = float("inf")

        def client(number: int) -> None:
            call = calls[number]
            call()
            barrier.wait()
            while time.perf_counter() < end:
                call()
                counts[number] += 1
            ends[number] = time.perf_counter()

        threads = [threading.Thread(target=client, args=(i,)) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        begin = time.perf_counter()
        barrier.wait()
        begin = time.perf_counter()
        end = begin + fields["seconds"]
        for thread in threads:
            thread.join()
        return {"calls": sum(counts), "seconds": max(ends) - begin}, {}

    def settle(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        begin = time.perf_counter()
        self.engine.settle()
        return {"seconds": time.perf_counter() - begin}, {}

    def report(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        return {"report": self.engine.report()}, {}

    def memory(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """Resident bytes, now and at most."""
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"now": pages * os.sysconf("SC_PAGE_SIZE"), "peak": peak}, {}

    def micro_cases(self, fields: dict[str, Any], arrays: Arrays) -> Answer:
        """What the micro suite has."""
        from benchmarks.micro_suite import CASES

        cases = [{"name": c.name, "sizes": c.sizes, "bound": c.bound} for c in CASES]
        return {"cases": cases}, {}


def main() -> None:
    """Serves until stdin ends."""
    requests = sys.stdin.buffer
    # What libraries print must not end up between messages.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    server = Server()
    while True:
        try:
            fields, arrays = receive(requests)
        except EOFError:
            return
        method: Callable[[dict[str, Any], Arrays], Answer] = getattr(server, fields["do"])
        try:
            reply, outputs = method(fields, arrays)
        except Exception:  # told to the harness, which fails with it
            reply, outputs = {"error": traceback.format_exc()}, {}
        send(answers, reply, outputs)


if __name__ == "__main__":
    main()
