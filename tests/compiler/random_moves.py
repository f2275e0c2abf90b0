"""Steps of random clusters that move elements: padding, repetition, other orders, picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tests.compiler.random_graphs import Entry, _Maker, _Source

MAX_ELEMENTS = 1 << 15
EXACT = 1 << 22


def pad(m: _Maker, s: _Source) -> None:
    """Zeros or a number around one or two axes."""
    x = m.recent(s, lambda e: 0 < len(e.shape) < 5)
    if x is None:
        return
    pairs = [(0, 0)] * len(x.shape)
    for _ in range(2):
        pairs[s.below(len(pairs))] = s.of([(1, 1), (0, 3), (2, 0), (17, 1)])
    shape = [d + sum(p) for d, p in zip(x.shape, pairs, strict=True)]
    if int(np.prod(shape)) > MAX_ELEMENTS:
        return
    paddings = m.w.constant(pairs)
    if x.dtype == "f32" and s.below(2):
        name = m.w.node("PadV2", x.name, paddings, m.w.constant(2.0, "f32"))
    else:
        name = m.w.node("Pad", x.name, paddings)
    m.add(name, x.dtype, shape, max(x.bound, 2), x.exact)


def mirror(m: _Maker, s: _Source) -> None:
    """The mirror image of a large enough axis."""
    x = m.recent(s, lambda e: any(d >= 3 for d in e.shape) and 0 not in e.shape)
    if x is None:
        return
    axis = s.of([i for i, d in enumerate(x.shape) if d >= 3])
    front, back = s.of([(1, 2), (2, 0), (0, 1)])
    pairs = [(front, back) if i == axis else (0, 0) for i in range(len(x.shape))]
    shape = [d + sum(p) for d, p in zip(x.shape, pairs, strict=True)]
    name = m.w.node("MirrorPad", x.name, m.w.constant(pairs), mode=s.of(["REFLECT", "SYMMETRIC"]))
    m.add(name, x.dtype, shape, x.bound, x.exact)


def tile(m: _Maker, s: _Source) -> None:
    """Repeats one axis."""
    x = m.recent(s, lambda e: 0 < len(e.shape) < 5)
    if x is None:
        return
    axis, times = s.below(len(x.shape)), s.of([2, 3, 1, 0])
    multiples = [times if i == axis else 1 for i in range(len(x.shape))]
    shape = [d * n for d, n in zip(x.shape, multiples, strict=True)]
    if int(np.prod(shape)) <= MAX_ELEMENTS:
        m.add(m.w.node("Tile", x.name, m.w.constant(multiples)), x.dtype, shape, x.bound, x.exact)


def turn(m: _Maker, s: _Source) -> None:
    """An axis backwards, or its end first."""
    x = m.recent(s, lambda e: len(e.shape) > 0)
    assert x is not None
    axis = m.w.constant([s.below(len(x.shape))])
    if s.below(2):
        name = m.w.node("ReverseV2", x.name, axis)
    else:
        name = m.w.node("Roll", x.name, m.w.constant([s.of([1, -2, 40])]), axis)
    m.add(name, x.dtype, x.shape, x.bound, x.exact)


def one_hot(m: _Maker, s: _Source) -> None:
    """Classes of small integers, some of them out of range."""
    x = m.recent(s, lambda e: e.dtype in ("i32", "i64") and len(e.shape) < 4)
    if x is None:
        return
    depth, axis = s.of([1, 5, 17]), s.below(len(x.shape) + 1)
    shape = (*x.shape[:axis], depth, *x.shape[axis:])
    if int(np.prod(shape)) > MAX_ELEMENTS:
        return
    numbers = [m.w.constant(depth), m.w.constant(2.0, "f32"), m.w.constant(-1.0, "f32")]
    m.add(m.w.node("OneHot", x.name, *numbers, axis=axis), "f32", shape, 2, True)


def gather_nd(m: _Maker, s: _Source) -> None:
    """Picks by tuples of one or two components."""
    x = m.recent(s, lambda e: len(e.shape) > 1 and min(e.shape[:2]) >= 2 and 0 not in e.shape)
    if x is None:
        return
    depth = 1 + s.below(2)
    index = np.arange(3 * depth).reshape(3, depth) % 2
    name = m.w.node("GatherNd", x.name, m.w.constant(index, s.of(["i32", "i64"])))
    m.add(name, x.dtype, (3, *x.shape[depth:]), x.bound, x.exact)


def scan(m: _Maker, s: _Source) -> None:
    """A running sum."""
    x = m.recent(s, lambda e: e.dtype in ("f32", "i32", "i64") and len(e.shape) > 0)
    if x is None:
        return
    axis = s.below(len(x.shape))
    bound = x.bound * max(x.shape[axis], 1)
    if bound >= EXACT:
        return
    flags = {"exclusive": bool(s.below(2)), "reverse": bool(s.below(2))}
    name = m.w.node("Cumsum", x.name, m.w.constant(axis), **flags)
    m.add(name, x.dtype, x.shape, bound, x.exact)


def segments(m: _Maker, s: _Source) -> None:
    """Sums or extremes of rows by the numbers of an input, or by fixed ones of which some are dropped."""
    x = m.recent(s, lambda e: e.dtype in ("f32", "i32") and len(e.shape) > 0)
    if x is None:
        return
    bound = x.bound * max(x.shape[0], 1)
    if bound >= EXACT:
        return
    by_input = x.shape[0] == m.sizes["b"] and s.below(2)
    ids = "x6" if by_input else m.w.constant(np.arange(x.shape[0]) % 4 - 1)
    op = s.of(["UnsortedSegmentSum", "UnsortedSegmentMax"])
    name = m.w.node(op, x.name, ids, m.w.constant(5))
    if op == "UnsortedSegmentMax":
        floor = m.w.node("Cast", m.w.constant(-9), SrcT="i32", DstT=x.dtype)
        name = m.w.node("Maximum", name, floor)
    m.add(name, x.dtype, (5, *x.shape[1:]), max(bound, 9), x.exact)


def scatter(m: _Maker, s: _Source) -> None:
    """A few rows changed."""

    def fits(e: Entry) -> bool:
        # TensorFlow refuses to write into nothing.
        small = e.dtype in ("f32", "i32") and e.bound < 1000
        return small and e.shape[:1] > (1,) and 0 not in e.shape

    x = m.recent(s, fits)
    if x is None:
        return
    y = m.recent(s, lambda e: e.dtype == x.dtype and e.shape == x.shape[1:] and e.bound < 1000)
    if y is None:
        return
    rows = m.w.node("Pack", y.name, y.name, y.name, axis=0)
    at = m.w.constant([[1], [0], [1]])
    op = s.of(["TensorScatterAdd", "TensorScatterUpdate"])
    name = m.w.node(op, x.name, at, rows)
    m.add(name, x.dtype, x.shape, x.bound + 2 * y.bound, x.exact and y.exact)


STEPS = (pad, mirror, tile, turn, one_hot, gather_nd, pad, turn, scan, segments, scatter)
