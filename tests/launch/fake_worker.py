"""A compile worker that does what the file `behaviour` beside its kernels says: for faults.

`python fake_worker.py FOLDER`. Each request is appended to FOLDER/requests as one line of JSON. The
first word of FOLDER/behaviour, read anew for each request, decides:

    kernel NAME     answers with NAME.manifest and NAME.o
    rows            answers with kernel `rows<N>`, N = first size of the first input
    unsupported, internal       answers so
    hang, die       before it answers
    rubbish, short  answers outside the protocol; with half an answer, then dies
    extra           answers with kernel `any` and more bytes
    talk            fills standard error, then answers with kernel `any`
    wait            answers with kernel `any` once FOLDER/go exists
    start_hang, start_die, start_rubbish, start_other   instead of "ready"
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
FINGERPRINT = os.environ["FAKE_FINGERPRINT"]


def behaviour() -> list[str]:
    return (FOLDER / "behaviour").read_text().split()


def answer(status: int, manifest: bytes = b"", body: bytes = b"", message: str = "") -> bytes:
    text = message.encode()
    header = struct.pack("<4sIIQQQ", b"TFDR", 1, status, len(manifest), len(body), len(text))
    return header + manifest + body + text


def kernel(name: str) -> bytes:
    manifest = (FOLDER / f"{name}.manifest").read_bytes()
    return answer(0, manifest, (FOLDER / f"{name}.o").read_bytes())


def send(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def read(count: int) -> bytes:
    data = sys.stdin.buffer.read(count)
    if len(data) < count:
        sys.exit(0)
    return data


def start() -> None:
    match behaviour()[0]:
        case "start_hang":
            time.sleep(1000)
        case "start_die":
            print("no such module", file=sys.stderr, flush=True)
            os._exit(7)
        case "start_rubbish":
            send(b"Hello, I am a banner of some library.\n" * 4)
        case "start_other":
            send(answer(0, message="ready another-2"))
        case _:
            send(answer(0, message=f"ready {FINGERPRINT}"))


def respond(request: dict[str, object]) -> None:
    word, *rest = behaviour()
    match word:
        case "kernel":
            send(kernel(rest[0]))
        case "rows":
            send(kernel(f"rows{request['cluster']['inputs'][0]['sizes'][0]}"))  # type: ignore[index]
        case "unsupported":
            send(answer(1, message='Mul "mul": no rule for it'))
        case "internal":
            send(answer(2, message="KeyError: 'mul'"))
        case "hang":
            time.sleep(1000)
        case "die":
            print("Fatal: out of registers", file=sys.stderr, flush=True)
            os._exit(3)
        case "rubbish":
            send(b"\x00rubbish" * 100)
        case "short":
            send(kernel("any")[:-20])
            os._exit(4)
        case "extra":
            send(kernel("any") + b"more")
        case "talk":
            sys.stderr.write("talk " * 100_000)
            sys.stderr.flush()
            send(kernel("any"))
        case "wait":
            while not (FOLDER / "go").exists():
                time.sleep(0.01)
            send(kernel("any"))
        case _:
            raise ValueError(word)


def main() -> None:
    start()
    while True:
        magic, version, length = struct.unpack("<4sIQ", read(16))
        assert (magic, version) == (b"TFDQ", 1), (magic, version)
        request = json.loads(read(length))
        with (FOLDER / "requests").open("a") as file:
            file.write(json.dumps(request) + "\n")
        respond(request)


if __name__ == "__main__":
    main()
