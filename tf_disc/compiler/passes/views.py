"""Which values are the elements of another one, read in another order.

`strided_view` follows reshapes, transposes, slices and broadcasts back to the value whose
memory they read; `through_broadcast` tells how an elementwise chain reads a repeated operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Op, Value

#: Ops that only say where an element comes from. They never get memory of their own.
INDEX_MAPS = frozenset(
    {
        "reshape",
        "transpose",
        "slice",
        "pad",
        "window",
        "broadcast",
        "gather",
        "iota",
        "const",
        "sizes",
    }
)


@dataclass(frozen=True)
class View:
    """Element [i, j, …] is element offset + i * strides[0] + j * strides[1] + … of `base`'s memory."""

    base: Value
    offset: Dim
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]

    @property
    def contiguous(self) -> bool:
        """True when it is all of a row-major array in order."""
        return self.offset == 0 and self.strides == row_major(self.dims)


def has_dense_rows(view: View) -> bool:
    """True for a matrix whose rows are runs of memory, each a fixed step after the one before."""
    (rows, columns), (m, n) = view.strides[-2:], view.dims[-2:]
    forward = m.is_one or (rows != 0 and rows.lower_bound >= 0)
    return len(view.dims) == 2 and (columns == 1 or n.is_one) and forward


def row_major(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Strides of a dense array; those of axes of size 1 as if they were larger."""
    strides: list[Dim] = []
    step = as_dim(1)
    for d in reversed(dims):
        strides.append(step)
        step = step * d
    return tuple(reversed(strides))


def collapsed(
    dims: Sequence[Dim], strides: Sequence[Dim]
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The same elements in the same order over as few axes as strides allow; axes of size 1 drop out."""
    kept: list[tuple[Dim, Dim]] = []
    for d, s in zip(dims, strides, strict=True):
        if d.is_one:
            continue
        if kept and kept[-1][1] == s * d:
            kept[-1] = (kept[-1][0] * d, s)
        else:
            kept.append((d, s))
    return tuple(d for d, _ in kept), tuple(s for _, s in kept)


@dataclass(frozen=True)
class PaddedAxis:
    """One axis of a pad: `old` elements of memory `step` apart go to begin, begin + stride, … of `new`."""

    begin: Dim
    stride: int
    old: Dim
    new: Dim
    step: Dim


def padded_axes(
    op: Op, strides: Sequence[Dim], first: int = 0, last: int | None = None
) -> list[PaddedAxis]:
    """The axes [first, last) of a pad of a view with these strides.

    An axis without padding is one with the axis in front of it, where the strides say that memory goes on.
    """
    axes: list[PaddedAxis] = []
    columns = (op.attrs["begin"], op.attrs["strides"], op.operands[0].dims, op.result.dims, strides)
    for begin, stride, old, new, step in list(zip(*columns, strict=True))[first:last]:
        axis = PaddedAxis(begin, stride, old, new, step)
        whole = begin == 0 and stride == 1 and old == new
        front = axes[-1] if axes else None
        if whole and front is not None and front.stride == 1 and front.step == step * old:
            axis = PaddedAxis(front.begin * old, 1, front.old * old, front.new * old, step)
            axes.pop()
        axes.append(axis)
    return axes


def reshape_groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[range, range]]:
    """Cuts two shapes of one element count into the shortest runs of axes that hold the same elements.

    [b, 12, 32] and [b, 384] give ([0], [0]) and ([1, 2], [1]). Sizes of 1 belong to the run before.
    """
    lefts = [as_dim(1)]
    for d in old:
        lefts.append(lefts[-1] * d)
    cuts = [(0, 0)]
    right = as_dim(1)
    for j, d in enumerate(new, 1):
        right = right * d
        if d.is_one:
            continue
        for k in range(cuts[-1][0] + 1, len(lefts)):
            if lefts[k] == right:
                cuts.append((k, j))
                break
    i, j = cuts[-1]
    only_ones = all(d.is_one for d in old[i:]) and all(d.is_one for d in new[j:])
    if only_ones and len(cuts) > 1:
        cuts[-1] = (len(old), len(new))
    elif (i, j) != (len(old), len(new)):
        cuts.append((len(old), len(new)))
    return [(range(a, c), range(b, d)) for (a, b), (c, d) in zip(cuts, cuts[1:], strict=False)]


def strided_view(value: Value) -> View | None:
    """The view of its base that `value` is, or None where strides cannot say it."""
    op = value.op
    if op is None or op.name not in INDEX_MAPS:
        return View(value, as_dim(0), value.dims, row_major(value.dims))
    if op.name in ("pad", "gather", "iota", "const", "sizes"):
        return None
    if op.name == "window" and not op.attrs["inside"]:
        return None
    inner = strided_view(op.operands[0])
    if inner is None:
        return None
    if op.name == "transpose":
        return View(
            inner.base, inner.offset, value.dims, tuple(inner.strides[p] for p in op.attrs["perm"])
        )
    if op.name == "slice":
        offset = inner.offset
        strides = []
        for begin, stride, base in zip(
            op.attrs["begin"], op.attrs["strides"], inner.strides, strict=True
        ):
            offset = offset + begin * base
            strides.append(base * stride)
        return View(inner.base, offset, value.dims, tuple(strides))
    if op.name == "window":
        axes = inner.strides[1:-1]
        places = [s * by for s, by in zip(axes, op.attrs["strides"], strict=True)]
        elements = [s * by for s, by in zip(axes, op.attrs["dilations"], strict=True)]
        moved = (inner.strides[0], *places, *elements, inner.strides[-1])
        return View(inner.base, inner.offset, value.dims, moved)
    if op.name == "broadcast":
        pad = len(value.dims) - len(inner.dims)
        strides = [as_dim(0)] * pad
        for d, e, s in zip(inner.dims, value.dims[pad:], inner.strides, strict=True):
            strides.append(as_dim(0) if d.is_one and not e.is_one else s)
        return View(inner.base, inner.offset, value.dims, tuple(strides))
    return _reshaped(inner, value)


def _reshaped(inner: View, value: Value) -> View | None:
    if inner.contiguous:
        return View(inner.base, inner.offset, value.dims, row_major(value.dims))
    strides: list[Dim] = [as_dim(0)] * len(value.dims)
    for old, new in reshape_groups(inner.dims, value.dims):
        axes = [a for a in old if not inner.dims[a].is_one]
        for a, b in zip(axes, axes[1:], strict=False):
            if inner.strides[a] != inner.strides[b] * inner.dims[b]:
                return None
        step = inner.strides[axes[-1]] if axes else as_dim(1)
        for a in reversed(new):
            strides[a] = step
            step = step * value.dims[a]
    return View(inner.base, inner.offset, value.dims, tuple(strides))


FULL, ROW = "full", "row"


def through_broadcast(out: Sequence[Dim], inner: Sequence[Dim], rows: Dim | None) -> str | None:
    """How a broadcast read at every element of `out` reads its operand: in the same order, a row at a time, or neither.

    Row: the operand's elements are the first axes of `out`, whose count is `rows` (any count when rows is None).
    """
    pad = len(out) - len(inner)
    full = [as_dim(1)] * pad + list(inner)
    if all(a == b for a, b in zip(out, full, strict=True)):
        return FULL
    cut = len(out)
    while cut > 0 and full[cut - 1].is_one:
        cut -= 1
    if any(a != b for a, b in zip(out[:cut], full[:cut], strict=True)):
        return None
    while cut < len(out) and out[cut].is_one:
        cut += 1
    # Trailing ones of the operand may belong to the rows: [b, 1] read as [b, n].
    return ROW if rows is None or product(out[:cut]) == rows else None


def trailing_reduction(op: Op) -> bool:
    """True for a reduction of the last axes; false for one of earlier axes alone."""
    return op.name.startswith("reduce_") and op.attrs["axes"][-1] == len(op.operands[0].dims) - 1


def splits(dims: tuple[Dim, ...], rows: Dim) -> int | None:
    """How many leading axes make up the rows; None when no cut gives them."""
    count = product(())
    for k in range(len(dims) + 1):
        if count == rows:
            return k
        if k < len(dims):
            count = count * dims[k]
    return None


def in_order(value: Value, level: str, rows: Dim | None) -> tuple[Value, str] | None:
    """Follows reshapes and broadcasts back to a value that is read in the loop's own order, with the level read at.

    None when an index map in between changes the order.
    """
    while value.op is not None and value.op.name in INDEX_MAPS:
        op = value.op
        if op.name == "broadcast":
            step = through_broadcast(value.dims, op.operands[0].dims, rows)
            if step is None or (step == ROW and (level == ROW or rows is None)):
                return None
            level = ROW if ROW in (step, level) else FULL
        elif op.name != "reshape":
            return None
        value = op.operands[0]
    return value, level
