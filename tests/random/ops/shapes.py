"""Ops that change or state shapes. What says a shape is a Const, or computed in the graph from Shapes."""

from __future__ import annotations

from typing import Any

from tests.random.maker import Builder, Maker, product_of
from tests.random.recipe import Dim, Operand, Type
from tf_disc.compiler.op_rules.record import OpRule


def sizes(m: Maker, value: int, dims: list[int | tuple[int, int]], dtype: str) -> Operand:
    """A vector of sizes: numbers, and sizes of values, as a Const where all are numbers."""
    if all(isinstance(d, int) for d in dims) and m.src.chance(60):
        return {"const": dims, "dtype": dtype, "dims": [len(dims)]}
    return {"sizes": [list(d) if isinstance(d, tuple) else d for d in dims], "dtype": dtype}


def terms(value: int, dims: tuple[Dim, ...]) -> list[int | tuple[int, int]]:
    """Each dim as a vector of sizes may hold it: a number, or the value's size there."""
    return [d if isinstance(d, int) else (value, i) for i, d in enumerate(dims)]


def _reshape(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"])
    t = m.types[x]
    index = m.src.of(rule.dtypes["Tshape"])
    rank, way = len(t.dims), m.src.integer(0, 5)
    part = terms(x, t.dims)
    new: list[Dim] = list(t.dims)
    if way == 0:  # all in one
        new, part = [product_of(t.dims)], [-1]
    elif way == 1 and rank >= 2:  # two neighbours in one
        at = m.src.integer(0, rank - 2)
        new = [*t.dims[:at], product_of(t.dims[at : at + 2]), *t.dims[at + 2 :]]
        part = [*part[:at], -1, *part[at + 2 :]]
    elif way == 2:  # a new one
        at = m.src.integer(0, rank)
        new.insert(at, 1)
        part.insert(at, 1)
    elif way == 3 and any(isinstance(d, int) and d > 3 and d % 2 == 0 for d in t.dims):  # split
        at = m.src.of(
            [i for i, d in enumerate(t.dims) if isinstance(d, int) and d > 3 and d % 2 == 0]
        )
        halves: tuple[int, int] = (2, int(t.dims[at]) // 2)
        new[at : at + 1], part[at : at + 1] = list(halves), list(halves)
    elif way == 4 and rank >= 2:  # other order of the same sizes
        order = m.src.integer(1, rank - 1)
        new, part = new[order:] + new[:order], part[order:] + part[:order]
    elif rank and m.src.chance(60):  # as it is, one size left to TensorFlow
        part[m.src.integer(0, rank - 1)] = -1
    if not m.fits(new):
        return False
    m.add("Reshape", [x, sizes(m, x, part, index)], [Type(t.dtype, tuple(new))])
    return True


def _expand_dims(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 0, 4)
    t = m.types[x]
    at = m.src.integer(0, len(t.dims))
    axis = at - len(t.dims) - 1 if m.src.chance(40) else at
    index = m.src.of(rule.dtypes["Tdim"])
    m.add(
        "ExpandDims", [x, m.constant(axis, index)], [Type(t.dtype, (*t.dims[:at], 1, *t.dims[at:]))]
    )
    return True


def _squeeze(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    ones = [i for i, d in enumerate(t.dims) if d == 1]
    axes = m.src.some(ones, 2)
    if not axes:
        return False
    dims = tuple(d for i, d in enumerate(t.dims) if i not in axes)
    named = [a - len(t.dims) if m.src.chance(30) else a for a in axes]
    m.add("Squeeze", [x], [Type(t.dtype, dims)], {"axis": named})
    return True


def _transpose(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], 1)
    t = m.types[x]
    left, perm = list(range(len(t.dims))), []
    while left:
        perm.append(left.pop(m.src.integer(0, len(left) - 1)))
    index = m.src.of(rule.dtypes["Tperm"])
    m.add(
        "Transpose", [x, m.constant(perm, index)], [Type(t.dtype, tuple(t.dims[p] for p in perm))]
    )
    return True


def _broadcast_to(m: Maker, rule: OpRule) -> bool:
    like = m.pick(m.dtype_names(), 0, 4)
    dims = m.types[like].dims
    x = m.new_input(Type(m.dtype(rule.dtypes["T"]), m.part_of(dims)))
    index = m.src.of(rule.dtypes["Tidx"])
    shape = sizes(m, like, terms(like, dims), index)
    m.add("BroadcastTo", [x, shape], [Type(m.types[x].dtype, dims)])
    return True


def _fill(m: Maker, rule: OpRule) -> bool:
    like = m.pick(m.dtype_names(), 0, 4)
    dims = m.types[like].dims
    dtype = m.dtype(rule.dtypes["T"])
    scalars = m.all((dtype,), 0, 0)
    number = m.src.of(scalars) if scalars and m.src.chance(60) else m.scalar(dtype)
    index = m.src.of(rule.dtypes.get("index_type", ("i32",)))
    m.add("Fill", [sizes(m, like, terms(like, dims), index), number], [Type(dtype, dims)])
    return True


def _shape(m: Maker, rule: OpRule) -> bool:
    x = m.pick(m.dtype_names(), 1)
    to = m.src.of(rule.dtypes["out_type"])
    m.add("Shape", [x], [Type(to, (len(m.types[x].dims),))], {"out_type": to})
    return True


def _shape_n(m: Maker, rule: OpRule) -> bool:
    x = m.pick(m.dtype_names(), 1)
    values = [x, m.src.of(m.all((m.types[x].dtype,), 1))]
    to = m.src.of(rule.dtypes["out_type"])
    m.add("ShapeN", [values], [Type(to, (len(m.types[v].dims),)) for v in values], {"out_type": to})
    return True


def _size(m: Maker, rule: OpRule) -> bool:
    to = m.src.of(rule.dtypes["out_type"])
    m.add("Size", [m.pick(m.dtype_names())], [Type(to, ())], {"out_type": to})
    return True


def _rank(m: Maker, rule: OpRule) -> bool:
    m.add("Rank", [m.pick(m.dtype_names())], [Type("i32", ())])
    return True


def _range(m: Maker, rule: OpRule) -> bool:
    """From a number to a size, by steps of either sign."""
    dtype = m.src.of([d for d in rule.dtypes["Tidx"] if d in ("i32", "i64")])
    like = m.pick(m.dtype_names(), 1)
    at = m.src.integer(0, len(m.types[like].dims) - 1)
    dim = m.types[like].dims[at]
    step = m.src.of((1, 1, 2, 3, -1, -2))
    size: dict[str, Any] = {"sizes": [[like, at]], "dtype": dtype, "scalar": True}
    zero, by = m.constant(0, dtype), m.constant(step, dtype)
    count: Dim = dim if abs(step) == 1 else ceil_div(dim, abs(step))
    m.add("Range", [zero, size, by] if step > 0 else [size, zero, by], [Type(dtype, (count,))])
    return True


def ceil_div(dim: Dim, by: int) -> Dim:
    """The dim over a number, rounded up."""
    return -(-dim // by) if isinstance(dim, int) else f"(({dim}+{by - 1})//{by})"


def _broadcast_args(m: Maker, rule: OpRule) -> bool:
    x = m.pick(m.dtype_names(), 1, 4)
    y = m.partner(x)
    if not isinstance(y, int):
        return False
    index = m.src.of(rule.dtypes.get("T", ("i32",)))
    shapes = [sizes(m, v, terms(v, m.types[v].dims), index) for v in (x, y)]
    rank = max(len(m.types[v].dims) for v in (x, y))
    m.add("BroadcastArgs", shapes, [Type(index, (rank,))])
    return True


BUILDERS: dict[str, Builder] = {
    "Reshape": _reshape,
    "ExpandDims": _expand_dims,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "BroadcastTo": _broadcast_to,
    "BroadcastArgs": _broadcast_args,
    "Fill": _fill,
    "Shape": _shape,
    "ShapeN": _shape_n,
    "Size": _size,
    "Rank": _rank,
    "Range": _range,
}
