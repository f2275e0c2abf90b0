"""The harness's end of a peer's process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.comparison import Arrays
from benchmarks.environments import python_of
from benchmarks.peers import Peer
from benchmarks.wire import receive, send

ROOT = Path(__file__).resolve().parent.parent


class PeerError(RuntimeError):
    """A peer failed. The message has its name and its own traceback or last words."""


class PeerProcess:
    """One fresh process with one runtime. A context manager."""

    def __init__(self, peer: Peer, envs: Path, options: Mapping[str, str] | None = None) -> None:
        """`options` are added to the peer's own. Raises PeerError, FileNotFoundError."""
        self.peer = peer
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **peer.variables}
        # Only an explicit enable() may switch it on, in the one peer that is it.
        variables["TF_DISC"] = "0"
        # Peers find this package by their working folder; their own packages are their environment's.
        if peer.environment != "tensorflow":
            variables.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [str(python_of(peer.environment, envs)), "-m", "benchmarks.peer_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=variables,
        )
        given = {**peer.options, **(options or {})}
        started = self._ask("start", engine=peer.engine, precision=peer.precision, options=given)
        self.version: str = started["version"]
        self.import_seconds: float = started["seconds"]

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def load(self, kind: str, path: str) -> float:
        """Seconds that loading the model took."""
        return float(self._ask("load", kind=kind, path=path)["seconds"])

    def prepare(self, slot: str, inputs: Arrays, client: int = 0) -> None:
        """Puts inputs in place for calls under this name."""
        self._exchange("prepare", dict(inputs), slot=slot, client=client)

    def prepare_case(self, slot: str, size: int) -> int:
        """The same for a micro case. Returns the bytes of its inputs."""
        return int(self._ask("prepare_case", slot=slot, size=size)["input_bytes"])

    def prepare_empty(self, slot: str) -> None:
        """A graph that does nothing, called in the same way."""
        self._ask("prepare_empty", slot=slot)

    def drop(self, slot: str) -> None:
        self._ask("drop", slot=slot)

    def run(self, slot: str) -> tuple[float, Arrays]:
        """One call: its seconds and its outputs."""
        fields, arrays = self._exchange("run", {}, slot=slot)
        return float(fields["seconds"]), arrays

    def time(
        self, slot: str, seconds: float = 0.0, least: int = 1, most: int = 200, warm: int = 1
    ) -> list[float]:
        """Seconds of each call: `least` of them at least, `most` at most, about `seconds` in all."""
        answer = self._ask("time", slot=slot, seconds=seconds, least=least, most=most, warm=warm)
        time.sleep(self.peer.rest_s)
        return [float(value) for value in answer["seconds"]]

    def together(self, slots: Sequence[str], seconds: float) -> float:
        """Calls a second with a thread for each slot."""
        answer = self._ask("together", slots=list(slots), seconds=seconds)
        time.sleep(self.peer.rest_s)
        return float(answer["calls"] / answer["seconds"])

    def settle(self) -> float:
        """Waits for compiles in the background. Returns the seconds waited."""
        return float(self._ask("settle")["seconds"])

    def report(self) -> dict[str, Any]:
        """tf_disc's report; empty for others."""
        return dict(self._ask("report")["report"])

    def totals(self) -> dict[str, float]:
        """The report's sums; empty for others."""
        return dict(self.report().get("totals", {}))

    def memory(self) -> tuple[int, int]:
        """Resident bytes now, and at most so far."""
        answer = self._ask("memory")
        return int(answer["now"]), int(answer["peak"])

    def micro_cases(self) -> list[dict[str, Any]]:
        return list(self._ask("micro_cases")["cases"])

    def _ask(self, do: str, **fields: Any) -> dict[str, Any]:
        return self._exchange(do, {}, **fields)[0]

    def _exchange(
        self, do: str, arrays: Arrays, **fields: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, {"do": do, **fields}, dict(arrays))
            answer, outputs = receive(self._process.stdout)
        except (EOFError, OSError) as error:
            raise PeerError(f"{self.peer.name} died at {do}:\n{self._last_words()}") from error
        if "error" in answer:
            raise PeerError(f"{self.peer.name} failed at {do}:\n{answer['error']}")
        return answer, outputs

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]


@contextmanager
def processes(
    peers: Sequence[Peer], envs: Path, options: Mapping[str, str]
) -> Iterator[list[PeerProcess]]:
    """A fresh process for each peer, all ended afterwards. `options` are for tf_disc alone."""
    with ExitStack() as stack:
        started = []
        for peer in peers:
            given = options if peer.options.get("way") == "tf_disc" else {}
            started.append(stack.enter_context(PeerProcess(peer, envs, given)))
        yield started
