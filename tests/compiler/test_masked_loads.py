"""A pad reads its operand and nothing around it: the operand lies between pages that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import TARGETS, Program
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


CASES: list[tuple[tuple[int, ...], list[tuple[int, int]]]] = [
    ((3, 5), [(2, 3), (0, 0)]),
    ((3, 5), [(0, 0), (9, 40)]),
    ((1, 1), [(7, 7), (0, 1)]),
    # Axes without padding behind padded ones: read as one with them.
    ((2, 3, 5), [(1, 2), (0, 0), (0, 0)]),
    ((2, 3, 5), [(0, 0), (2, 1), (0, 0)]),
    ((2, 4, 5, 3), [(0, 0), (1, 2), (2, 3), (0, 0)]),
    ((2, 4, 5, 3), [(1, 0), (0, 0), (2, 3), (0, 0)]),
    ((2, 3, 4, 2), [(0, 1), (0, 0), (0, 0), (3, 0)]),
]


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("channels_known", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shape", "pairs"), CASES)
def test_pad_reads_only_its_operand(
    shape: tuple[int, ...],
    pairs: list[tuple[int, int]],
    target: str,
    channels_known: bool,
    at_end: bool,
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    w = ClusterWriter()
    known = [*[None] * (len(shape) - 1), shape[-1] if channels_known else None]
    padded = w.node("Pad", w.tensor("x", x, known), w.constant(pairs))
    turned = w.node("Transpose", padded, w.constant(list(range(len(shape)))[::-1]))
    program = Program(compile_cluster(w.cluster(padded, turned), target=target))
    fenced = Fenced(x, at_end)
    found = program([fenced.array])
    fenced.protect(mmap.PROT_READ | mmap.PROT_WRITE)
    np.testing.assert_array_equal(found[0], np.pad(x, pairs))
    np.testing.assert_array_equal(found[1], np.pad(x, pairs).T)


@pytest.mark.parametrize("target", TARGETS)
def test_pad_of_a_view_steps_over_what_the_view_leaves_out(target: str) -> None:
    """Behind each row of two elements memory goes on with a third: the padded axis and the last one stay two."""
    x = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
    pairs = [(0, 0), (1, 2), (0, 0)]
    w = ClusterWriter()
    value = w.tensor("x", x, [None, None, 3])
    part = w.node("Slice", value, w.constant([0, 0, 0]), w.constant([-1, -1, 2]))
    program = Program(
        compile_cluster(w.cluster(w.node("Pad", part, w.constant(pairs))), target=target)
    )
    np.testing.assert_array_equal(program([x])[0], np.pad(x[:, :, :2], pairs))


@pytest.mark.parametrize("target", TARGETS)
def test_pad_of_nothing_repeated_divides_by_no_size(target: str) -> None:
    """Rows come from the pad alone, and a position among none of the operand's would be divided by their number."""
    w = ClusterWriter()
    x = w.tensor("x", np.ones((2, 3), np.float32))
    repeated = w.node("Tile", x, w.constant([3, 1]))
    cluster = w.cluster(w.node("Pad", repeated, w.constant([[2, 0], [0, 3]])))
    program = Program(compile_cluster(cluster, target=target))
    for rows, columns in ((2, 3), (0, 3), (2, 0), (0, 0)):
        given = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        wanted = np.pad(np.tile(given, (3, 1)), [(2, 0), (0, 3)])
        np.testing.assert_array_equal(program([given])[0], wanted)
