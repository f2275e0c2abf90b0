"""Ops that join rows into rows by index: segments, and scatters into a new or a given tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tf_disc.compiler.ir.dims import Dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, FLOATING, INDEX, NUMBERS
from tf_disc.compiler.op_rules.examples import of_every_type
from tf_disc.compiler.op_rules.gathers import index_depth, index_tuples, linear_index
from tf_disc.compiler.op_rules.padding import zero_of
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    i32,
    scalar_i32,
)


def _rows(c: RuleContext, value: Value, count: Dim, inner: Sequence[Dim]) -> Value:
    """`value` as a matrix of rows; as a vector where a row is one element."""
    width = product(inner)
    return c.b.reshape(value, [count] if width.is_one else [count, width])


# -- segments ----------------------------------------------------------------------------


def _segments_shape(c: RuleContext) -> list[Dims]:
    data, ids = c[0].dims, c[1].dims
    if len(ids) > len(data):
        raise c.unsupported("segment numbers of a higher rank than the data")
    for a, b in zip(ids, data, strict=False):
        c.b.require(a, "==", b, f"{c.op}: a segment number for each row")
    (count,) = c.sizes(2)
    c.b.require(count, ">=", 0, f"{c.op}: the number of segments is not negative")
    return [(count, *data[len(ids) :])]


def _segments(kind: str) -> OpRule:
    def lower(c: RuleContext) -> Value:
        (dims,) = _segments_shape(c)
        updates = product(c[1].dims)
        start = c.b.broadcast(_of_nothing(c, kind, c[0].dtype), dims)
        result = c.b.scatter(
            kind,
            _rows(c, start, dims[0], dims[1:]),
            c.b.reshape(c[1], [updates]),
            _rows(c, c[0], updates, dims[1:]),
            drop_negative=True,
        )
        return c.b.reshape(result, dims)

    return OpRule(
        f"UnsortedSegment{kind.capitalize()}",
        {"T": NUMBERS, "Tindices": INDEX, "Tnumsegments": INDEX},
        _segments_shape,
        lower,
        _segment_examples(),
        alone=True,
        by_length=(2,),
    )


def _of_nothing(c: RuleContext, kind: str, dtype: str) -> Value:
    """A segment without rows: 0, 1, or the lowest or highest finite number."""
    if kind == "sum":
        return zero_of(c, dtype)
    if kind == "prod":
        return c.b.scalar(1.0 if dtype in FLOATING else 1, dtype)
    low, high = FINITE[dtype]
    return c.b.scalar(low if kind == "max" else high, dtype)


# -- scatters ----------------------------------------------------------------------------


def _scatter_dims(c: RuleContext, dims: Dims, indices: Value, updates: Value) -> int:
    """Checks a scatter into a tensor of `dims`; gives how many axes an index speaks of."""
    depth = index_depth(c, indices, len(dims))
    if depth == 0:
        raise c.unsupported("indices without components")
    if len(indices.dims) < 2:
        raise c.unsupported("indices of rank 1, which TensorFlow reads in another way")
    expected = (*indices.dims[:-1], *dims[depth:])
    if len(expected) != len(updates.dims):
        raise c.unsupported(f"updates of rank {len(updates.dims)}, expected {len(expected)}")
    for a, b in zip(updates.dims, expected, strict=True):
        c.b.require(a, "==", b, f"{c.op}: an update for each index")
    nothing = 1 - Dim.call("min", 1, product(dims))
    some = Dim.call("min", 1, indices.tensor.num_elements)
    c.b.require(some * nothing, "==", 0, f"{c.op}: there is something to write to")
    return depth


def _scatter(c: RuleContext, kind: str, start: Value, indices: Value, updates: Value) -> Value:
    dims = start.dims
    depth = _scatter_dims(c, dims, indices, updates)
    count, inner = product(dims[:depth]), dims[depth:]
    at = linear_index(c, indices, dims[:depth])
    number = product(indices.dims[:-1])
    result = c.b.scatter(
        kind,
        _rows(c, start, count, inner),
        c.b.reshape(at, [number]),
        _rows(c, updates, number, inner),
        drop_negative=False,
    )
    return c.b.reshape(result, dims)


def _new_shape(c: RuleContext) -> list[Dims]:
    dims = c.sizes(2)
    for d in dims:
        c.b.require(d, ">=", 0, "ScatterNd: a size is not negative")
    _scatter_dims(c, dims, c[0], c[1])
    return [dims]


def _scatter_nd(c: RuleContext) -> Value:
    (dims,) = _new_shape(c)
    start = c.b.broadcast(zero_of(c, c[1].dtype), dims)
    return _scatter(c, "sum", start, c[0], c[1])


def _given_shape(c: RuleContext) -> list[Dims]:
    _scatter_dims(c, c[0].dims, c[1], c[2])
    return [c[0].dims]


def _into_given(op: str, kind: str, types: tuple[str, ...]) -> OpRule:
    return OpRule(
        op,
        {"T": types, "Tindices": INDEX},
        _given_shape,
        lambda c: _scatter(c, kind, c[0], c[1], c[2]),
        tuple(
            Example((Arg(dtype, dims), indices, Arg(dtype, updates)))
            for dtype, dims, indices, updates in _scatter_cases()
        )
        + tuple(
            Example((Arg("f32", dims), indices, Arg("f32", updates)), error="InvalidArgument")
            for dims, indices, updates in _REFUSED
        ),
        attrs=POLICY,
    )


#: What TensorFlow does with an index out of range: only the error is done here.
POLICY = {"bad_indices_policy": ("", "DEFAULT", "ERROR")}
#: The lowest and the highest finite number of each type.
FINITE: dict[str, tuple[float, float]] = {
    "f32": (-3.4028234663852886e38, 3.4028234663852886e38),
    "f64": (-1.7976931348623157e308, 1.7976931348623157e308),
    "f16": (-65504.0, 65504.0),
    "bf16": (-3.3895313892515355e38, 3.3895313892515355e38),
    "i8": (-(2**7), 2**7 - 1), "u8": (0, 2**8 - 1), "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1),
}  # fmt: skip


def _ids(index: str, dims: tuple[int, ...], count: int) -> Arg:
    """Segment numbers in no order, some of them negative."""
    total = product(dims).value or 0
    return Arg(
        index, dims, values=[(i * 7) % (count + 2) - 2 if count else -1 for i in range(total)]
    )


def _segment_examples() -> tuple[Example, ...]:
    return tuple(
        Example((Arg(dtype, data), _ids(index, ids, count), scalar_i32(count)))
        for dtype, data, index, ids, count in (
            ("f32", (7,), "i32", (7,), 3), ("f32", (33, 3), "i32", (33,), 5), ("f32", (5, 2, 33), "i64", (5, 2), 4),
            ("f32", (17, 5, 3), "i32", (17,), 2), ("f32", (0, 3), "i32", (0,), 4), ("f32", (3, 0), "i32", (3,), 2),
            ("f32", (3, 2), "i32", (3,), 0), ("f32", (9, 130), "i32", (9,), 3), ("f32", (5, 1), "i64", (5,), 1),
            ("i32", (17, 2), "i32", (17,), 3), ("i64", (3, 3), "i64", (3, 3), 2), ("f64", (33, 2), "i32", (33,), 4),
        )
    ) + (
        Example((Arg("f32", (3, 2)), i32(0, 3, -1), scalar_i32(3)), error="InvalidArgument"),
        Example((Arg("f32", (3,)), i32(0, 1, 9), scalar_i32(3)), error="InvalidArgument"),
        Example((Arg("f32", (3, 2)), i32(0, 1), scalar_i32(3)), error="InvalidArgument"),
        Example((Arg("f32", (3, 2)), i32(-1, -1, -1), scalar_i32(-1)), error="InvalidArgument"),
    )  # fmt: skip


def _scatter_cases() -> list[tuple[str, tuple[int, ...], Arg, tuple[int, ...]]]:
    """dtype, the tensor's sizes, indices with repetitions, the updates' sizes."""
    return [
        (dtype, dims, Arg(index, (*outer, depth), values=index_tuples(outer, dims[:depth])), (*outer, *dims[depth:]))
        for dtype, dims, index, outer, depth in (
            ("f32", (5,), "i32", (7,), 1), ("f32", (5, 33), "i32", (8,), 1), ("f32", (3, 5), "i64", (2, 9), 2),
            ("f32", (2, 3, 130), "i32", (5,), 2), ("f32", (5, 3), "i32", (0,), 1), ("i32", (4, 3), "i32", (9,), 1),
            ("i64", (2, 2, 2), "i64", (17,), 3), ("f64", (3, 7), "i32", (5,), 1), ("f32", (1, 1), "i32", (1, 3),
            2), ("f32", (3, 7), "i64", (2, 2), 1),
            ("f32", (3, 2, 5), "i32",
            (4,), 1),
        )
    ]  # fmt: skip


_REFUSED: tuple[tuple[tuple[int, ...], Arg, tuple[int, ...]], ...] = (
    ((5,), Arg("i32", (2, 1), values=(1, 5)), (2,)), ((5,), Arg("i32", (2, 1), values=(-1, 0)), (2,)),
    ((3, 5), Arg("i32", (1, 2), values=(1, 5)), (1,)), ((3, 5), Arg("i32", (1, 2), values=(-1, 2)), (1,)),
    ((3, 5), Arg("i32", (2, 1), values=(1, 2)), (2, 4)), ((3, 0), Arg("i32", (1, 1), values=(1,)), (1, 0)),
)  # fmt: skip

_RULES: list[OpRule] = [
    *(_segments(kind) for kind in ("sum", "prod", "max", "min")),
    OpRule(
        "ScatterNd",
        {"T": NUMBERS, "Tindices": INDEX},
        _new_shape,
        _scatter_nd,
        tuple(
            Example((indices, Arg(dtype, updates), Arg(indices.dtype, (len(dims),), values=dims)))
            for dtype, dims, indices, updates in _scatter_cases()
        )
        + tuple(
            Example((indices, Arg("f32", updates), i32(*dims)), error="InvalidArgument")
            for dims, indices, updates in _REFUSED
        ),
        by_length=(2,),
        attrs=POLICY,
    ),
    _into_given("TensorScatterUpdate", "set", ANY),
    _into_given("TensorScatterAdd", "sum", NUMBERS),
    _into_given("TensorScatterSub", "sub", NUMBERS),
    _into_given("TensorScatterMax", "max_kept", NUMBERS),
    _into_given("TensorScatterMin", "min_kept", NUMBERS),
]

RULES = [of_every_type(rule) for rule in _RULES]
