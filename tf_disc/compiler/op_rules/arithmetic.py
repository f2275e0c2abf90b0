"""Arithmetic, comparisons, logic and bits: ops of one or two operands that broadcast."""

from __future__ import annotations

from collections.abc import Callable

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.ir.types import INTEGERS
from tf_disc.compiler.op_rules import examples
from tf_disc.compiler.op_rules.dtypes import FLOATING, INTEGRAL, NUMBERS, SIGNED, single
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    broadcast_all,
    same_as_first,
)

WIDE = ("f32", "f64", "i32", "i64")
Lowering = Callable[[RuleContext], Value]


#: Functions of integers that the builder computes where the operands are known.
_FOLDED = ("add", "sub", "mul", "max", "min")


def unary(
    op: str,
    lower: str | Lowering,
    dtypes: tuple[str, ...],
    kind: str = "any",
    alone: bool = False,
) -> OpRule:
    """One operand. `lower`: a scalar function's name, or the lowering."""
    shown = examples.unary(dtypes, kind)
    return OpRule(op, {"T": dtypes}, same_as_first, _lowering(lower), shown, alone=alone)


def binary(op: str, lower: str | Lowering, dtypes: tuple[str, ...], *kinds: str) -> OpRule:
    """Two operands that broadcast. kinds: what the examples' operands hold."""
    shown = examples.binary(dtypes, *kinds)
    constant = "folds" if lower in _FOLDED else "no"
    return OpRule(op, {"T": dtypes}, broadcast_all, _lowering(lower, 2), shown, constant=constant)


def _lowering(lower: str | Lowering, arity: int = 1) -> Lowering:
    if isinstance(lower, str):
        return lambda c: c.b.elementwise(lower, *(c[i] for i in range(arity)))
    return lower


def _comparison(op: str, function: str) -> OpRule:
    """Eq and Ne may be told not to broadcast (then the shapes are equal or the answer is a scalar)."""
    equality = function in ("eq", "ne")
    return OpRule(
        op,
        {"T": (*NUMBERS, "bool") if equality else NUMBERS},
        broadcast_all,
        lambda c: c.b.elementwise(function, c[0], c[1]),
        examples.binary((*NUMBERS, "bool") if equality else NUMBERS),
        attrs={"incompatible_shape_error": ("true",)} if equality else {},
    )


_INFINITY = float("inf")
_PAIRS = (
    (5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (-5.0, -3.0), (0.0, 3.0), (-0.0, 3.0), (_INFINITY, 1.0), (1.0, _INFINITY),
    (1.0, 0.0), (float("nan"), 1.0), (-1.0, _INFINITY), (1e-30, 1.0), (-1e-30, 1.0), (2.5, float("nan")),
)  # fmt: skip
_ZEROS_AND_INFINITIES = (0.0, -0.0, 1.0, -1.0, _INFINITY, -_INFINITY, float("nan"))
#: All quadrants, axes and diagonals.
_ANGLES = tuple(
    Example(
        (Arg(d, (7, 1), values=_ZEROS_AND_INFINITIES), Arg(d, (7,), values=_ZEROS_AND_INFINITIES))
    )
    for d in FLOATING
)
#: What a division does at its edges.
_EDGES = Example(tuple(Arg("f32", (len(_PAIRS),), values=v) for v in zip(*_PAIRS, strict=True)))


def _integer_division(
    op: str,
    integers: str,
    lower: Lowering,
    dtypes: tuple[str, ...],
    error: str = "InvalidArgument",
) -> OpRule:
    """Integers by a scalar function that leaves a division by zero to TensorFlow; floats composed."""

    def either(c: RuleContext) -> Value:
        if c[0].dtype in INTEGERS:
            return c.b.elementwise(integers, c[0], c[1])
        return lower(c)

    whole = tuple(d for d in dtypes if d in INTEGERS)
    floats = tuple(d for d in dtypes if d not in INTEGERS)
    zero = Example(
        (Arg("i32", (3,), values=(1, 2, 3)), Arg("i32", (3,), values=(1, 0, 3))),
        error=error,
    )
    lowest = Example((Arg("i64", (2,), values=(-(2**63), 7)), Arg("i64", (), values=-1)))
    lowest_32 = Example((Arg("i32", (2,), values=(-(2**31), 7)), Arg("i32", (), values=-1)))
    special = (_EDGES,) if floats else ()
    shown = examples.binary(whole, "any", "nonzero") + examples.binary(floats, "finite") + special
    return OpRule(
        op,
        {"T": dtypes},
        broadcast_all,
        either,
        (*shown, zero, lowest, lowest_32),
        constant="folds",
        notes="A division of integers by zero is left to TensorFlow, which reports it.",
    )


def _divide(c: RuleContext) -> Value:
    return c.b.elementwise("div", c[0], c[1])


def _floor_divide(c: RuleContext) -> Value:
    return c.b.elementwise("floor", _divide(c))


def _floor_modulo(c: RuleContext) -> Value:
    """fmod, plus the divisor where the signs of rest and divisor differ."""
    rest = c.b.elementwise("fmod", c[0], c[1])
    zero = c.b.scalar(0.0, c[0].dtype)
    differ = c.b.elementwise(
        "ne", c.b.elementwise("lt", rest, zero), c.b.elementwise("lt", c[1], zero)
    )
    moved = c.b.elementwise("and", differ, c.b.elementwise("ne", rest, zero))
    return c.b.elementwise("select", moved, c.b.elementwise("add", rest, c[1]), rest)


def _where_zero(c: RuleContext, tested: Value, otherwise: Value) -> Value:
    """0 where `tested` is 0."""
    zero = c.b.scalar(0.0, tested.dtype)
    return c.b.elementwise("select", c.b.elementwise("eq", tested, zero), zero, otherwise)


def _unless_zero(c: RuleContext, otherwise: Value) -> Value:
    """The first operand itself where it is 0, of either sign."""
    zero = c.b.scalar(0.0, c[0].dtype)
    return c.b.elementwise("select", c.b.elementwise("eq", c[0], zero), c[0], otherwise)


def _squared_difference(c: RuleContext) -> Value:
    d = c.b.elementwise("sub", c[0], c[1])
    return c.b.elementwise("mul", d, d)


def _power(c: RuleContext) -> Value:
    """Small constant exponents without the general function, where that is exact enough."""
    exponent = c.b.constants.get(c[1], ())
    x = c[0]
    if x.dtype not in INTEGERS and len(set(exponent)) == 1:
        if exponent[0] == 1.0:
            return c.b.broadcast(x, broadcast_all(c)[0])
        if exponent[0] == 2.0:
            wide = c.b.broadcast(x, broadcast_all(c)[0])
            return c.b.elementwise("mul", wide, wide)
    return c.b.elementwise("pow", x, c[1])


_POWERS = tuple(
    Example((Arg(d, a, k), Arg(d, b, values=v if b else v[0])))
    for d, k in (("f32", "any"), ("f64", "any"), ("f16", "finite"), ("bf16", "finite"))
    for a, b, v in (
        ((3, 17), (), (2.0,)), ((33,), (), (1.0,)), ((33,), (), (0.5,)), ((33,), (), (-1.0,)), ((33,), (), (0.0,)),
        ((2, 5), (5,), (3.0, -0.5, 2.5, 0.0, 1.0)), ((0, 5), (1,), (2.0,)),
    )
) + tuple(
    Example((Arg(d, a), Arg(d, b, high=9)))
    for d in SIGNED for a, b in (((3, 33), (33,)), ((0, 3), (3,)), ((17,), ()))
) + (
    Example((Arg("i32", (2,), values=(2, 3)), Arg("i32", (2,), values=(1, -1))), error="InvalidArgument"),
    Example((Arg("f32", (3, 17), "any"), Arg("f32", (17,), "any"))),
)  # fmt: skip


def _one_shape(c: RuleContext) -> list[Dims]:
    dims = c[0].dims
    for other in c.inputs[1:]:
        if len(other.dims) != len(dims):
            raise c.unsupported("its operands have one shape")
        for a, b in zip(dims, other.dims, strict=True):
            c.b.require(b, "==", a, "its operands have one shape")
    return [dims]


def _approximately(c: RuleContext) -> Value:
    """|x - y| below a tolerance, which is an f32 as attributes are."""
    bound = single(c.attr("tolerance", 1e-5))
    difference = c.b.elementwise("sub", c[0], c.b.agreed(c[1], c[0].dims))
    return c.b.elementwise("lt", c.b.elementwise("abs", difference), c.b.scalar(bound, c[0].dtype))


def _add_n(c: RuleContext) -> Value:
    total = c[0]
    for other in c.inputs[1:]:
        total = c.b.elementwise("add", total, c.b.agreed(other, c[0].dims))
    return total


def _clip(c: RuleContext) -> Value:
    """max(min(x, high), low): the low bound wins. Both bounds have x's shape or one element."""
    low, high = (c.b.agreed(v, c[0].dims) if v.dims else v for v in (c[1], c[2]))
    return c.b.elementwise("max", c.b.elementwise("min", c[0], high), low)


def _clip_shape(c: RuleContext) -> list[Dims]:
    for bound in (c[1], c[2]):
        if bound.dims and len(bound.dims) != len(c[0].dims):
            raise c.unsupported("a bound that is neither a scalar nor of the value's shape")
        for a, b in zip(bound.dims, c[0].dims, strict=bool(bound.dims)):
            c.b.require(a, "==", b, "a bound has the value's shape")
    return [c[0].dims]


RULES: list[OpRule] = [
    binary("Add", "add", NUMBERS),
    binary("AddV2", "add", NUMBERS),
    binary("Sub", "sub", NUMBERS),
    binary("Mul", "mul", NUMBERS),
    binary("RealDiv", "div", FLOATING),
    _integer_division("Div", "truncdiv", _divide, NUMBERS),
    _integer_division("FloorDiv", "floordiv", _floor_divide, NUMBERS),
    _integer_division("TruncateDiv", "truncdiv", _divide, INTEGRAL, "Internal"),
    _integer_division("FloorMod", "floormod", _floor_modulo, NUMBERS),
    _integer_division("Mod", "truncmod", lambda c: c.b.elementwise("fmod", c[0], c[1]), WIDE),
    _integer_division(
        "TruncateMod", "truncmod", lambda c: c.b.elementwise("fmod", c[0], c[1]), WIDE, "Internal"
    ),
    binary("DivNoNan", lambda c: _where_zero(c, c[1], _divide(c)), FLOATING),
    binary("MulNoNan", lambda c: _where_zero(c, c[1], c.b.elementwise("mul", c[0], c[1])), FLOATING),
    binary("Xdivy", lambda c: _unless_zero(c, _divide(c)), FLOATING),
    binary(
        "Xlogy",
        lambda c: _unless_zero(c, c.b.elementwise("mul", c[0], c.b.elementwise("log", c[1]))),
        FLOATING,
    ),
    binary(
        "Xlog1py",
        lambda c: _unless_zero(c, c.b.elementwise("mul", c[0], c.b.elementwise("log1p", c[1]))),
        FLOATING,
    ),
    binary("Maximum", "max", NUMBERS),
    binary("Minimum", "min", NUMBERS),
    binary("SquaredDifference", _squared_difference, (*FLOATING, "i32", "i64")),
    OpRule("Pow", {"T": (*FLOATING, *SIGNED)}, broadcast_all, _power, _POWERS, alone=True),
    OpRule(
        "Atan2", {"T": FLOATING}, broadcast_all, _lowering("atan2", 2),
        examples.binary(FLOATING) + examples.binary(FLOATING, "finite") + _ANGLES,
    ),
    _comparison("Equal", "eq"),
    _comparison("NotEqual", "ne"),
    _comparison("Less", "lt"),
    _comparison("LessEqual", "le"),
    _comparison("Greater", "gt"),
    _comparison("GreaterEqual", "ge"),
    *(
        OpRule(
            op, {}, broadcast_all, _lowering(function, 1 if op == "LogicalNot" else 2),
            examples.unary(("bool",)) if op == "LogicalNot" else examples.binary(("bool",)),
        )
        for op, function in (("LogicalAnd", "and"), ("LogicalOr", "or"), ("LogicalNot", "not"))
    ),
    binary("BitwiseAnd", "and", INTEGRAL),
    binary("BitwiseOr", "or", INTEGRAL),
    binary("BitwiseXor", "xor", INTEGRAL),
    unary("Invert", "not", INTEGRAL),
    binary("LeftShift", "shl", INTEGRAL),
    binary("RightShift", "shr", INTEGRAL),
    unary("Neg", "neg", (*FLOATING, *SIGNED)),
    unary("Abs", "abs", (*FLOATING, *SIGNED)),
    unary("Sign", "sign", (*FLOATING, *SIGNED)),
    unary("Square", lambda c: c.b.elementwise("mul", c[0], c[0]), NUMBERS),
    unary("Reciprocal", lambda c: c.b.elementwise("div", c.b.scalar(1.0, c[0].dtype), c[0]), FLOATING),
    unary("Inv", lambda c: c.b.elementwise("div", c.b.scalar(1.0, c[0].dtype), c[0]), FLOATING),
    unary("Floor", "floor", FLOATING),
    unary("Ceil", "ceil", FLOATING),
    unary("Rint", "rint", ("f32", "f64")),
    unary("Round", "rint", FLOATING),
    unary("IsNan", "isnan", FLOATING),
    unary("IsInf", "isinf", FLOATING),
    unary("IsFinite", "isfinite", FLOATING),
    OpRule(
        "ApproximateEqual", {"T": ("f32", "f64")}, _one_shape, _approximately,
        tuple(
            Example((Arg(d, s), Arg(d, s)), {"tolerance": t})
            for d in ("f32", "f64") for s in ((3, 67), (0, 3), ()) for t in (1e-5, 0.5, 3.0)
        ) + (Example((Arg("f32", (3,)), Arg("f32", (4,))), error="InvalidArgument"),),
    ),
    OpRule(
        "AddN", {"T": NUMBERS}, _one_shape, _add_n,
        (
            Example(((Arg("f32", (3, 5)), Arg("f32", (3, 5)), Arg("f32", (3, 5))),)),  # type: ignore[arg-type]
            Example(((Arg("f32", (0, 5)), Arg("f32", (0, 5))),)),  # type: ignore[arg-type]
            *(Example(((Arg(d, (33,)),) * 2,)) for d in NUMBERS),  # type: ignore[arg-type]
            Example(((Arg("i32", (7,)),),)),  # type: ignore[arg-type]
        ),
    ),
    OpRule(
        "ClipByValue", {"T": NUMBERS}, _clip_shape, _clip,
        tuple(
            Example((Arg(d, shape), Arg(d, low, values=None if low else 1), Arg(d, high, values=None if high else 3)))
            for d in NUMBERS
            for shape, low, high in (((3, 17), (), ()), ((0,), (), ()), ((5,), (5,), ()), ((3, 5), (3, 5), (3, 5)))
        ),
    ),
]  # fmt: skip
