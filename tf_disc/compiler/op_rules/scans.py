"""Running sums and products."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import INDEX, NUMBERS
from tf_disc.compiler.op_rules.examples import of_every_type
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    same_as_first,
    scalar_i32,
)


def _shape(c: RuleContext) -> list[Dims]:
    (axis,) = c.constant(1)
    c.axis(axis, len(c[0].dims))
    return same_as_first(c)


def _is_one(value: Value) -> bool:
    """True where every element is the integer 1."""
    while value.op is not None and value.op.name in ("broadcast", "reshape"):
        value = value.op.operands[0]
    if value.op is None or value.op.name != "const" or value.dtype not in ("i32", "i64"):
        return False
    return set(value.op.attrs["values"]) == {1}


def _counted(c: RuleContext, axis: int, exclusive: bool) -> Value:
    """A running sum of ones is a range: Keras makes its causal masks of two."""
    dims, dtype = c[0].dims, c[0].dtype
    numbers = c.b.iota(dims[axis], dtype)
    if not exclusive:
        numbers = c.b.elementwise("add", numbers, c.b.scalar(1, dtype))
    shape = [d if a == axis else 1 for a, d in enumerate(dims)]
    return c.b.broadcast(c.b.reshape(numbers, shape), dims)


def _scan(kind: str) -> OpRule:
    def lower(c: RuleContext) -> Value:
        (axis,) = c.axes(1, len(c[0].dims))
        exclusive, reverse = bool(c.attr("exclusive", False)), bool(c.attr("reverse", False))
        if kind == "sum" and not reverse and _is_one(c[0]):
            return _counted(c, axis, exclusive)
        return c.b.scan(kind, c[0], axis, exclusive=exclusive, reverse=reverse)

    return OpRule(
        {"sum": "Cumsum", "prod": "Cumprod"}[kind],
        {"T": NUMBERS, "Tidx": INDEX},
        _shape,
        lower,
        tuple(
            Example(
                (
                    Arg(dtype, dims, "any" if dtype in ("f32", "f64") else "finite"),
                    scalar_i32(axis),
                ),
                {"exclusive": exclusive, "reverse": reverse},
            )
            for dtype, dims, axis in _CASES
            for exclusive in (False, True)
            for reverse in (False, True)
        )
        + (
            Example((Arg("f32", (3,)), scalar_i32(1)), error="InvalidArgument"),
            Example((Arg("f32", ()), scalar_i32(0)), error="InvalidArgument"),
        ),
        alone=True,
        by_value=(1,),
    )


_CASES: tuple[tuple[str, tuple[int, ...], int], ...] = (
    ("f32", (7,), 0), ("f32", (3, 33), 1), ("f32", (33, 3), 0), ("f32", (5, 130), -2), ("f32", (2, 3, 5, 2), 1),
    ("f32", (0, 3), 0),
    ("f32", (0, 3), 1), ("f32", (3, 0), 1), ("f32", (1, 1), 0), ("f32", (4, 1), 0), ("f32", (3, 521), 0),
    ("i32", (3, 17), 1),
    ("i64", (17, 3), 0), ("f64", (2, 7, 3), 1),
)  # fmt: skip

_RULES: list[OpRule] = [_scan("sum"), _scan("prod")]

RULES = [of_every_type(rule) for rule in _RULES]
