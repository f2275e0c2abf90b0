"""Ops that pick elements by index tensors."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, INDEX
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


RULES: list[OpRule] = [
    OpRule(
        "GatherV2", {"Tparams": ANY, "Tindices": INDEX, "Taxis": INDEX}, _gather_shape, _gather,
        (
            Example((Arg("f32", (10, 7)), Arg("i32", (2, 3), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 7)), Arg("i64", (4,), high=7), scalar_i32(1))),
            Example((Arg("f32", (3, 10, 5)), Arg("i32", (3, 4), high=10), scalar_i32(1)), {"batch_dims": 1}),
            Example((Arg("f32", (10, 33)), Arg("i32", (), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 1)), Arg("i32", (0,), high=10), scalar_i32(0))),
            Example((Arg("f32", (10, 7)), i32(1, 10), scalar_i32(0)), error="InvalidArgument"),
            Example((Arg("f32", (10, 7)), i32(-1, 1), scalar_i32(0)), error="InvalidArgument"),
        ),
        cost="move", by_value=(2,),
    ),
    OpRule(
        "ResourceGather", {"dtype": ("f32", "f64"), "Tindices": INDEX}, _gather_shape, _gather, (),
        cost="move", attrs={"batch_dims": ("0",)}, resources=(0,),
        notes="The variable is read in the call; its table is never copied.",
    ),
]  # fmt: skip
