"""Steps of random_graphs.py that multiply and sum: Einsum, products of integers, gradients of a bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tests.compiler.random_graphs import Entry, _Maker, _Source

EXACT = 1 << 22
MAX_ELEMENTS = 1 << 15
_TYPES = ("f32", "f64", "i32", "i64")


def einsum(m: _Maker, s: _Source) -> None:
    """One or two operands; labels are shared where sizes agree, and the output has them in any order."""
    x = m.recent(s, lambda e: e.dtype in _TYPES and 1 <= len(e.shape) <= 4)
    if x is None:
        return
    sizes = dict(zip("abcd", x.shape, strict=False))
    operands = [(x, "".join(sizes))]
    other = m.recent(s, lambda e: e.dtype == x.dtype and len(e.shape) <= 4)
    if other is not None and s.below(4):
        operands.append((other, _labels_of(other, sizes)))
    chosen = s.below(1 << len(sizes))
    output = [label for i, label in enumerate(sizes) if chosen >> i & 1]
    if s.below(2):
        output.reverse()
    count = int(np.prod(list(sizes.values())))
    bound = int(np.prod([entry.bound for entry, _ in operands])) * max(count, 1)
    shape = [sizes[label] for label in output]
    if bound >= EXACT or count > 8 * MAX_ELEMENTS or int(np.prod(shape)) > MAX_ELEMENTS:
        return
    equation = ",".join(labels for _, labels in operands) + "->" + "".join(output)
    name = m.w.node("Einsum", *(entry.name for entry, _ in operands), equation=equation)
    m.add(name, x.dtype, shape, bound, all(entry.exact for entry, _ in operands))


def _labels_of(entry: Entry, sizes: dict[str, int]) -> str:
    """Labels for a second operand: those of the first where a size is the same, each once, else new ones."""
    labels = ""
    for size in entry.shape:
        free = [k for k, v in sizes.items() if v == size and k not in labels]
        label = free[0] if free else "efgh"[len(labels)]
        sizes[label] = size
        labels += label
    return labels


def typed_product(m: _Maker, s: _Source) -> None:
    """A value by its own transpose, in an element type of choice."""
    x = m.recent(s, lambda e: e.exact and e.dtype in _TYPES and len(e.shape) >= 2)
    if x is None:
        return
    dtype = s.of(_TYPES)
    adj_x = bool(s.below(2))
    n, k = x.shape[-1 if adj_x else -2], x.shape[-2 if adj_x else -1]
    shape = (*x.shape[:-2], n, n)
    bound = x.bound**2 * max(k, 1)
    if bound >= EXACT or int(np.prod(shape)) > MAX_ELEMENTS:
        return
    cast = m.w.node("Cast", x.name, SrcT=x.dtype, DstT=dtype) if x.dtype != dtype else x.name
    name = m.w.node("BatchMatMulV2", cast, cast, adj_x=adj_x, adj_y=not adj_x)
    m.add(name, dtype, shape, bound, True)


def bias_gradient(m: _Maker, s: _Source) -> None:
    """The sum over all axes but one."""
    x = m.recent(s, lambda e: e.dtype in _TYPES and len(e.shape) >= 2)
    if x is None:
        return
    layout = s.of(("NHWC", "NCHW"))
    channels = x.shape[1 if layout == "NCHW" else -1]
    count = int(np.prod(x.shape)) // max(channels, 1)
    bound = x.bound * max(count, 1)
    if bound < EXACT:
        name = m.w.node("BiasAddGrad", x.name, data_format=layout)
        m.add(name, x.dtype, (channels,), bound, x.exact)


def attention(m: _Maker, s: _Source) -> None:
    """Two products with up to three steps between them, of operands that are views or results."""
    x = m.recent(s, lambda e: e.dtype == "f32" and 2 <= len(e.shape) <= 4 and e.bound < 100)
    if x is None:
        return
    rank = len(x.shape)
    rows, width = x.shape[-2:]
    count = int(np.prod(x.shape[:-1])) * rows
    if count > MAX_ELEMENTS or x.bound**2 * max(width, 1) >= EXACT:
        return
    other = m.recent(s, lambda e: e.dtype == "f32" and e.shape == x.shape and e.bound < 100) or x
    bound = x.bound * other.bound * max(width, 1)
    attrs = {"adj_x": False, "adj_y": True}
    scores = m.w.node("BatchMatMulV2", x.name, other.name, **attrs)
    shape = (*x.shape[:-1], rows)
    if s.below(4) == 0:
        m.add(scores, "f32", shape, bound, x.exact and other.exact)
    y, exact = scores, x.exact and other.exact
    for _ in range(s.below(3)):
        mask = m.recent(
            s, lambda e: e.dtype in ("f32", "bool") and _spreads(e.shape, shape) and e.bound < 100
        )
        if mask is None:
            continue
        if mask.dtype == "bool":
            y = m.w.node("SelectV2", mask.name, y, m.w.constant(-3.0, "f32"))
        else:
            y = m.w.node("AddV2", y, mask.name)
            bound, exact = bound + mask.bound, exact and mask.exact
    if s.below(3) == 0:
        y = _causal(m, s, y, len(shape))
    if bound >= 80:
        y = m.w.node("Mul", y, m.w.constant(2.0**-20, "f32"))
        bound = 4
    kind = s.of(("Softmax", "Softmax", "Sigmoid", "Relu"))
    p = m.w.node(kind, y)
    m_bound = 1 if kind != "Relu" else bound
    if s.below(4) == 0:
        m.add(p, "f32", shape, m_bound, False)
    v = m.recent(s, lambda e: e.dtype == "f32" and e.shape == x.shape and e.bound < 100) or x
    if m_bound * v.bound * max(rows, 1) >= EXACT:
        return
    mixed = m.w.node("BatchMatMulV2", p, v.name, adj_x=False, adj_y=False)
    result = x.shape
    if rank > 2 and s.below(2):
        perm = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
        mixed = m.w.node("Transpose", mixed, m.w.constant(perm))
        result = tuple(x.shape[a] for a in perm)
    m.add(mixed, "f32", result, m_bound * v.bound * max(rows, 1), False)


def _causal(m: _Maker, s: _Source, scores: str, rank: int) -> str:
    """Columns up to the row's own, or one to either side of it; what is left out gets a fill that counts."""
    shape = m.w.node("Shape", scores, out_type="i32")

    def numbers(axis: int) -> str:
        ends = [m.w.constant([axis]), m.w.constant([axis + 1]), m.w.constant([1])]
        size = m.w.node("StridedSlice", shape, *ends, shrink_axis_mask=1)
        return m.w.node("Range", m.w.constant(0), size, m.w.constant(1))

    rows = m.w.node("ExpandDims", numbers(rank - 2), m.w.constant(1))
    shift = s.below(3) - 1
    rows = m.w.node("AddV2", rows, m.w.constant(shift))
    # A row without any column would be NaN.
    fill = m.w.constant(float("-inf") if shift == 0 else -3.0, "f32")
    if s.below(2):
        return m.w.node("SelectV2", m.w.node("Less", rows, numbers(rank - 1)), fill, scores)
    return m.w.node("SelectV2", m.w.node("GreaterEqual", rows, numbers(rank - 1)), scores, fill)


def _spreads(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


STEPS: tuple[Callable[[_Maker, _Source], None], ...] = (
    einsum,
    einsum,
    typed_product,
    bias_gradient,
    attention,
    attention,
)
