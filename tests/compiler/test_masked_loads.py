"""A pad reads its operand and nothing around it: the operand lies between pages that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import Program, host_target
from tf_disc.compiler.pipeline import compile_cluster

LIBC = ctypes.CDLL(None, use_errno=True)


class Fenced:
    """An array of which the first or the last byte lies next to a page without access."""

    def __init__(self, values: Any, at_end: bool) -> None:
        page = mmap.PAGESIZE
        assert values.nbytes <= page
        self.memory = mmap.mmap(-1, 3 * page)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        offset = 2 * page - values.nbytes if at_end else page
        raw = np.frombuffer(self.memory, np.uint8, values.nbytes, offset)
        self.array = raw.view(values.dtype).reshape(values.shape)
        self.array[...] = values
        self.protect(0)

    def protect(self, access: int) -> None:
        """Sets the access of the pages around."""
        for at in (0, 2 * mmap.PAGESIZE):
            where = ctypes.c_void_p(self.start + at)
            assert LIBC.mprotect(where, ctypes.c_size_t(mmap.PAGESIZE), access) == 0


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("target", sorted({"x86-64-v3", host_target()}))
@pytest.mark.parametrize(
    ("shape", "pairs"),
    [((3, 5), [(2, 3), (0, 0)]), ((3, 5), [(0, 0), (9, 40)]), ((1, 1), [(7, 7), (0, 1)])],
)
def test_pad_reads_only_its_operand(
    shape: tuple[int, ...], pairs: list[tuple[int, int]], target: str, at_end: bool
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    w = ClusterWriter()
    padded = w.node("Pad", w.tensor("x", x), w.constant(pairs))
    turned = w.node("Transpose", padded, w.constant([1, 0]))
    program = Program(compile_cluster(w.cluster(padded, turned), target=target))
    fenced = Fenced(x, at_end)
    found = program([fenced.array])
    fenced.protect(mmap.PROT_READ | mmap.PROT_WRITE)
    np.testing.assert_array_equal(found[0], np.pad(x, pairs))
    np.testing.assert_array_equal(found[1], np.pad(x, pairs).T)
