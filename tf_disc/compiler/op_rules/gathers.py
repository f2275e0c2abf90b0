"""Ops that pick elements by index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tf_disc.compiler.ir.dims import Dim, product
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
    scalar_i32,
)


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


def index_depth(c: RuleContext, indices: Value, rank: int) -> int:
    """How many axes the last axis of an index tensor speaks of."""
    if not indices.dims:
        raise c.unsupported("the indices have rank 0")
    size = indices.dims[-1]
    depth = c.b.hint(size)
    c.b.require(size, "==", depth, "the number of components of an index")
    if depth > rank:
        raise c.unsupported(f"{depth} components index {rank} axes")
    return depth


def linear_index(c: RuleContext, indices: Value, sizes: Sequence[Dim]) -> Value:
    """Index tuples [..., k] into axes of `sizes` as row-major positions [...]; -1 where a component is out of range."""
    outer = indices.dims[:-1]
    if len(sizes) == 1:
        return c.b.reshape(indices, outer)
    total: Value | None = None
    bad: Value | None = None
    for k, size in enumerate(sizes):
        starts = [*[0] * len(outer), k]
        part = c.b.slice(indices, starts, [*outer, 1], [1] * len(starts))
        part = c.b.elementwise("cast", c.b.reshape(part, outer), dtype="i64")
        limit = c.b.sizes([size], "i64", rank=0)
        low = c.b.elementwise("lt", part, c.b.scalar(0, "i64"))
        outside = c.b.elementwise("or", low, c.b.elementwise("ge", part, limit))
        bad = outside if bad is None else c.b.elementwise("or", bad, outside)
        total = (
            part
            if total is None
            else c.b.elementwise("add", c.b.elementwise("mul", total, limit), part)
        )
    assert total is not None and bad is not None
    return c.b.elementwise("select", bad, c.b.broadcast(c.b.scalar(-1, "i64"), outer), total)


def _gather_nd_shape(c: RuleContext) -> list[Dims]:
    depth = index_depth(c, c[1], len(c[0].dims))
    outer = c[1].dims[:-1]
    # TensorFlow refuses to read from nothing, even slices of no elements.
    nothing = 1 - Dim.call("min", 1, c[0].tensor.num_elements)
    c.b.require(
        Dim.call("min", 1, product(outer)) * nothing,
        "==",
        0,
        "GatherNd: there is something to read",
    )
    return [(*outer, *c[0].dims[depth:])]


def _gather_nd(c: RuleContext) -> Value:
    (dims,) = _gather_nd_shape(c)
    depth = index_depth(c, c[1], len(c[0].dims))
    if depth == 0:
        return c.b.broadcast(c[0], dims)
    sizes, rest = c[0].dims[:depth], c[0].dims[depth:]
    flat = c.b.reshape(c[0], [product(sizes), *rest])
    return c.b.gather(flat, linear_index(c, c[1], sizes), 0, 0)


def index_tuples(outer: tuple[int, ...], sizes: tuple[int, ...]) -> list[int]:
    """Index tuples in range, in no order."""
    return [(i * 11 + k * 5 + 3) % size for i in range(prod(outer)) for k, size in enumerate(sizes)]


_RULES: list[OpRule] = [
    OpRule(
        "GatherV2", {"Tparams": ANY, "Tindices": INDEX, "Taxis": INDEX}, _gather_shape, _gather,
        (
            Example((Arg("f32", (10, 7)), Arg("i32", (2, 3), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 7)), Arg("i64", (4,), high=7), scalar_i32(1))),
            Example((Arg("f32", (3, 10, 5)), Arg("i32", (3, 4), high=10), scalar_i32(1)), {"batch_dims": 1}),
            Example((Arg("f32", (3, 10, 5)), Arg("i32", (3, 4), high=5), scalar_i32(-1)), {"batch_dims": 1}),
            Example((Arg("f32", (3, 10, 33)), Arg("i64", (3, 4, 2), high=10), scalar_i32(-2)), {"batch_dims": -2}),
            Example((Arg("i32", (2, 3, 10)), Arg("i32", (2, 3), high=10), scalar_i32(2)), {"batch_dims": 2}),
            Example((Arg("f32", (2, 3, 7, 5)), Arg("i32", (2, 3, 130), high=7), scalar_i32(2)), {"batch_dims": -1}),
            Example((Arg("bool", (2, 0, 7)), Arg("i32", (2, 0, 3), high=7), scalar_i32(2)), {"batch_dims": 2}),
            Example((Arg("f32", (3, 10)), Arg("i32", (2, 4), high=10), scalar_i32(1)), {"batch_dims": 1},
            error="InvalidArgument"),
            Example((Arg("f32", (2, 3)), Arg("i32", (2, 2), values=(0, 1, 3, 0)), scalar_i32(1)), {"batch_dims": 1},
                    error="InvalidArgument"),
            Example((Arg("f32", (10, 33)), Arg("i32", (), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 1)), Arg("i32", (0,), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 7)), i32(1, 10), scalar_i32(0)), error="InvalidArgument"),
            Example((Arg("f32", (10, 7)), i32(-1, 1), scalar_i32(0)), error="InvalidArgument"),
        ),
        cost="move", by_value=(2,), constant="folds",
    ),
    OpRule(
        "ResourceGather", {"dtype": ANY, "Tindices": INDEX}, _gather_shape, _gather, (), cost="move", resources=(0,),
        notes="The variable is read in the call; its table is never copied.",
    ),
    OpRule(
        "Gather", {"Tparams": ANY, "Tindices": INDEX}, _gather_shape, _gather,
        (
            Example((Arg("f32", (10, 7)), Arg("i32", (2, 3), high=10))), Example((Arg("i64", (5,)),
            Arg("i64", (33,), high=5))),
            Example((Arg("f32", (3, 0)), Arg("i32", (2,), high=3))),
            Example((Arg("f32", (10, 7)), i32(1, 10)), error="InvalidArgument"),
        ),
        cost="move",
    ),
    OpRule(
        "GatherNd", {"Tparams": ANY, "Tindices": INDEX}, _gather_nd_shape, _gather_nd,
        tuple(
            Example((Arg(dtype, params), Arg(index, (*outer, depth),
            values=index_tuples(outer, params[:depth]))))
            for dtype, params, index, outer, depth in (
                ("f32", (5, 7), "i32", (3,), 1), ("f32", (5, 7), "i64", (2, 33), 2), ("f32", (3, 5, 130), "i32", (4,), 2),
                ("i32", (5,), "i32", (7, 1), 1), ("bool", (2, 3, 4), "i32", (5,), 3), ("f32", (3, 5), "i32", (0,), 2),
                ("f32", (3, 5), "i32", (2,), 0), ("i64", (1, 17), "i64", (), 1), ("f32", (0, 3), "i32", (0,), 1),
                ("f32", (0, 3), "i32", (0,), 2), ("f32", (2, 2, 1, 33), "i32", (2, 1), 3),
            )
        ) + tuple(
            Example((Arg("f32", params), Arg("i32", (len(index) // depth, depth), values=index)), error="InvalidArgument")
            for params, depth, index in (
                ((5, 7), 1, (1, 5)), ((5, 7), 1, (-1, 0)), ((5, 7), 2, (0, 7)), ((5, 7), 2, (1, -1)), ((5, 7),
                2, (5, 0)), ((3, 0), 1, (1,)),
                ((5,), 2, (0, 0)),
            )
        ),
        cost="move", attrs={"bad_indices_policy": ("", "DEFAULT", "ERROR")},
    ),
    OpRule(
        "ResourceGatherNd", {"dtype": ANY, "Tindices": INDEX}, _gather_nd_shape, _gather_nd, (),
        cost="move", resources=(0,),
        notes="The variable is read in the call; its table is never copied.",
    ),
]  # fmt: skip

RULES = [of_every_type(rule) for rule in _RULES]
