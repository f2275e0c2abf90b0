"""Casts and selects: element by element, between types or values."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    broadcast_all,
    same_as_first,
)


def _cast(c: RuleContext) -> Value:
    return c.b.elementwise("cast", c[0], dtype=c.attr("DstT"))


def _select_v1_shape(c: RuleContext) -> list[Dims]:
    """The condition has the values' shape, is a scalar, or has one element for each of their first axis."""
    for a, b in zip(c[1].dims, c[2].dims, strict=True):
        c.b.require(b, "==", a, "Select takes two values of one shape")
    if len(c[0].dims) not in (0, 1, len(c[1].dims)):
        raise c.unsupported("the condition has neither the values' shape nor one element a row")
    for a, b in zip(c[0].dims, c[1].dims, strict=False):
        c.b.require(a, "==", b, "Select's condition has the values' shape")
    return [c[1].dims]


def _select_v1(c: RuleContext) -> Value:
    condition, rank = c[0], len(c[1].dims)
    if len(condition.dims) == 1 < rank:
        condition = c.b.reshape(condition, [condition.dims[0], *[1] * (rank - 1)])
    dims = c[1].dims
    condition = c.b.agreed(condition, dims) if len(condition.dims) == rank else condition
    return c.b.elementwise("select", condition, c[1], c.b.agreed(c[2], dims))


RULES: list[OpRule] = [
    OpRule(
        "Cast", {"SrcT": ANY, "DstT": ANY}, same_as_first, _cast,
        tuple(
            Example((Arg(s, (3, 19), "unit" if d == "u8" else "finite"),), {"DstT": d}) for s in ANY for d in ANY if s != d
        ) + (Example((Arg("f32", (0, 3)),), {"DstT": "i64"}),
             Example((Arg("f32", (4, 33)),), {"DstT": "bf16"}), Example((Arg("f64", (4, 33)),), {"DstT": "f16"})),
        attrs={"Truncate": ("false",)}, constant="folds",
        notes="A float out of an integer's range gives what the CPU's vector conversion gives, as in TensorFlow, which "
        "differs in the last few elements of a tensor.",
    ),
    OpRule(
        "SelectV2", {"T": ANY}, broadcast_all, lambda c: c.b.elementwise("select", *c.inputs),
        tuple(
            Example((Arg("bool", a), Arg(d, b), Arg(d, e)))
            for d in ANY
            for a, b, e in (((3, 5), (3, 5), (3, 5)), ((5,), (3, 5), ()), ((), (17,), (17,)), ((3, 1), (1, 33), (33,)),
                            ((0, 3), (3,), ()))
        ),
        alone=True,
    ),
    OpRule(
        "Select", {"T": ANY}, _select_v1_shape, _select_v1,
        tuple(
            Example((Arg("bool", s), Arg(d, v), Arg(d, v)))
            for d in ANY
            for s, v in (((3, 5), (3, 5)), ((0, 5), (0, 5)), ((), (3, 5)), ((3,), (3, 37)), ((5,), (5,)))
        ),
        alone=True,
    ),
]  # fmt: skip
