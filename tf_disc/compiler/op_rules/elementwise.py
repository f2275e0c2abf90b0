"""Ops that compute each element by itself: arithmetic, comparisons, activations, casts, selects."""

from __future__ import annotations

from collections.abc import Callable

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY, FLOATING, NUMBERS
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    broadcast_all,
    same_as_first,
)

F32 = ("f32",)


def _unary_examples(dtype: str = "f32", kind: str = "any") -> tuple[Example, ...]:
    shapes = ((), (0,), (1,), (3, 5), (17,), (2, 3, 67), (4, 0, 2))
    return tuple(Example((Arg(dtype, s, kind),)) for s in shapes)


def _binary_examples(*dtypes: str, kind: str = "any") -> tuple[Example, ...]:
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((), ()), ((5,), (5,)), ((3, 17), (17,)), ((3, 17), (3, 1)), ((2, 1, 7), (4, 1)), ((0, 3), (3,)),
        ((1,), (33,)), ((2, 3, 4, 5), (1, 3, 1, 5)), ((130,), ()),
    )  # fmt: skip
    return tuple(Example((Arg(d, a, kind), Arg(d, b, kind))) for d in dtypes for a, b in pairs)


def _unary(op: str, function: str, dtypes: tuple[str, ...] = F32, kind: str = "any") -> OpRule:
    return OpRule(
        op,
        {"T": dtypes},
        same_as_first,
        lambda c: c.b.elementwise(function, c[0]),
        sum((_unary_examples(d, kind) for d in dtypes), ()),
    )


def _binary(
    op: str, function: str, dtypes: tuple[str, ...] = NUMBERS, cost: str = "real"
) -> OpRule:
    return OpRule(
        op,
        {"T": dtypes},
        broadcast_all,
        lambda c: c.b.elementwise(function, c[0], c[1]),
        _binary_examples(*dtypes),
        cost=cost,
    )


def _comparison(op: str, function: str) -> OpRule:
    """Eq and Ne may be told not to broadcast (then the shapes are equal or the answer is a scalar)."""
    attrs = {"incompatible_shape_error": ("true",)} if function in ("eq", "ne") else {}
    return OpRule(
        op,
        {"T": NUMBERS},
        broadcast_all,
        lambda c: c.b.elementwise(function, c[0], c[1]),
        _binary_examples("f32", "i32", "i64"),
        attrs=attrs,
    )


def _logical(op: str, function: str) -> OpRule:
    return OpRule(
        op,
        {},
        broadcast_all,
        lambda c: c.b.elementwise(function, *c.inputs),
        _binary_examples("bool")
        if len(op) < 11 and op != "LogicalNot"
        else _unary_examples("bool"),
    )


def _relu(c: RuleContext) -> Value:
    return c.b.elementwise("max", c[0], c.b.scalar(0.0, c[0].dtype))


def _square(c: RuleContext) -> Value:
    return c.b.elementwise("mul", c[0], c[0])


def _squared_difference(c: RuleContext) -> Value:
    d = c.b.elementwise("sub", c[0], c[1])
    return c.b.elementwise("mul", d, d)


def _add_n_shape(c: RuleContext) -> list[Dims]:
    dims = c[0].dims
    for other in c.inputs[1:]:
        if len(other.dims) != len(dims):
            raise c.unsupported("AddN takes operands of one shape")
        for a, b in zip(dims, other.dims, strict=True):
            c.b.require(b, "==", a, "AddN takes operands of one shape")
    return [dims]


def _add_n(c: RuleContext) -> Value:
    total = c[0]
    for other in c.inputs[1:]:
        total = c.b.elementwise("add", total, other)
    return total


def _bias_shape(c: RuleContext) -> list[Dims]:
    if len(c[1].dims) != 1 or len(c[0].dims) < 2:
        raise c.unsupported("BiasAdd takes a value of rank 2 or more and a bias of rank 1")
    c.b.require(c[1].dims[0], "==", c[0].dims[-1], "bias and channels")
    return [c[0].dims]


def _bias_add(c: RuleContext) -> Value:
    return c.b.elementwise("add", c[0], c.b.broadcast(c[1], c[0].dims))


def _cast(c: RuleContext) -> Value:
    return c.b.elementwise("cast", c[0], dtype=c.attr("DstT"))


def _select_v1_shape(c: RuleContext) -> list[Dims]:
    for a, b in zip(c[1].dims, c[2].dims, strict=True):
        c.b.require(b, "==", a, "Select takes two values of one shape")
    if c[0].dims and len(c[0].dims) != len(c[1].dims):
        raise c.unsupported("Select with a condition for each row")
    for a, b in zip(c[0].dims, c[1].dims, strict=False):
        c.b.require(a, "==", b, "Select's condition has the values' shape")
    return [c[1].dims]


def _select(c: RuleContext) -> Value:
    return c.b.elementwise("select", c[0], c[1], c[2])


#: Functions that TensorFlow's arithmetic optimizer joins into one _UnaryOpsComposition.
COMPOSED: dict[str, Callable[[RuleContext, Value], Value]] = {
    "Abs": lambda c, x: c.b.elementwise("abs", x),
    "Exp": lambda c, x: c.b.elementwise("exp", x),
    "Log": lambda c, x: c.b.elementwise("log", x),
    "Log1p": lambda c, x: c.b.elementwise("log1p", x),
    "Neg": lambda c, x: c.b.elementwise("neg", x),
    "Relu": lambda c, x: c.b.elementwise("max", x, c.b.scalar(0.0, x.dtype)),
    "Rsqrt": lambda c, x: c.b.elementwise("rsqrt", x),
    "Sigmoid": lambda c, x: c.b.elementwise("sigmoid", x),
    "Sqrt": lambda c, x: c.b.elementwise("sqrt", x),
    "Square": lambda c, x: c.b.elementwise("mul", x, x),
    "Tanh": lambda c, x: c.b.elementwise("tanh", x),
}


def _composition(c: RuleContext) -> Value:
    value = c[0]
    for name in c.attr("op_names"):
        if name not in COMPOSED:
            raise c.unsupported(f"no rule for {name} inside a composition")
        value = COMPOSED[name](c, value)
    return value


def _identity_shape(c: RuleContext) -> list[Dims]:
    return [v.dims for v in c.inputs]


RULES: list[OpRule] = [
    _binary("Add", "add"),
    _binary("AddV2", "add"),
    _binary("Sub", "sub"),
    _binary("Mul", "mul"),
    _binary("RealDiv", "div", FLOATING),
    _binary("Maximum", "max"),
    _binary("Minimum", "min"),
    _comparison("Equal", "eq"),
    _comparison("NotEqual", "ne"),
    _comparison("Less", "lt"),
    _comparison("LessEqual", "le"),
    _comparison("Greater", "gt"),
    _comparison("GreaterEqual", "ge"),
    _logical("LogicalAnd", "and"),
    _logical("LogicalOr", "or"),
    _logical("LogicalNot", "not"),
    _unary("Neg", "neg", NUMBERS),
    _unary("Abs", "abs", NUMBERS),
    _unary("Exp", "exp"),
    _unary("Log", "log"),
    _unary("Log1p", "log1p"),
    _unary("Sqrt", "sqrt", FLOATING),
    _unary("Rsqrt", "rsqrt"),
    _unary("Tanh", "tanh"),
    _unary("Sigmoid", "sigmoid"),
    _unary("Erf", "erf"),
    _unary("Erfc", "erfc"),
    OpRule("Relu", {"T": F32}, same_as_first, _relu, _unary_examples()),
    OpRule(
        "Square", {"T": NUMBERS}, same_as_first, _square,
        sum((_unary_examples(d) for d in NUMBERS), ()),
    ),
    OpRule(
        "SquaredDifference", {"T": NUMBERS}, broadcast_all, _squared_difference, _binary_examples(*NUMBERS)
    ),
    OpRule(
        "AddN", {"T": NUMBERS}, _add_n_shape, _add_n,
        (
            Example(((Arg("f32", (3, 5)), Arg("f32", (3, 5)), Arg("f32", (3, 5))),)),  # type: ignore[arg-type]
            Example(((Arg("f32", (0, 5)), Arg("f32", (0, 5))),)),  # type: ignore[arg-type]
            Example(((Arg("i32", (7,)),),)),  # type: ignore[arg-type]
        ),
    ),
    OpRule(
        "BiasAdd", {"T": F32}, _bias_shape, _bias_add,
        tuple(
            Example((Arg("f32", (*s, n)), Arg("f32", (n,))))
            for s, n in (((3,), 5), ((2, 3), 17), ((0,), 4), ((2, 2, 2), 1), ((5,), 0))
        ),
        attrs={"data_format": ("NHWC",)},
    ),
    OpRule(
        "Cast", {"SrcT": ANY, "DstT": ANY}, same_as_first, _cast,
        tuple(
            Example((Arg(s, (3, 19), "finite"),), {"DstT": d})
            for s in ANY for d in ANY if s != d
        ) + (Example((Arg("f32", (0, 3)),), {"DstT": "i64"}),),
        attrs={"Truncate": ("false",)},
        notes="A float out of an integer's range gives what the CPU's conversion gives, as in TensorFlow.",
    ),
    OpRule(
        "SelectV2", {"T": ANY}, broadcast_all, _select,
        tuple(
            Example((Arg("bool", a), Arg(d, b), Arg(d, e)))
            for d in ("f32", "i64")
            for a, b, e in (((3, 5), (3, 5), (3, 5)), ((5,), (3, 5), ()), ((), (17,), (17,)), ((3, 1), (1, 33), (33,)),
                            ((0, 3), (3,), ()))
        ),
    ),
    OpRule(
        "Select", {"T": ANY}, _select_v1_shape, _select,
        (
            Example((Arg("bool", (3, 5)), Arg("f32", (3, 5)), Arg("f32", (3, 5)))),
            Example((Arg("bool", (0, 5)), Arg("f32", (0, 5)), Arg("f32", (0, 5)))),
            Example((Arg("bool", ()), Arg("f32", (3, 5)), Arg("f32", (3, 5)))),
        ),
    ),
    OpRule(
        "_UnaryOpsComposition", {"T": F32}, same_as_first, _composition,
        tuple(
            Example((Arg("f32", shape, "finite"),), {"op_names": names})
            for shape in ((3, 37), (0, 3)) for names in (("Relu", "Log1p"), ("Abs", "Sqrt"), ("Neg", "Exp", "Tanh"))
        ),
        attrs={},
        notes=f"Of {', '.join(sorted(COMPOSED))}.",
    ),
    OpRule(
        "Identity", {"T": ANY}, same_as_first, lambda c: c[0], _unary_examples(), cost="free"
    ),
    OpRule("StopGradient", {"T": ANY}, same_as_first, lambda c: c[0], _unary_examples(), cost="free"),
    OpRule("Snapshot", {"T": ANY}, same_as_first, lambda c: c[0], _unary_examples(), cost="free"),
]  # fmt: skip
