"""The compile worker: a process that reads requests and writes artifacts (docs/contracts.md 4).

It lives beside the user's process, so that neither Python's lock nor a crash of LLVM ever touches that one.
Only the protocol goes through standard output; everything that is printed goes to standard error.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import traceback
from typing import BinaryIO

from tf_disc.compiler.errors import UnsupportedError
from tf_disc.fingerprint import compiler_fingerprint

VERSION = 1
COMPILED, UNSUPPORTED, INTERNAL = 0, 1, 2
#: No cluster file is larger: a longer length is a broken stream.
MAX_REQUEST_BYTES = 1 << 30


def write_response(
    out: BinaryIO, status: int, manifest: str = "", object_bytes: bytes = b"", message: str = ""
) -> None:
    """One response frame."""
    texts = manifest.encode(), message.encode()
    head = b"TFDR" + struct.pack(
        "<IIQQQ", VERSION, status, len(texts[0]), len(object_bytes), len(texts[1])
    )
    out.write(head + texts[0] + object_bytes + texts[1])
    out.flush()


def read_request(source: BinaryIO) -> bytes | None:
    """The JSON of the next request, or None at the end of the stream. Raises ValueError on a broken one."""
    head = source.read(16)
    if not head:
        return None
    if len(head) < 16 or head[:4] != b"TFDQ":
        raise ValueError(f"not a request: {head[:16]!r}")
    version, length = struct.unpack("<IQ", head[4:])
    if version != VERSION or length > MAX_REQUEST_BYTES:
        raise ValueError(f"a request of version {version} and {length} bytes")
    body = source.read(length)
    if len(body) < length:
        raise ValueError(f"the stream ended after {len(body)} of {length} bytes")
    return body


def answer(body: bytes, out: BinaryIO) -> None:
    """Compiles one request and writes its response, whatever happens."""
    from tf_disc.compiler.pipeline import compile_cluster

    try:
        request = json.loads(body)
        artifact = compile_cluster(
            request["cluster"],
            target=request["target"],
            features=request.get("features", ""),
            precision=request.get("precision", "f32"),
            dump=request.get("dump", ""),
        )
    except UnsupportedError as e:
        write_response(out, UNSUPPORTED, message=str(e))
    except Exception as e:  # the boundary of the process: the caller falls back and shows the text
        traceback.print_exc()
        last = traceback.extract_tb(e.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        write_response(out, INTERNAL, message=f"{type(e).__name__} at {where}: {e}")
    else:
        write_response(out, COMPILED, artifact.manifest, artifact.object)


def serve(source: BinaryIO, out: BinaryIO) -> None:
    """Answers requests until the stream ends."""
    write_response(out, COMPILED, message=f"ready {compiler_fingerprint()}")
    while (body := read_request(source)) is not None:
        answer(body, out)


#: How far the worker stands behind the process that it compiles for (nice(1)).
NICENESS = 10


def main() -> int:
    """Entry of ``python -m tf_disc.compiler.worker``. One thread, which gives way to whoever serves."""
    os.nice(NICENESS)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the protocol
    try:
        serve(sys.stdin.buffer, out)
    except (ValueError, BrokenPipeError) as e:
        print(
            f"tf_disc compile worker: {e}; it ends, and the next compile starts another",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
