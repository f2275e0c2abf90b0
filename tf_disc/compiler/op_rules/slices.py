"""Ops that take parts of tensors or join them: slices, splits, concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, INDEX
from tf_disc.compiler.op_rules.examples import of_every_type
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

# -- slices ------------------------------------------------------------------------


def _from_front(c: RuleContext, at: Dim, size: Dim) -> Dim:
    """An index counted from the front; whether it counts from the back is known, or guarded."""
    if c.b.hint(at) < 0:
        c.b.require(-1, ">=", at, "a slice bound that counts from the back")
        return at + size
    c.b.require(at, ">=", 0, "a slice bound that counts from the front")
    return at


def strided_parts(
    c: RuleContext,
    dims: Sequence[Dim],
    begin: Sequence[Dim],
    end: Sequence[Dim],
    strides: Sequence[int],
) -> tuple[list[Dim], list[Dim], list[int], list[Dim]]:
    """begin, sizes, strides over the axes of a tensor of `dims`, and the slice's dims."""
    masks = {m: c.attr(m, 0) for m in
             ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}  # fmt: skip

    def has(mask: str, i: int) -> bool:
        return bool(masks[mask] >> i & 1)

    # An ellipsis covers the axes that the other entries leave.
    spec: list[int] = list(range(len(strides)))
    consumed = sum(1 for i in spec if not has("new_axis_mask", i) and not has("ellipsis_mask", i))
    if consumed > len(dims):
        raise c.unsupported(f"{consumed} indices into {len(dims)} axes")
    starts: list[Dim] = []
    counts: list[Dim] = []
    steps: list[int] = []
    result: list[Dim] = []
    seen_ellipsis = False

    def keep(count: int) -> None:
        for _ in range(count):
            d = dims[len(starts)]
            starts.append(as_dim(0))
            counts.append(d)
            steps.append(1)
            result.append(d)

    for i in spec:
        if has("ellipsis_mask", i):
            if seen_ellipsis:
                raise c.unsupported("more than one ellipsis")
            seen_ellipsis = True
            keep(len(dims) - consumed)
            continue
        if has("new_axis_mask", i):
            result.append(as_dim(1))
            continue
        size, step = dims[len(starts)], strides[i]
        if step == 0:
            raise c.unsupported("a stride of 0")
        if has("shrink_axis_mask", i):
            at = _from_front(c, begin[i], size)
            c.b.require(at, ">=", 0, "slice index out of range")
            c.b.require(size - at, ">=", 1, "slice index out of range")
            starts.append(at)
            counts.append(as_dim(1))
            steps.append(1)
            continue
        low, high = (as_dim(0), size) if step > 0 else (as_dim(-1), size - 1)
        first = low if step > 0 else high
        last = high if step > 0 else low
        if not has("begin_mask", i):
            first = Dim.call("max", low, Dim.call("min", high, _from_front(c, begin[i], size)))
        if not has("end_mask", i):
            last = Dim.call("max", low, Dim.call("min", high, _from_front(c, end[i], size)))
        span = last - first if step > 0 else first - last
        count = Dim.call("max", 0, (span + (abs(step) - 1)) // abs(step))
        starts.append(first)
        counts.append(count)
        steps.append(step)
        result.append(count)
    keep(len(dims) - len(starts))
    return starts, counts, steps, result


def _strided_slice(c: RuleContext) -> tuple[list[Dim], list[Dim], list[int], list[Dim]]:
    return strided_parts(c, c[0].dims, c.sizes(1), c.sizes(2), c.constant(3))


def _lower_strided_slice(c: RuleContext) -> Value:
    starts, counts, steps, result = _strided_slice(c)
    return c.b.reshape(c.b.slice(c[0], starts, counts, steps), result)


def _slice_parts(c: RuleContext) -> tuple[list[Dim], list[Dim]]:
    starts, counts = list(c.sizes(1)), list(c.sizes(2))
    for i, (size, at, count) in enumerate(zip(c[0].dims, starts, counts, strict=True)):
        if c.b.hint(count) < 0:
            c.b.require(count, "==", -1, "Slice: a size of -1")
            counts[i] = size - at
        c.b.require(at, ">=", 0, "Slice: begin is in range")
        c.b.require(counts[i], ">=", 0, "Slice: size is in range")
        c.b.require(size - at, ">=", counts[i], "Slice: begin + size is in range")
    return starts, counts


def _slice(c: RuleContext) -> Value:
    starts, counts = _slice_parts(c)
    return c.b.slice(c[0], starts, counts, [1] * len(starts))


# -- joins and splits ----------------------------------------------------------------


def _pack_shape(c: RuleContext) -> list[Dims]:
    dims = c[0].dims
    for other in c.inputs[1:]:
        for a, b in zip(dims, other.dims, strict=True):
            c.b.require(b, "==", a, "Pack takes operands of one shape")
    axis = c.axis(c.attr("axis", 0), len(dims) + 1)
    return [(*dims[:axis], as_dim(len(c.inputs)), *dims[axis:])]


def _pack(c: RuleContext) -> Value:
    axis = c.axis(c.attr("axis", 0), len(c[0].dims) + 1)
    parts = [c.b.reshape(v, (*v.dims[:axis], 1, *v.dims[axis:])) for v in c.inputs]
    return c.b.concat(parts, axis)


def _concat_parts(c: RuleContext) -> tuple[list[Value], int]:
    values = c.inputs[:-1]
    (at,) = c.constant(len(values))
    rank = len(values[0].dims)
    if rank == 0 or any(len(v.dims) != rank for v in values):
        raise c.unsupported("operands of different ranks, or of rank 0")
    return values, c.axis(at, rank)


def _concat_shape(c: RuleContext) -> list[Dims]:
    values, axis = _concat_parts(c)
    dims = list(values[0].dims)
    for other in values[1:]:
        for i, (a, b) in enumerate(zip(values[0].dims, other.dims, strict=True)):
            if i == axis:
                dims[i] = dims[i] + b
            else:
                c.b.require(b, "==", a, "ConcatV2: sizes but the joined one agree")
    return [tuple(dims)]


def _concat(c: RuleContext) -> Value:
    values, axis = _concat_parts(c)
    return c.b.concat(values, axis)


def _offsets(c: RuleContext) -> list[Value]:
    """Where each operand of a concat begins in its result; the gradient slices there."""
    shapes = [c.sizes(i) for i in range(1, len(c.inputs))]
    axis = c.axis(c.constant(0)[0], len(shapes[0]))
    offset, results = as_dim(0), []
    for shape, value in zip(shapes, c.inputs[1:], strict=True):
        if len(shape) != len(shapes[0]):
            raise c.unsupported("shapes of different ranks")
        for i, (a, b) in enumerate(zip(shapes[0], shape, strict=True)):
            if i != axis:
                c.b.require(b, "==", a, "ConcatOffset: sizes but the joined one agree")
        at = [offset if i == axis else as_dim(0) for i in range(len(shape))]
        results.append(c.b.sizes(at, value.dtype))
        offset = offset + shape[axis]
    return results


def _unpack_shape(c: RuleContext) -> list[Dims]:
    rank = len(c[0].dims)
    axis = c.axis(c.attr("axis", 0), rank)
    c.b.require(c[0].dims[axis], "==", c.attr("num"), "Unpack: size of the unpacked axis")
    return [c[0].dims[:axis] + c[0].dims[axis + 1 :]] * int(c.attr("num"))


def _unpack(c: RuleContext) -> list[Value]:
    axis = c.axis(c.attr("axis", 0), len(c[0].dims))
    return [c.b.reshape(part(c, c[0], axis, as_dim(i), as_dim(1)), dims)
            for i, dims in enumerate(_unpack_shape(c))]  # fmt: skip


def part(c: RuleContext, value: Value, axis: int, at: Dim, count: Dim, step: int = 1) -> Value:
    """`count` elements of one axis, from `at` on."""
    axes = range(len(value.dims))
    starts = [at if i == axis else as_dim(0) for i in axes]
    counts = [count if i == axis else value.dims[i] for i in axes]
    return c.b.slice(value, starts, counts, [step if i == axis else 1 for i in axes])


def _split_shape(c: RuleContext) -> list[Dims]:
    rank, num = len(c[1].dims), int(c.attr("num_split"))
    axis = c.axis(c.constant(0)[0], rank)
    size = c[1].dims[axis]
    c.b.require(size % num, "==", 0, "Split: parts of one size")
    return [tuple(size // num if i == axis else d for i, d in enumerate(c[1].dims))] * num


def _split(c: RuleContext) -> list[Value]:
    axis = c.axis(c.constant(0)[0], len(c[1].dims))
    parts = _split_shape(c)
    return [part(c, c[1], axis, dims[axis] * i, dims[axis]) for i, dims in enumerate(parts)]


def _split_sizes(c: RuleContext) -> tuple[int, list[Dim]]:
    """The axis and the parts' sizes; one given as -1 takes what the others leave."""
    axis = c.axis(c.constant(2)[0], len(c[0].dims))
    total, sizes = c[0].dims[axis], list(c.sizes(1))
    if len(sizes) != int(c.attr("num_split")):
        raise c.unsupported(f"{len(sizes)} sizes for {c.attr('num_split')} parts")
    rest = [i for i, size in enumerate(sizes) if c.b.hint(size) < 0]
    if len(rest) > 1:
        raise c.unsupported("more than one size is -1")
    for i in rest:
        c.b.require(sizes[i], "==", -1, "SplitV: a size of -1")
        sizes[i] = total - sum(s for k, s in enumerate(sizes) if k != i)
    for size in sizes:
        c.b.require(size, ">=", 0, "SplitV: a size is not negative")
    if not rest:
        c.b.require(sum(sizes, as_dim(0)), "==", total, "SplitV: the sizes make up the axis")
    return axis, sizes


def _split_v_shape(c: RuleContext) -> list[Dims]:
    axis, sizes = _split_sizes(c)
    return [(*c[0].dims[:axis], size, *c[0].dims[axis + 1 :]) for size in sizes]


def _split_v(c: RuleContext) -> list[Value]:
    axis, sizes = _split_sizes(c)
    starts = [sum(sizes[:i], as_dim(0)) for i in range(len(sizes))]
    return [part(c, c[0], axis, at, size) for at, size in zip(starts, sizes, strict=True)]


# -- other orders ----------------------------------------------------------------------


def _reverse(c: RuleContext) -> Value:
    dims = c[0].dims
    axes = c.axes(1, len(dims))
    if len(set(axes)) != len(axes):
        raise c.unsupported("an axis is given twice")
    starts = [d - 1 if i in axes else as_dim(0) for i, d in enumerate(dims)]
    return c.b.slice(c[0], starts, dims, [-1 if i in axes else 1 for i in range(len(dims))])


def _roll(c: RuleContext) -> Value:
    """The end of an axis comes first: two slices, joined."""
    value = c[0]
    if not value.dims:
        raise c.unsupported("Roll takes rank 1 or more")
    axes, shifts = c.axes(2, len(value.dims)), c.sizes(1)
    if len(axes) != len(shifts):
        raise c.unsupported(f"{len(shifts)} shifts of {len(axes)} axes")
    for axis, shift in zip(axes, shifts, strict=True):
        size = value.dims[axis]
        moved = shift % size
        if moved == 0:
            continue
        parts = [
            part(c, value, axis, size - moved, moved),
            part(c, value, axis, as_dim(0), size - moved),
        ]
        value = c.b.concat(parts, axis)
    return value


_RULES: list[OpRule] = [
    OpRule(
        "StridedSlice", {"T": ANY, "Index": INDEX}, lambda c: [tuple(_strided_slice(c)[3])], _lower_strided_slice,
        tuple(
            Example((Arg("f32", (4, 5, 7)), i32(*b), i32(*e), i32(*s)), attrs)
            for b, e, s, attrs in (
                ((0, 0), (2, 3), (1, 1), {}),
                ((0, 1), (0, 2), (1, 1), {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
                ((0, 0, 0), (0, 0, 0), (1, -1, -2), {"begin_mask": 7, "end_mask": 7}),
                ((0, -3), (0, -1), (1, 1), {"begin_mask": 1, "end_mask": 1}),
                ((1, 2), (100, 1), (1, 1), {}),
                ((0, 0, 1), (0, 0, 0), (1, 1, 3), {"ellipsis_mask": 1, "new_axis_mask": 2, "end_mask": 4}),
                ((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), {"begin_mask": 9, "end_mask": 9, "new_axis_mask": 6}),
                ((-100,), (100,), (2,), {}),
                ((3, 4, 6), (-100, 0, 1), (-1, -2, -3), {}),
                ((1, 0, 2), (0, 0, 0), (1, 1, 1), {"shrink_axis_mask": 5, "ellipsis_mask": 2}),
                ((0, 1, 0, -1), (0, 4, 0, 0), (1, 2, 1, 1),
                {"ellipsis_mask": 1, "new_axis_mask": 4, "shrink_axis_mask": 8}),
                ((-1, -1, -1), (0, 0, 0), (-1, 1, 1), {"end_mask": 1, "shrink_axis_mask": 6}),
                ((2, 0), (2, 5), (1, 1), {}),
                ((3,), (1,), (1,), {}),
                ((0,), (0,), (1,), {"new_axis_mask": 1}),
                ((), (), (), {}),
            )
        ) + (Example((Arg("f32", (4,)), i32(4), i32(5), i32(1)), {"shrink_axis_mask": 1}, error="InvalidArgument"),),
        cost="shape", by_value=(3,), by_length=(1, 2), constant="folds",
    ),
    OpRule(
        "Slice", {"T": ANY, "Index": INDEX}, lambda c: [tuple(_slice_parts(c)[1])], _slice,
        (
            Example((Arg("f32", (4, 5)), i32(1, 2), i32(2, 3))), Example((Arg("f32", (4, 5)), i32(1, 0), i32(-1, 0))),
            Example((Arg("f32", (4, 5)), i32(1, 2), i32(2, 9)), error="InvalidArgument"),
        ),
        cost="move", by_length=(1, 2), constant="folds",
    ),
    OpRule(
        "Split", {"T": ANY}, _split_shape, _split,
        (
            Example((scalar_i32(1), Arg("f32", (2, 6))), {"num_split": 3}),
            Example((scalar_i32(-1), Arg("f32", (2, 3, 34))), {"num_split": 2}),
            Example((scalar_i32(-2), Arg("i64", (0, 5))), {"num_split": 2}),
            Example((scalar_i32(0), Arg("bool", (130,))), {"num_split": 5}),
            Example((scalar_i32(1), Arg("f32", (3, 7))), {"num_split": 1}),
            Example((scalar_i32(0), Arg("f32", (5, 6))), {"num_split": 2}, error="InvalidArgument"),
        ),
        cost="move", by_value=(0,),
    ),
    OpRule(
        "Unpack", {"T": ANY}, _unpack_shape, _unpack,
        (Example((Arg("f32", (3, 5)),), {"num": 3, "axis": 0}), Example((Arg("f32", (3, 5)),), {"num": 5, "axis": -1}),
         Example((Arg("i64", (2, 3, 33)),), {"num": 3, "axis": 1}), Example((Arg("bool", (1,)),), {"num": 1, "axis": -1}),
         Example((Arg("f32", (0, 2)),), {"num": 2, "axis": 1})),
        cost="shape",
    ),
    OpRule(
        "Pack", {"T": ANY}, _pack_shape, _pack,
        tuple(
            Example((tuple(Arg(d, s) for _ in range(3)),), {"axis": a})  # type: ignore[arg-type]
            for d, s, a in (("f32", (2, 3), 0), ("f32", (2, 3), 1), ("f32", (2, 3), -1), ("i32", (), 0),
                ("f32", (0, 2), 1), ("f32", (5, 33), 1))
        ),
        cost="shape", constant="folds",
    ),
    OpRule(
        "ConcatV2", {"T": ANY, "Tidx": INDEX}, _concat_shape, _concat,
        tuple(
            Example((tuple(Arg(d, s) for s in shapes), scalar_i32(a)))  # type: ignore[arg-type]
            for d, shapes, a in (
                ("f32", ((2, 3), (2, 17)), 1), ("f32", ((2, 3), (5, 3)), 0), ("f32", ((2, 3, 4), (2, 0, 4),
                (2, 1, 4)), -2),
                ("i64", ((3,), (4,)), 0), ("f32", ((0, 3), (0, 2)), 1), ("bool", ((2, 2), (2, 1)), -1),
            )
        ) + (
            Example(
                ((Arg("f32", (2, 3)), Arg("f32", (3, 3))), scalar_i32(1)),  # type: ignore[arg-type]
                error="InvalidArgument",
            ),
        ),
        cost="shape", by_value=(-1,), constant="folds",
    ),
    OpRule(
        "SplitV", {"T": ANY, "Tlen": INDEX}, _split_v_shape, _split_v,
        tuple(
            Example((Arg(dtype, dims), i32(*sizes), scalar_i32(axis)), {"num_split": len(sizes)})
            for dtype, dims, sizes, axis in (
                ("f32", (2, 6), (1, 5), 1), ("f32", (2, 6), (1, -1, 2), -1), ("f32", (7, 3), (-1, 0, 7), 0),
                ("i64", (33,), (33,), 0),
                ("bool", (2, 130, 3), (17, -1), -2), ("f32", (0, 3), (0, 0), 0), ("i32", (2, 3), (3, -1), 1),
            )
        ) + tuple(
            Example((Arg("f32", (6,)), i32(*sizes), scalar_i32(0)), {"num_split": 2}, error="InvalidArgument")
            for sizes in ((2, 3), (7, -1), (-1, -1), (8, -2))
        ),
        cost="move", by_value=(2,), by_length=(1,),
    ),
    OpRule(
        "ReverseV2", {"T": ANY, "Tidx": INDEX}, same_as_first, _reverse,
        tuple(
            Example((Arg(dtype, dims), i32(*axes)))
            for dtype, dims, axes in (
                ("f32", (5,), (0,)), ("f32", (2, 3, 33), (-1,)), ("f32", (2, 3, 33), (1, 0)), ("i64", (3, 130), (0, -1)),
                ("bool", (7, 1), (0, 1)), ("f32", (0, 3), (0, 1)), ("f32", (2, 3), ()), ("f32", (), ()),
                ("i32", (3, 5, 1, 2), (-3,)),
            )
        ) + (Example((Arg("f32", (2, 3)), i32(0, -2)), error="InvalidArgument"),),
        cost="move", by_value=(1,),
    ),
    OpRule(
        "Roll", {"T": ANY, "Tshift": INDEX, "Taxis": INDEX}, same_as_first, _roll,
        tuple(
            Example((Arg(dtype, dims), i32(*shifts), i32(*axes)))
            for dtype, dims, shifts, axes in (
                ("f32", (7,), (2,), (0,)), ("f32", (3, 33), (-1,), (-1,)), ("f32", (3, 5), (1, 7), (0, 1)),
                ("i64", (3, 130), (-400,), (1,)),
                ("f32", (0, 3), (2,), (0,)), ("bool", (1, 3), (5, 2), (0, -1)), ("f32", (7,), (2, -5), (0, 0)),
                ("f32", (7,), (7,), (0,)),
            )
        ) + (Example((Arg("i32", (5, 2)), scalar_i32(3), scalar_i32(0))),
             Example((Arg("f32"), scalar_i32(3), scalar_i32(0)), error="InvalidArgument")),
        cost="move", by_value=(2,), by_length=(1,),
    ),
    OpRule(
        "ConcatOffset", {}, lambda c: [v.dims for v in c.inputs[1:]], _offsets,
        tuple(
            Example((scalar_i32(axis), tuple(i32(*shape) for shape in shapes)))  # type: ignore[arg-type]
            for axis, shapes in ((1, ((2, 3), (2, 5), (2, 0))), (-1, ((7,), (1,))), (0, ((4, 1, 3), (0, 1, 3))))
        ) + (
            Example((scalar_i32(0), (i32(2, 3), i32(2, 4))), error="InvalidArgument"),  # type: ignore[arg-type]
            Example((scalar_i32(2), (i32(2, 3), i32(2, 4))), error="InvalidArgument"),  # type: ignore[arg-type]
        ),
        cost="shape", by_value=(0,),
    ),
]  # fmt: skip

RULES = [of_every_type(rule) for rule in _RULES]
