"""Messages between the harness and a peer: a line of JSON, then the arrays that it names.

Arrays go as .npy, without pickle: the two sides have different versions of numpy.
"""

from __future__ import annotations

import io
import json
import struct
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def send(stream: IO[bytes], fields: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Writes one message and flushes."""
    arrays = arrays or {}
    stream.write(json.dumps({**fields, "arrays": list(arrays)}).encode() + b"\n")
    for array in arrays.values():
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array) if array.ndim else array, allow_pickle=False)
        data = buffer.getbuffer()
        stream.write(struct.pack("<Q", len(data)))
        stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Reads one message. Raises EOFError if the other side is gone."""
    line = stream.readline()
    if not line:
        raise EOFError("the other side closed the pipe")
    fields = json.loads(line)
    arrays = {}
    for name in fields.pop("arrays"):
        (size,) = struct.unpack("<Q", _exactly(stream, 8))
        arrays[name] = np.load(io.BytesIO(_exactly(stream, size)), allow_pickle=False)
    return fields, arrays


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError(f"{len(data)} bytes came of {size}")
    return data
