"""Ops that change or say shapes: reshape, transpose, repetition, shape arithmetic."""

from __future__ import annotations

from math import prod
from typing import Any

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, FLOATING, INDEX, INTEGRAL
from tf_disc.compiler.op_rules.examples import of_every_type
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    ShapeRule,
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
        dims[unknown[0]] = _rest(c, [d for i, d in enumerate(dims) if i != unknown[0]])
    c.b.require(product(dims), "==", total, "Reshape keeps the number of elements")
    return [tuple(dims)]


def _rest(c: RuleContext, sizes: list[Dim]) -> Dim:
    """The size that -1 stands for.

    Where a size is 0, TensorFlow leaves the zeros out on both sides: [0, 6] as [0, -1] is [0, 6].
    """
    left, given, axes = list(c[0].dims), [], []
    for d in sizes:
        if d in left:  # an axis of the operand, which drops out whether it is 0 or not
            left.remove(d)
            axes.append(d)
        elif d.value is None and c.b.hint(d) == 0:
            c.b.require(d, "==", 0, "a size of 0 beside one of -1")
            given.append(as_dim(0))
        else:
            if d.value is None:
                c.b.require(d, "!=", 0, "the size for -1 follows from the others")
            given.append(d)
    factor = product(d for d in given if d != 0)
    none = any(d == 0 for d in given)
    if not none and axes and c.b.hint(product(axes) + product(left)) == 0:
        c.b.require(product(axes), "==", 0, "a size of 0 beside one of -1")
        none = True
    if none:
        return product(Dim.call("max", 1, d) for d in left) // factor
    if axes:
        c.b.require(product(axes) + product(left), ">=", 1, "zeros on one side of a Reshape alone")
    return product(left) // factor


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
            if c.b.hint(d) == 1:
                axes.append(i)
            else:
                c.b.require(d, "!=", 1, "Squeeze without axes: which sizes are 1")
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


# -- repetition and masks --------------------------------------------------------------


def _multiples(c: RuleContext) -> tuple[Dim, ...]:
    multiples = c.sizes(1)
    if len(multiples) != len(c[0].dims):
        raise c.unsupported(f"{len(multiples)} multiples for {len(c[0].dims)} axes")
    for m in multiples:
        c.b.require(m, ">=", 0, "Tile: a multiple is not negative")
    return multiples


def _tile_shape(c: RuleContext) -> list[Dims]:
    return [tuple(m * d for m, d in zip(_multiples(c), c[0].dims, strict=True))]


def _tile(c: RuleContext) -> Value:
    """Each axis becomes a pair, of which the first repeats."""
    multiples, dims = _multiples(c), c[0].dims
    paired = [p for d in dims for p in (1, d)]
    repeated = [p for m, d in zip(multiples, dims, strict=True) for p in (m, d)]
    value = c.b.broadcast(c.b.reshape(c[0], paired), repeated)
    if dims and not dims[-1].is_one and multiples[-1] != 1:
        # Stored as it is computed: a reader that follows the pairs would divide for each element.
        value = c.b.elementwise("copy", value)
    return c.b.reshape(value, _tile_shape(c)[0])


def _one_hot_axis(c: RuleContext) -> int:
    rank = len(c[0].dims)
    axis = int(c.attr("axis", -1))
    return rank if axis == -1 else c.axis(axis, rank + 1)


def _one_hot_shape(c: RuleContext) -> list[Dims]:
    (depth,) = c.sizes(1)
    c.b.require(depth, ">=", 0, "OneHot: depth is not negative")
    axis = _one_hot_axis(c)
    return [(*c[0].dims[:axis], depth, *c[0].dims[axis:])]


def _one_hot(c: RuleContext) -> Value:
    """An index that is no class meets no number of the iota, whose type holds every class."""
    (dims,) = _one_hot_shape(c)
    axis = _one_hot_axis(c)
    indices = c[0]
    if indices.dtype not in INDEX:
        indices = c.b.elementwise("cast", indices, dtype="i32")
    classes = c.b.iota(dims[axis], indices.dtype)
    classes = c.b.reshape(classes, [dims[axis], *[1] * (len(dims) - axis - 1)])
    spread = c.b.reshape(indices, [*dims[:axis], 1, *dims[axis + 1 :]])
    hot = c.b.elementwise("eq", c.b.broadcast(spread, dims), c.b.broadcast(classes, dims))
    return c.b.elementwise("select", hot, c.b.broadcast(c[2], dims), c.b.broadcast(c[3], dims))


def _band_shape(c: RuleContext) -> list[Dims]:
    if len(c[0].dims) < 2:
        raise c.unsupported("MatrixBandPart takes rank 2 or more")
    for position, size in ((1, c[0].dims[-2]), (2, c[0].dims[-1])):
        (count,) = c.sizes(position)
        c.b.require(size, ">=", count, "MatrixBandPart: the band lies in the matrix")
    return same_as_first(c)


def _band(c: RuleContext) -> Value:
    """Zero where row - column is above the lower count, or column - row above the upper one."""
    dims = c[0].dims
    kind = c[1].dtype
    rows = c.b.reshape(c.b.iota(dims[-2], kind), [dims[-2], 1])
    columns = c.b.iota(dims[-1], kind)
    below = c.b.elementwise("sub", rows, columns)
    outside = None
    for count, distance in ((c[1], below), (c[2], c.b.elementwise("neg", below))):
        limited = c.b.elementwise("ge", count, c.b.scalar(0, kind))
        far = c.b.elementwise("and", limited, c.b.elementwise("gt", distance, count))
        outside = far if outside is None else c.b.elementwise("or", outside, far)
    assert outside is not None
    return c.b.elementwise("select", outside, c.b.broadcast(_zero(c), dims), c[0])


def _zero(c: RuleContext) -> Value:
    dtype = c[0].dtype
    return c.b.scalar(False if dtype == "bool" else 0.0 if dtype in FLOATING else 0, dtype)


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


def _broadcast_args(c: RuleContext) -> tuple[Dim, ...]:
    return c.b.broadcast_dims(c.sizes(0), c.sizes(1))


def _inverse(c: RuleContext) -> Value:
    perm = c.constant(0)
    if sorted(perm) != list(range(len(perm))):
        raise c.unsupported(f"{perm} is not a permutation")
    return c.b.constant([perm.index(i) for i in range(len(perm))], c[0].dtype, [len(perm)])


def _ensured(c: RuleContext) -> list[Dims]:
    expected = c.attr("shape")
    if expected is not None and len(expected) != len(c[0].dims):
        raise c.unsupported(f"EnsureShape expects rank {len(expected)}")
    for size, known in zip(c[0].dims, expected or (), strict=False):
        if known is not None and known >= 0:
            c.b.require(size, "==", known, "EnsureShape")
    return same_as_first(c)


def _same(op: str, shape: ShapeRule, examples: tuple[Example, ...], **fields: Any) -> OpRule:
    """An op that hands its first operand on."""
    return OpRule(op, {"T": ANY}, shape, lambda c: c[0], examples, cost="free", **fields)


_TILES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (3, 1)), ((2, 3), (1, 4)), ((3, 5), (2, 3)), ((1, 33), (130, 1)), ((7, 1), (2, 33)), ((2, 0, 3), (2, 3, 1)),
    ((2, 3), (0, 2)), ((), ()), ((17,), (3,)), ((1, 1), (1, 1)), ((2, 3, 5, 7), (1, 2, 1, 3)),
)  # fmt: skip
_HOT: tuple[tuple[str, tuple[int, ...], int, int], ...] = (
    ("i32", (5,), 7, -1), ("i64", (2, 3), 33, 0), ("i32", (2, 3), 130, 1), ("i32", (2, 3), 1, -1), ("i32", (0, 3), 4, -1),
    ("i32", (3,), 0, 0), ("i32", (), 5, 0), ("i64", (3, 1), 2, 2),
)  # fmt: skip

_RULES: list[OpRule] = [
    OpRule(
        "Reshape", {"T": ANY, "Tshape": INDEX}, _reshape_shape, _reshape,
        (
            Example((Arg("f32", (4, 6)), i32(8, 3))), Example((Arg("f32", (4, 6)), i32(2, -1, 3))),
            Example((Arg("f32", (0, 6)), i32(3, 0, 2))), Example((Arg("i64", (6,)), i32(-1, 2))),
            Example((Arg("f32", (0, 6)), i32(0, -1))), Example((Arg("f32", (0, 4, 6)), i32(0, -1, 3))),
            Example((Arg("f32", (0, 6)), i32(-1, 6))), Example((Arg("f32", (0, 0)), i32(0, -1))),
            Example((Arg("f32", (5, 0)), i32(5, -1))), Example((Arg("f32", (0, 6)), i32(2, -1))),
            Example((Arg("f32", (1,)), Arg("i32", (0,), values=()))), Example((Arg("bool", (2, 3)), i32(3, 2))),
            Example((Arg("f32", (4, 6)), i32(5, 5)), error="InvalidArgument"),
            Example((Arg("f32", (4, 6)), i32(-1, -1)), error="InvalidArgument"),
        ),
        cost="free", by_length=(1,), constant="folds",
    ),
    OpRule(
        "ExpandDims", {"T": ANY, "Tdim": INDEX}, _expand_shape, lambda c: c.b.reshape(c[0], _expand_shape(c)[0]),
        tuple(Example((Arg("f32", (2, 3)), scalar_i32(a))) for a in (0, 1, 2, -1, -3)),
        cost="free", by_value=(1,), constant="folds",
    ),
    OpRule(
        "Squeeze", {"T": ANY}, _squeeze_shape, lambda c: c.b.reshape(c[0], _squeeze_shape(c)[0]),
        (
            Example((Arg("f32", (2, 1, 3, 1)),), {"axis": (1,)}), Example((Arg("f32", (2, 1, 3, 1)),), {"axis": (-1, 1)}),
            Example((Arg("f32", (2, 2, 3, 1)),), {"axis": (1,)}, error="InvalidArgument"),
            Example((Arg("f32", (1, 2, 1, 3)),), {"axis": ()}), Example((Arg("i64", (1, 1)),), {"axis": ()}),
            Example((Arg("f32", (5, 0)),), {"axis": ()}),
        ),
        cost="free", constant="folds",
    ),
    OpRule(
        "Transpose", {"T": ANY, "Tperm": INDEX}, lambda c: [tuple(c[0].dims[p] for p in _perm(c))],
        lambda c: c.b.transpose(c[0], _perm(c)),
        (
            Example((Arg("f32", (3, 5)), i32(1, 0))), Example((Arg("f32", (2, 3, 4)), i32(0, 2, 1))),
            Example((Arg("f32", (2, 3, 4, 33)), i32(0, 2, 1, 3))), Example((Arg("i32", (2, 0, 4)), i32(2, 1, 0))),
            Example((Arg("bool", (2, 3, 1, 4)), i32(3, 2, 1, 0))), Example((Arg("f32", (7,)), i32(0))),
        ),
        cost="move", alone=True, by_value=(1,),
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
           cost="shape", constant="sizes"),
    OpRule("ShapeN", {"out_type": INDEX}, lambda c: [(as_dim(len(v.dims)),) for v in c.inputs],
           lambda c: [c.b.sizes(v.dims, c.attr("out_type", "i32")) for v in c.inputs],
           (Example(((Arg("f32", (3, 5)), Arg("f32", (2,))),)),),  # type: ignore[arg-type]
           cost="shape", constant="sizes"),
    OpRule("Size", {"out_type": INDEX}, lambda c: [()],
           lambda c: c.b.sizes([c[0].tensor.num_elements], c.attr("out_type", "i32"), rank=0),
           (Example((Arg("f32", (3, 5)),)),), cost="shape", constant="sizes"),
    OpRule("Rank", {}, lambda c: [()], lambda c: c.b.scalar(len(c[0].dims), "i32"),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("f32", ()),))), cost="shape", constant="always"),
    OpRule(
        "Range", {"Tidx": INDEX}, lambda c: [(_range_size(c)[1],)], _range,
        tuple(Example((scalar_i32(a), scalar_i32(b), scalar_i32(s)))
            for a, b, s in ((0, 7, 1), (3, 17, 4), (9, 0, -2), (5, 5, 1)))
        + (Example((scalar_i32(3), scalar_i32(0), scalar_i32(1)), error="InvalidArgument"),),
        cost="shape", constant="folds",
    ),
    OpRule(
        "Tile", {"T": ANY, "Tmultiples": INDEX}, _tile_shape, _tile,
        tuple(Example((Arg("f32", dims), i32(*m))) for dims, m in _TILES)
        + (Example((Arg("bool", (2, 3)), i32(2, 2))), Example((Arg("i32", (3, 1)), i32(1, 2))),
           Example((Arg("f32", (2, 3)), i32(-1, 1)), error="InvalidArgument")),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "OneHot", {"T": ANY, "TI": INTEGRAL}, _one_hot_shape, _one_hot,
        tuple(
            Example((Arg(index, dims, values=[(i * 7) % (depth + 3) - 1 for i in range(prod(dims))]),
                     scalar_i32(depth), Arg("f32", (), "unit"), Arg("f32", (), "unit")), {"axis": axis})
            for index, dims, depth, axis in _HOT
        ) + (
            Example((i32(1, 0, 3), scalar_i32(4), Arg("bool", (), values=True), Arg("bool", (), values=False))),
            Example((i32(1, 0, 3), scalar_i32(4), Arg("i64", ()), Arg("i64", ()))),
            Example((i32(1), scalar_i32(-1), Arg("f32"), Arg("f32")), error="InvalidArgument"),
        ),
        cost="move", alone=True, by_length=(1,),
    ),
    OpRule(
        "MatrixBandPart", {"T": ANY, "Tindex": INDEX}, _band_shape, _band,
        tuple(
            Example((Arg("f32", dims), scalar_i32(lower), scalar_i32(upper)))
            for dims, lower, upper in (((5, 7), 1, 2), ((5, 7), -1, 0), ((7, 5), 0, -1), ((2, 3, 33), 2, 5), ((0, 3), 0, 1),
                ((1, 1), 0, 0), ((2, 130, 130), -3, 0), ((4, 4), 0, 0))
        ) + (
            Example((Arg("i32", (3, 4)), scalar_i32(0), scalar_i32(1))),
            Example((Arg("bool", (3, 4)), scalar_i32(0), scalar_i32(1))),
            Example((Arg("f32", (3, 4)), scalar_i32(4), scalar_i32(1)), error="InvalidArgument"),
            Example((Arg("f32", (3, 4)), scalar_i32(1), scalar_i32(5)), error="InvalidArgument"),
        ),
        cost="move", by_length=(1, 2),
    ),
    OpRule(
        "BroadcastArgs", {"T": INDEX}, lambda c: [(as_dim(len(_broadcast_args(c))),)],
        lambda c: c.b.sizes(_broadcast_args(c), c[0].dtype),
        tuple(Example((i32(*a), i32(*b))) for a, b in (((3, 1), (2, 1, 5)), ((0, 1), (1, 5)), ((), (3,)), ((7,), (7,))))
        + (Example((i32(3), i32(2)), error="InvalidArgument"),),
        cost="shape", by_length=(0, 1),
    ),
    OpRule(
        "InvertPermutation", {"T": INDEX}, same_as_first, _inverse,
        (Example((i32(2, 0, 1, 3),)), Example((i32(),)), Example((Arg("i64", (3,), values=(1, 2, 0)),)),
         Example((i32(0, 0),), error="InvalidArgument")),
        cost="shape", by_value=(0,), constant="folds", notes="Of a constant.",
    ),
    _same("EnsureShape", _ensured,
          (Example((Arg("f32", (2, 3)),), {"shape": [None, 3]}), Example((Arg("i32", (0,)),), {"shape": [None]}),
           Example((Arg("f32", ()),), {"shape": []}),
           Example((Arg("f32", (2, 3)),), {"shape": [None, 4]}, error="InvalidArgument"),
           Example((Arg("f32", (2, 3)),), {"shape": [None]}, error="InvalidArgument"))),
    _same("PreventGradient", same_as_first,
          (Example((Arg("f32", (3, 5)),), {"message": "none"}), Example((Arg("bool", (0,)),)))),
    OpRule("PlaceholderWithDefault", {"dtype": ANY}, same_as_first, lambda c: c[0],
           (Example((Arg("f32", (3, 5)),), {"shape": [None, 5]}),
            Example((Arg("i64", (0,)),), {"shape": [None]})), cost="free"),
    OpRule("IdentityN", {"T": ANY}, lambda c: [v.dims for v in c.inputs], lambda c: list(c.inputs),
           (Example(((Arg("f32", (3, 5)), Arg("i32", (0,)), Arg("bool", ())),)),  # type: ignore[arg-type]
            Example(((Arg("f64", (7,)),),))), cost="free"),  # type: ignore[arg-type]
]  # fmt: skip

RULES = [of_every_type(rule) for rule in _RULES]
