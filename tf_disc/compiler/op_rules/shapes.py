"""Ops that move data or say sizes: reshape, transpose, slices, joins, gathers, shape arithmetic."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, INDEX
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, same_as_first


def _i32(*values: int) -> Arg:
    return Arg("i32", (len(values),), values=values)


def _at(value: int) -> Arg:
    return Arg("i32", (), values=value)


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


# -- slices ------------------------------------------------------------------------


def _from_front(c: RuleContext, at: Dim, size: Dim) -> Dim:
    """An index counted from the front; whether it counts from the back is known, or guarded."""
    if c.b.hint(at) < 0:
        c.b.require(-1, ">=", at, "a slice bound that counts from the back")
        return at + size
    c.b.require(at, ">=", 0, "a slice bound that counts from the front")
    return at


def _strided_slice(c: RuleContext) -> tuple[list[Dim], list[Dim], list[int], list[Dim]]:
    """begin, sizes, strides over the operand's axes, and the result's dims."""
    begin, end, strides = c.sizes(1), c.sizes(2), c.constant(3)
    masks = {m: c.attr(m, 0) for m in
             ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}  # fmt: skip
    dims = c[0].dims

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


def _unpack_shape(c: RuleContext) -> list[Dims]:
    rank = len(c[0].dims)
    axis = c.axis(c.attr("axis", 0), rank)
    c.b.require(c[0].dims[axis], "==", c.attr("num"), "Unpack: size of the unpacked axis")
    return [c[0].dims[:axis] + c[0].dims[axis + 1 :]] * int(c.attr("num"))


def _unpack(c: RuleContext) -> list[Value]:
    axis = c.axis(c.attr("axis", 0), len(c[0].dims))
    return [c.b.reshape(_part(c, c[0], axis, as_dim(i), as_dim(1)), dims)
            for i, dims in enumerate(_unpack_shape(c))]  # fmt: skip


def _part(c: RuleContext, value: Value, axis: int, at: Dim, count: Dim) -> Value:
    starts = [at if i == axis else as_dim(0) for i in range(len(value.dims))]
    counts = [count if i == axis else d for i, d in enumerate(value.dims)]
    return c.b.slice(value, starts, counts, [1] * len(starts))


def _split_shape(c: RuleContext) -> list[Dims]:
    rank, num = len(c[1].dims), int(c.attr("num_split"))
    axis = c.axis(c.constant(0)[0], rank)
    size = c[1].dims[axis]
    c.b.require(size % num, "==", 0, "Split: parts of one size")
    return [tuple(size // num if i == axis else d for i, d in enumerate(c[1].dims))] * num


def _split(c: RuleContext) -> list[Value]:
    axis = c.axis(c.constant(0)[0], len(c[1].dims))
    parts = _split_shape(c)
    return [_part(c, c[1], axis, dims[axis] * i, dims[axis]) for i, dims in enumerate(parts)]


# -- gathers -----------------------------------------------------------------------


def _gather_at(c: RuleContext) -> tuple[int, int]:
    rank = len(c[0].dims)
    batch = c.attr("batch_dims", 0)
    batch += len(c[1].dims) if batch < 0 else 0
    axis = c.axis(c.constant(2)[0], rank) if len(c.inputs) > 2 else batch
    if not 0 <= batch <= min(axis, len(c[1].dims)):
        raise c.unsupported(f"batch_dims {batch} with axis {axis}")
    for a, b in zip(c[0].dims[:batch], c[1].dims[:batch], strict=True):
        c.b.require(b, "==", a, "gather: batch sizes agree")
    return axis, batch


def _gather_shape(c: RuleContext) -> list[Dims]:
    axis, batch = _gather_at(c)
    return [c[0].dims[:axis] + c[1].dims[batch:] + c[0].dims[axis + 1 :]]


def _gather(c: RuleContext) -> Value:
    return c.b.gather(c[0], c[1], *_gather_at(c))


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
            Example((Arg("f32", (4, 6)), _i32(8, 3))), Example((Arg("f32", (4, 6)), _i32(2, -1, 3))),
            Example((Arg("f32", (0, 6)), _i32(3, 0, 2))), Example((Arg("i64", (6,)), _i32(-1, 2))),
            Example((Arg("f32", (1,)), Arg("i32", (0,), values=()))), Example((Arg("bool", (2, 3)), _i32(3, 2))),
            Example((Arg("f32", (4, 6)), _i32(5, 5)), error="InvalidArgument"),
            Example((Arg("f32", (4, 6)), _i32(-1, -1)), error="InvalidArgument"),
        ),
        cost="free", by_length=(1,),
    ),
    OpRule(
        "ExpandDims", {"T": ANY, "Tdim": INDEX}, _expand_shape, lambda c: c.b.reshape(c[0], _expand_shape(c)[0]),
        tuple(Example((Arg("f32", (2, 3)), _at(a))) for a in (0, 1, 2, -1, -3)),
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
            Example((Arg("f32", (3, 5)), _i32(1, 0))), Example((Arg("f32", (2, 3, 4)), _i32(0, 2, 1))),
            Example((Arg("f32", (2, 3, 4, 33)), _i32(0, 2, 1, 3))), Example((Arg("i32", (2, 0, 4)), _i32(2, 1, 0))),
            Example((Arg("bool", (2, 3, 1, 4)), _i32(3, 2, 1, 0))), Example((Arg("f32", (7,)), _i32(0))),
        ),
        cost="move", by_value=(1,),
    ),
    OpRule(
        "BroadcastTo", {"T": ANY, "Tidx": INDEX}, _broadcast_to_shape, lambda c: c.b.broadcast(c[0], c.sizes(1)),
        (Example((Arg("f32", (3, 1)), _i32(2, 3, 5))),
            Example((Arg("f32", ()), _i32(4))),
            Example((Arg("i32", (1,)), _i32(0,)))),
        cost="move", by_length=(1,),
    ),
    OpRule(
        "Fill", {"T": ANY, "index_type": INDEX}, _fill_shape, lambda c: c.b.broadcast(c[1], c.sizes(0)),
        (Example((_i32(2, 3), Arg("f32"))), Example((_i32(0, 3), Arg("f32"))), Example((_i32(17), Arg("i64")))),
        cost="shape", by_length=(0,),
    ),
    OpRule("ZerosLike", {"T": ANY}, same_as_first, lambda c: _filled(c, 0),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("i32", (0,)),))), cost="move"),
    OpRule("OnesLike", {"T": ANY}, same_as_first, lambda c: _filled(c, 1),
           (Example((Arg("f32", (3, 5)),)), Example((Arg("bool", (4,)),))), cost="move"),
    OpRule(
        "StridedSlice", {"T": ANY, "Index": INDEX}, lambda c: [tuple(_strided_slice(c)[3])], _lower_strided_slice,
        tuple(
            Example((Arg("f32", (4, 5, 7)), _i32(*b), _i32(*e), _i32(*s)), attrs)
            for b, e, s, attrs in (
                ((0, 0), (2, 3), (1, 1), {}),
                ((0, 1), (0, 2), (1, 1), {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
                ((0, 0, 0), (0, 0, 0), (1, -1, -2), {"begin_mask": 7, "end_mask": 7}),
                ((0, -3), (0, -1), (1, 1), {"begin_mask": 1, "end_mask": 1}),
                ((1, 2), (100, 1), (1, 1), {}),
                ((0, 0, 1), (0, 0, 0), (1, 1, 3), {"ellipsis_mask": 1, "new_axis_mask": 2, "end_mask": 4}),
                ((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), {"begin_mask": 9, "end_mask": 9, "new_axis_mask": 6}),
                ((-100,), (100,), (2,), {}),
            )
        ) + (Example((Arg("f32", (4,)), _i32(4), _i32(5), _i32(1)), {"shrink_axis_mask": 1}, error="InvalidArgument"),),
        cost="shape", by_value=(3,), by_length=(1, 2),
    ),
    OpRule(
        "Slice", {"T": ANY, "Index": INDEX}, lambda c: [tuple(_slice_parts(c)[1])], _slice,
        (
            Example((Arg("f32", (4, 5)), _i32(1, 2), _i32(2, 3))), Example((Arg("f32", (4, 5)), _i32(1, 0), _i32(-1, 0))),
            Example((Arg("f32", (4, 5)), _i32(1, 2), _i32(2, 9)), error="InvalidArgument"),
        ),
        cost="move", by_length=(1, 2),
    ),
    OpRule(
        "Pack", {"T": ANY}, _pack_shape, _pack,
        tuple(
            Example((tuple(Arg(d, s) for _ in range(3)),), {"axis": a})  # type: ignore[arg-type]
            for d, s, a in (("f32", (2, 3), 0), ("f32", (2, 3), 1), ("f32", (2, 3), -1), ("i32", (), 0),
                ("f32", (0, 2), 1), ("f32", (5, 33), 1))
        ),
        cost="shape",
    ),
    OpRule(
        "ConcatV2", {"T": ANY, "Tidx": INDEX}, _concat_shape, _concat,
        tuple(
            Example((tuple(Arg(d, s) for s in shapes), _at(a)))  # type: ignore[arg-type]
            for d, shapes, a in (
                ("f32", ((2, 3), (2, 17)), 1), ("f32", ((2, 3), (5, 3)), 0), ("f32", ((2, 3, 4), (2, 0, 4), (2, 1, 4)), -2),
                ("i64", ((3,), (4,)), 0), ("f32", ((0, 3), (0, 2)), 1), ("bool", ((2, 2), (2, 1)), -1),
            )
        ) + (Example(((Arg("f32", (2, 3)), Arg("f32", (3, 3))), _at(1)), error="InvalidArgument"),),  # type: ignore[arg-type]
        cost="shape", by_value=(-1,),
    ),
    OpRule(
        "Unpack", {"T": ANY}, _unpack_shape, _unpack,
        (Example((Arg("f32", (3, 5)),), {"num": 3, "axis": 0}), Example((Arg("f32", (3, 5)),), {"num": 5, "axis": -1})),
        cost="shape",
    ),
    OpRule(
        "Split", {"T": ANY}, _split_shape, _split,
        (
            Example((_at(1), Arg("f32", (2, 6))), {"num_split": 3}),
            Example((_at(-1), Arg("f32", (2, 3, 34))), {"num_split": 2}),
            Example((_at(0), Arg("f32", (5, 6))), {"num_split": 2}, error="InvalidArgument"),
        ),
        cost="move", by_value=(0,),
    ),
    OpRule(
        "GatherV2", {"Tparams": ANY, "Tindices": INDEX, "Taxis": INDEX}, _gather_shape, _gather,
        (
            Example((Arg("f32", (10, 7)), Arg("i32", (2, 3), high=10), _at(0))),
            Example((Arg("f32", (10, 7)), Arg("i64", (4,), high=7), _at(1))),
            Example((Arg("f32", (3, 10, 5)), Arg("i32", (3, 4), high=10), _at(1)), {"batch_dims": 1}),
            Example((Arg("f32", (10, 33)), Arg("i32", (), high=10), _at(0))),
            Example((Arg("f32", (10, 1)), Arg("i32", (0,), high=10), _at(0))),
            Example((Arg("f32", (10, 7)), _i32(1, 10), _at(0)), error="InvalidArgument"),
            Example((Arg("f32", (10, 7)), _i32(-1, 1), _at(0)), error="InvalidArgument"),
        ),
        cost="move", by_value=(2,),
    ),
    OpRule(
        "ResourceGather", {"dtype": ("f32", "f64"), "Tindices": INDEX}, _gather_shape, _gather, (),
        cost="move", attrs={"batch_dims": ("0",)}, resources=(0,),
        notes="The variable is read in the call; its table is never copied.",
    ),
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
        tuple(Example((_at(a), _at(b), _at(s))) for a, b, s in ((0, 7, 1), (3, 17, 4), (9, 0, -2), (5, 5, 1)))
        + (Example((_at(3), _at(0), _at(1)), error="InvalidArgument"),),
        cost="shape",
    ),
]  # fmt: skip
