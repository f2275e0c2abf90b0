"""The worker's protocol (docs/contracts.md 4) against a real worker process."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import Program, host_target
from tests.compiler.samples import SAMPLES
from tf_disc.compiler.pipeline import Artifact
from tf_disc.compiler.worker import NICENESS
from tf_disc.fingerprint import compiler_fingerprint

ROOT = Path(__file__).parents[2]
COMPILED, UNSUPPORTED, INTERNAL = 0, 1, 2


class Worker:
    """A worker process and the caller's side of the protocol."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *(command or ("-m", "tf_disc.compiler.worker"))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, request: Any) -> None:
        body = json.dumps(request).encode()
        self.write(b"TFDQ" + struct.pack("<IQ", 1, len(body)) + body)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self) -> tuple[int, str, bytes, str]:
        """Status, manifest, object and message."""
        assert self.process.stdout is not None
        head = self.process.stdout.read(36)
        assert head[:4] == b"TFDR", head
        version, status, manifest, object_, message = struct.unpack("<IIQQQ", head[4:])
        assert version == 1
        body = self.process.stdout.read(manifest + object_ + message)
        assert len(body) == manifest + object_ + message
        return (
            status,
            body[:manifest].decode(),
            body[manifest : manifest + object_],
            body[manifest + object_ :].decode(),
        )

    def end(self) -> tuple[int, bytes, str]:
        """Closes the input; exit status, what was left in stdout, and stderr."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err.decode()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    status, manifest, object_, message = made.receive()
    assert (status, manifest, object_) == (COMPILED, "", b"")
    assert message == f"ready {compiler_fingerprint()}"
    yield made
    made.process.kill()
    made.process.wait()


def request(cluster: Any, **changes: Any) -> dict[str, Any]:
    """A request as the runtime writes it."""
    whole = {
        "cluster": cluster,
        "target": host_target(),
        "features": "",
        "precision": "f32",
        "dump": "",
    }
    return {**whole, **changes}


def test_one_thread_behind_those_who_serve(worker: Worker) -> None:
    """/proc of a worker that has compiled: its niceness, and that it never was more than one thread."""
    worker.send(request(SAMPLES["moves"]()))
    assert worker.receive()[0] == COMPILED
    fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    nice, threads = int(fields[16]), int(fields[17])
    assert nice == min(os.nice(0) + NICENESS, 19)
    assert threads == 1


def test_two_requests_and_one_that_is_refused_between(worker: Worker) -> None:
    w = ClusterWriter()
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    cluster = w.cluster(w.node("Square", w.tensor("x", x)))
    for _ in range(2):
        worker.send(request(cluster))
        status, manifest, object_, message = worker.receive()
        assert (status, message) == (COMPILED, "")
        assert manifest.startswith("tf_disc manifest 1\n") and object_.startswith(b"\x7fELF")
        (found,) = Program(Artifact(manifest, object_))([x])
        np.testing.assert_array_equal(found, x * x)
        unknown = ClusterWriter()
        node = unknown.node("MatrixInverse", unknown.tensor("x", x), name="attn/scores")
        worker.send(request(unknown.cluster(node)))
        status, manifest, object_, message = worker.receive()
        assert (status, manifest, object_) == (UNSUPPORTED, "", b"")
        assert message.startswith('MatrixInverse "attn/scores" (f32[d0_0, d0_1]) has no rule')
    assert worker.end() == (0, b"", "")


def test_what_is_unsupported_or_damaged_is_said(worker: Worker) -> None:
    worker.send(request(SAMPLES["moves"](), target="i386"))
    status, _, _, message = worker.receive()
    assert status == UNSUPPORTED and 'no code is generated for CPU "i386"' in message
    worker.send(request({"version": 1}))
    status, _, _, message = worker.receive()
    assert status == UNSUPPORTED and 'the cluster file has no "name"' in message
    worker.send({"target": "x86-64-v3"})
    status, _, _, message = worker.receive()
    assert status == INTERNAL and message.startswith("KeyError at worker.py:")
    code, out, err = worker.end()
    assert (code, out) == (0, b"") and "Traceback" in err, "the trace is in the collected messages"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not a request: b'GET / HTTP/1.1"),
        (b"TFDQ" + struct.pack("<IQ", 2, 2) + b"{}", "a request of version 2 and 2 bytes"),
        (b"TFDQ" + struct.pack("<IQ", 1, 1 << 40), f"a request of version 1 and {1 << 40} bytes"),
        (b"TFDQ" + struct.pack("<IQ", 1, 100) + b"{}", "the stream ended after 2 of 100 bytes"),
    ],
    ids=["rubbish", "version", "length", "cut off"],
)
def test_a_broken_stream_ends_the_worker_with_a_message(
    worker: Worker, data: bytes, message: str
) -> None:
    worker.write(data)
    code, out, err = worker.end()
    assert (code, out) == (1, b"")
    assert err.startswith(f"tf_disc compile worker: {message}")
    assert "it ends, and the next compile starts another" in err


def test_a_request_that_is_no_json_is_answered(worker: Worker) -> None:
    worker.write(b"TFDQ" + struct.pack("<IQ", 1, 3) + b"{,}")
    status, _, _, message = worker.receive()
    assert status == INTERNAL and message.startswith("JSONDecodeError")
    worker.send(request(SAMPLES["constants"]()))
    assert worker.receive()[0] == COMPILED


PRINTING = """
import os, sys
import tf_disc.compiler.pipeline as pipeline
from tf_disc.compiler import worker
whole = pipeline.compile_cluster
def printing(*args, **kwargs):
    print("a stray print")
    os.write(1, b"a stray write\\n")
    return whole(*args, **kwargs)
pipeline.compile_cluster = printing
sys.exit(worker.main())
"""


def test_what_is_printed_does_not_reach_the_protocol() -> None:
    worker = Worker("-c", PRINTING)
    assert worker.receive()[3].startswith("ready ")
    worker.send(request(SAMPLES["constants"]()))
    assert worker.receive()[0] == COMPILED
    code, out, err = worker.end()
    assert (code, out) == (0, b"")
    assert "a stray print" in err and "a stray write" in err


IMPORTS = """
import sys
from tf_disc.compiler import worker, pipeline
named = [m for m in sys.modules if m.split(".")[0] in ("tensorflow", "keras", "numpy") or "_native" in m]
assert not named, named
maps = open("/proc/self/maps").read()
assert "tensorflow" not in maps and "libtf_disc" not in maps
"""


def test_the_worker_loads_neither_tensorflow_nor_our_library() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, check=True)


def seconds(*command: str) -> float:
    """The best of several runs until the process ends."""
    best = 1e9
    for _ in range(4):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        best = min(best, time.perf_counter() - started)
    return best


def test_the_worker_starts_at_once() -> None:
    """Within half a second; on a machine that is busy, within a few starts of Python itself."""
    bare = seconds("-c", "import json, subprocess")
    started = seconds("-m", "tf_disc.compiler.worker")
    assert started < max(0.5, 8 * bare), (started, bare)
