"""Ops that change or say shapes: reshape, transpose, repetition, shape arithmetic."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, INDEX
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    i32,
    same_as_first,
    scalar_i32,
)

# -- reshape and its kin ---------------------------------------------------------


def _reshape_shape(c: RuleContext) -> list[Dims]:
    total = c[0].tensor.num_elements
    dims = list(c.sizes(1))
    unknown = []
    for i, d in enumerate(dims):
        if d.value is None and c.b.hint(d) < 0:
            c.b.require(d, "==", -1, "a size given as -1")
            d = as_dim(-1)
        if d.value == -1:
            unknown.append(i)
        else:
            c.b.require(d, ">=", 0, "a size is not negative")
        dims[i] = d
    if len(unknown) > 1:
        raise c.unsupported("more than one size is -1")
    if unknown:
        known = product(d for i, d in enumerate(dims) if i != unknown[0])
        c.b.require(known, "!=", 0, "the size for -1 follows from the others")
        dims[unknown[0]] = total // known
    c.b.require(product(dims), "==", total, "Reshape keeps the number of elements")
    return [tuple(dims)]


def _reshape(c: RuleContext) -> Value:
    return c.b.reshape(c[0], _reshape_shape(c)[0])


def _expand_shape(c: RuleContext) -> list[Dims]:
    (at,) = c.constant(1)
    axis = c.axis(at, len(c[0].dims) + 1)
    return [(*c[0].dims[:axis], as_dim(1), *c[0].dims[axis:])]


def _squeeze_shape(c: RuleContext) -> list[Dims]:
    rank = len(c[0].dims)
    axes = [c.axis(a, rank) for a in c.attr("squeeze_dims", [])]
    if not axes:
        for i, d in enumerate(c[0].dims):
            if d.value is None:
                raise c.unsupported(
                    f"which axes are 1 is not known before the call (axis {i} is {d})"
                )
        axes = [i for i, d in enumerate(c[0].dims) if d.is_one]
    for a in axes:
        c.b.require(c[0].dims[a], "==", 1, "a squeezed axis has size 1")
    return [tuple(d for i, d in enumerate(c[0].dims) if i not in axes)]


def _perm(c: RuleContext) -> list[int]:
    rank = len(c[0].dims)
    perm = c.axes(1, rank)
    if sorted(perm) != list(range(rank)):
        raise c.unsupported(f"{perm} is not a permutation of {rank} axes")
    return perm


def _broadcast_to_shape(c: RuleContext) -> list[Dims]:
    target = c.sizes(1)
    for d in target:
        c.b.require(d, ">=", 0, "a size is not negative")
    dims = c[0].dims
    if len(dims) > len(target):
        raise c.unsupported("BroadcastTo never lowers the rank")
    for a, b in zip(dims, target[len(target) - len(dims) :], strict=True):
        if not a.is_one and a != b:
            c.b.require(a, "==", 1 if c.b.hint(a) == 1 and c.b.hint(b) != 1 else b, "BroadcastTo")
    return [tuple(target)]


def _fill_shape(c: RuleContext) -> list[Dims]:
    for d in c.sizes(0):
        c.b.require(d, ">=", 0, "a size is not negative")
    return [c.sizes(0)]


# -- sizes ---------------------------------------------------------------------------


def _range_size(c: RuleContext) -> tuple[Dim, Dim, int]:
    (start,), (limit,), (delta,) = c.sizes(0), c.sizes(1), c.sizes(2)
    if delta.value is None:
        c.b.require(delta, "==", c.b.hint(delta), "Range: the step")
    step = c.b.hint(delta)
    if step == 0:
        raise c.unsupported("Range with a step of 0")
    span = limit - start if step > 0 else start - limit
    c.b.require(span, ">=", 0, "Range: start and limit are in order")
    return start, (span + (abs(step) - 1)) // abs(step), step


def _range(c: RuleContext) -> Value:
    _, size, step = _range_size(c)
    dtype = c[0].dtype
    value = c.b.iota(size, dtype)
    if step != 1:
        value = c.b.elementwise("mul", value, c.b.scalar(step, dtype))
    if c.sizes(0)[0] != 0:
        value = c.b.elementwise("add", value, c[0])
    return value


def _filled(c: RuleContext, number: float) -> Value:
    dtype = c[0].dtype
    fill: object = (
        bool(number) if dtype == "bool" else number if dtype in ("f32", "f64") else int(number)
    )
    return c.b.broadcast(c.b.scalar(fill, dtype), c[0].dims)


RULES: list[OpRule] = [
    OpRule(
        "Reshape", {"T": ANY, "Tshape": INDEX}, _reshape_shape, _reshape,
        (
            Example((Arg("f32", (4, 6)), i32(8, 3))), Example((Arg("f32", (4, 6)), i32(2, -1, 3))),
            Example((Arg("f32", (0, 6)), i32(3, 0, 2))), Example((Arg("i64", (6,)), i32(-1, 2))),
            Example((Arg("f32", (1,)), Arg("i32", (0,), values=()))), Example((Arg("bool", (2, 3)), i32(3, 2))),
            Example((Arg("f32", (4, 6)), i32(5, 5)), error="InvalidArgument"),
            Example((Arg("f32", (4, 6)), i32(-1, -1)), error="InvalidArgument"),
        ),
        cost="free", by_length=(1,),
    ),
    OpRule(
        "ExpandDims", {"T": ANY, "Tdim": INDEX}, _expand_shape, lambda c: c.b.reshape(c[0], _expand_shape(c)[0]),
        tuple(Example((Arg("f32", (2, 3)), scalar_i32(a))) for a in (0, 1, 2, -1, -3)),
        cost="free", by_value=(1,),
    ),
    OpRule(
        "Squeeze", {"T": ANY}, _squeeze_shape, lambda c: c.b.reshape(c[0], _squeeze_shape(c)[0]),
        (
            Example((Arg("f32", (2, 1, 3, 1)),), {"axis": (1,)}), Example((Arg("f32", (2, 1, 3, 1)),), {"axis": (-1, 1)}),
            Example((Arg("f32", (2, 2, 3, 1)),), {"axis": (1,)}, error="InvalidArgument"),
        ),
        cost="free",
    ),
    OpRule(
        "Transpose", {"T": ANY, "Tperm": INDEX}, lambda c: [tuple(c[0].dims[p] for p in _perm(c))],
        lambda c: c.b.transpose(c[0], _perm(c)),
        (
            Example((Arg("f32", (3, 5)), i32(1, 0))), Example((Arg("f32", (2, 3, 4)), i32(0, 2, 1))),
            Example((Arg("f32", (2, 3, 4, 33)), i32(0, 2, 1, 3))), Example((Arg("i32", (2, 0, 4)), i32(2, 1, 0))),
            Example((Arg("bool", (2, 3, 1, 4)), i32(3, 2, 1, 0))), Example((Arg("f32", (7,)), i32(0))),
        ),
        cost="move", by_value=(1,),
    ),
    OpRule(
        "BroadcastTo", {"T": ANY, "Tidx": INDEX}, _broadcast_to_shape, lambda c: c.b.broadcast(c[0], c.sizes(1)),
        (Example((Arg("f32", (3, 1)), i32(2, 3, 5))),
            Example((Arg("f32", ()), i32(4))),
            Example((Arg("i32", (1,)), i32(0,)))),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "Fill", {"T": ANY, "index_type": INDEX}, _fill_shape, lambda c: c.b.broadcast(c[1], c.sizes(0)),
        (Example((i32(2, 3), Arg("f32"))), Example((i32(0, 3), Arg("f32"))), Example((i32(17), Arg("i64")))),
        cost="shape", by_length=(0,),
    ),
    OpRule("ZerosLike", {"T": ANY}, same_as_first, lambda c: _filled(c, 0),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("i32", (0,)),))), cost="move"),
    OpRule("OnesLike", {"T": ANY}, same_as_first, lambda c: _filled(c, 1),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("bool", (4,)),))), cost="move"),
    OpRule("Shape", {"out_type": INDEX}, lambda c: [(as_dim(len(c[0].dims)),)],
           lambda c: c.b.sizes(c[0].dims, c.attr("out_type", "i32")),
           (Example((Arg("f32", (3, 5)),)),
            Example((Arg("f32", ()),)),
            Example((Arg("bool", (0, 2)),), {"out_type": "i64"})),
           cost="shape"),
    OpRule("ShapeN", {"out_type": INDEX}, lambda c: [(as_dim(len(v.dims)),) for v in c.inputs],
           lambda c: [c.b.sizes(v.dims, c.attr("out_type", "i32")) for v in c.inputs],
           (Example(((Arg("f32", (3, 5)), Arg("f32", (2,))),)),),  # type: ignore[arg-type]
           cost="shape"),
    OpRule("Size", {"out_type": INDEX}, lambda c: [()],
           lambda c: c.b.sizes([c[0].tensor.num_elements], c.attr("out_type", "i32"), rank=0),
           (Example((Arg("f32", (3, 5)),)),), cost="shape"),
    OpRule("Rank", {}, lambda c: [()], lambda c: c.b.scalar(len(c[0].dims), "i32"),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("f32", ()),))), cost="shape"),
    OpRule(
        "Range", {"Tidx": INDEX}, lambda c: [(_range_size(c)[1],)], _range,
        tuple(Example((scalar_i32(a), scalar_i32(b), scalar_i32(s)))
            for a, b, s in ((0, 7, 1), (3, 17, 4), (9, 0, -2), (5, 5, 1)))
        + (Example((scalar_i32(3), scalar_i32(0), scalar_i32(1)), error="InvalidArgument"),),
        cost="shape",
    ),
]  # fmt: skip
