"""Operands of a product as matrices in memory, whatever the batch is made of.

A product walks its batch by one number, so its operands may cut that number into more axes than the batch
has: keys of 2 heads that are repeated for 8 (broadcast to [b, 2, 4, …], reshaped to [b, 8, …]) are read where they
lie, with a stride of 0 along the axis of 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.passes.views import (
    INDEX_MAPS,
    View,
    collapsed,
    reshape_groups,
    row_major,
)

#: An axis of a value as the axes of memory that it is made of: sizes and strides, the outermost first.
_Axis = tuple[tuple[Dim, Dim], ...]


def matrix_view(value: Value) -> View | None:
    """A value [batch…, m, n] as a view [axes…, m, n], where axes are the batch cut as memory has it.

    None where a row or a column is not one stride, or where strides cannot say what is read.
    """
    found = _axes(value)
    if found is None:
        return None
    base, offset, axes = found
    batch = collapsed(*_unzipped([part for axis in axes[:-2] for part in axis]))
    dims, strides = list(batch[0]), list(batch[1])
    for axis, size in zip(axes[-2:], value.dims[-2:], strict=True):
        sizes, steps = collapsed(*_unzipped(axis))
        if len(sizes) > 1:
            return None
        dims.append(size)
        strides.append(steps[0] if steps else as_dim(1))
    # The stride of an axis of size 1 means nothing: as if the matrix were dense.
    if dims[-2].is_one:
        strides[-2] = dims[-1] * strides[-1]
    return View(base, offset, tuple(dims), tuple(strides))


def _unzipped(parts: Sequence[tuple[Dim, Dim]]) -> tuple[list[Dim], list[Dim]]:
    return [d for d, _ in parts], [s for _, s in parts]


def _axes(value: Value) -> tuple[Value, Dim, list[_Axis]] | None:
    """The base, the offset and each axis of a view."""
    op = value.op
    if op is None or op.name not in INDEX_MAPS:
        parts = zip(value.dims, row_major(value.dims), strict=True)
        return value, as_dim(0), [((d, s),) for d, s in parts]
    if op.name in ("pad", "window", "gather", "iota", "const", "sizes"):
        return None
    inner = _axes(op.operands[0])
    if inner is None:
        return None
    base, offset, axes = inner
    if op.name == "transpose":
        return base, offset, [axes[p] for p in op.attrs["perm"]]
    if op.name == "broadcast":
        return base, offset, _broadcast(axes, op.operands[0].dims, value.dims)
    if op.name == "slice":
        cut = []
        old = op.operands[0].dims
        for axis, begin, stride, d, size in zip(
            axes, op.attrs["begin"], op.attrs["strides"], old, value.dims, strict=True
        ):
            if begin == 0 and stride == 1 and d == size:
                cut.append(axis)
                continue
            if len(axis) != 1:
                return None
            step = axis[0][1]
            offset = offset + begin * step
            cut.append(((size, step * stride),))
        return base, offset, cut
    reshaped = _reshaped(axes, op.operands[0].dims, value.dims)
    return None if reshaped is None else (base, offset, reshaped)


def _broadcast(axes: list[_Axis], old: Sequence[Dim], new: Sequence[Dim]) -> list[_Axis]:
    pad = len(new) - len(old)
    result: list[_Axis] = [((d, as_dim(0)),) for d in new[:pad]]
    for axis, d, e in zip(axes, old, new[pad:], strict=True):
        result.append(((e, as_dim(0)),) if d.is_one and not e.is_one else axis)
    return result


def _reshaped(axes: list[_Axis], old: Sequence[Dim], new: Sequence[Dim]) -> list[_Axis] | None:
    result: list[_Axis] = [((d, as_dim(1)),) for d in new]
    for before, after in reshape_groups(old, new):
        sizes, strides = collapsed(*_unzipped([p for a in before for p in axes[a]]))
        if len(sizes) <= 1:
            step = strides[0] if strides else as_dim(1)
            for a in reversed(after):
                result[a] = ((new[a], step),)
                step = step * new[a]
            continue
        # The axes of memory are dealt out to the new axes from the last.
        left = list(zip(sizes, strides, strict=True))
        for a in reversed(after):
            mine: list[tuple[Dim, Dim]] = []
            while product(d for d, _ in mine) != new[a]:
                if not left:
                    return None
                mine.insert(0, left.pop())
            result[a] = tuple(mine) or ((as_dim(1), as_dim(1)),)
        if left:
            return None
    return result
