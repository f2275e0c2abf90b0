"""Functions of one number: exponentials, roots, trigonometry, and the activations of networks."""

from __future__ import annotations

import math
from collections.abc import Callable

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.ir.types import SHORT_FLOATS
from tf_disc.compiler.op_rules import examples
from tf_disc.compiler.op_rules.arithmetic import unary
from tf_disc.compiler.op_rules.dtypes import ANY, FLOATING, NUMBERS, single
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, same_as_first
from tf_disc.compiler.op_rules.windows import channels_first

#: Klambauer et al. 2017, "Self-Normalizing Neural Networks".
SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def relu(c: RuleContext, x: Value) -> Value:
    """max(x, 0); NaN stays. Of floats of 16 bits -0.0 stays, too, as in TensorFlow."""
    if x.dtype in SHORT_FLOATS:
        return _below(c, x, c.b.scalar(0.0, x.dtype), x)
    return c.b.elementwise("max", x, c.b.scalar(0, x.dtype))


def relu6(c: RuleContext, x: Value) -> Value:
    """min(max(x, 0), 6)."""
    return c.b.elementwise("min", relu(c, x), c.b.scalar(6, x.dtype))


def leaky_relu(c: RuleContext, x: Value, alpha: float) -> Value:
    """x above 0, alpha * x elsewhere; the slope is an f32 that is then rounded to x's type."""
    slope = c.b.scalar(single(alpha), x.dtype)
    above = c.b.elementwise("gt", x, c.b.scalar(0, x.dtype))
    return c.b.elementwise("select", above, x, c.b.elementwise("mul", x, slope))


def _below(c: RuleContext, x: Value, yes: Value, no: Value) -> Value:
    return c.b.elementwise("select", c.b.elementwise("lt", x, c.b.scalar(0.0, x.dtype)), yes, no)


def _exp_less_one(c: RuleContext, x: Value) -> Value:
    """Of floats of 16 bits TensorFlow rounds the exponential before it subtracts."""
    if x.dtype in SHORT_FLOATS:
        return c.b.elementwise("sub", c.b.elementwise("exp", x), c.b.scalar(1.0, x.dtype))
    return c.b.elementwise("expm1", x)


def elu(c: RuleContext, x: Value) -> Value:
    """exp(x) - 1 below 0, x elsewhere."""
    return _below(c, x, _exp_less_one(c, x), x)


def softplus(c: RuleContext, x: Value) -> Value:
    """log(1 + exp(x)). Of floats of 16 bits in steps that are rounded, as TensorFlow does: beyond `bound` the result
    is x or exp(x)."""
    if x.dtype not in SHORT_FLOATS:
        return c.b.elementwise("softplus", x)
    bound = -math.log(2.0**-10 if x.dtype == "f16" else 2.0**-7) - 2.0
    e = c.b.elementwise("exp", x)
    large = c.b.elementwise("gt", x, c.b.scalar(bound, x.dtype))
    small = c.b.elementwise("lt", x, c.b.scalar(-bound, x.dtype))
    low = c.b.elementwise("select", small, e, c.b.elementwise("log1p", e))
    return c.b.elementwise("select", large, x, low)


def selu(c: RuleContext, x: Value) -> Value:
    """Scaled so that activations keep mean 0 and variance 1."""
    low = c.b.elementwise("mul", c.b.scalar(SELU_SCALE_ALPHA, x.dtype), _exp_less_one(c, x))
    return _below(c, x, low, c.b.elementwise("mul", c.b.scalar(SELU_SCALE, x.dtype), x))


def softsign(c: RuleContext, x: Value) -> Value:
    """x / (1 + |x|)."""
    size = c.b.elementwise("add", c.b.scalar(1.0, x.dtype), c.b.elementwise("abs", x))
    return c.b.elementwise("div", x, size)


def erfinv(c: RuleContext, x: Value) -> Value:
    """By the normal quantile, as TensorFlow does it: near 0 the sum with 1/2 decides how exact it is."""
    half = c.b.scalar(0.5, x.dtype)
    p = c.b.elementwise("add", c.b.elementwise("mul", x, half), half)
    return c.b.elementwise("mul", c.b.elementwise("ndtri", p), c.b.scalar(math.sqrt(0.5), x.dtype))


def _plain(function: str) -> Callable[[RuleContext, Value], Value]:
    return lambda c, x: c.b.elementwise(function, x)


#: Functions that TensorFlow's arithmetic optimizer joins into one _UnaryOpsComposition.
COMPOSED: dict[str, Callable[[RuleContext, Value], Value]] = {
    **{
        op: _plain(function)
        for op, function in (
            ("Abs", "abs"), ("Acos", "acos"), ("Acosh", "acosh"), ("Asin", "asin"), ("Asinh", "asinh"),
            ("Atan", "atan"), ("Atanh", "atanh"), ("Ceil", "ceil"), ("Cos", "cos"), ("Cosh", "cosh"), ("Exp", "exp"),
            ("Expm1", "expm1"), ("Floor", "floor"), ("Log", "log"), ("Log1p", "log1p"), ("Neg", "neg"), ("Rint", "rint"),
            ("Round", "rint"), ("Rsqrt", "rsqrt"), ("Sigmoid", "sigmoid"), ("Sin", "sin"), ("Sinh", "sinh"),
            ("Sqrt", "sqrt"), ("Tan", "tan"), ("Tanh", "tanh"),
        )
    },
    "Elu": elu,
    "Inv": lambda c, x: c.b.elementwise("div", c.b.scalar(1.0, x.dtype), x),
    "Reciprocal": lambda c, x: c.b.elementwise("div", c.b.scalar(1.0, x.dtype), x),
    "Relu": relu,
    "Relu6": relu6,
    "Selu": selu,
    "Square": lambda c, x: c.b.elementwise("mul", x, x),
}  # fmt: skip


def _composition(c: RuleContext) -> Value:
    value = c[0]
    for name in c.attr("op_names"):
        if name not in COMPOSED:
            raise c.unsupported(f"no rule for {name} inside a composition")
        value = COMPOSED[name](c, value)
    return value


def _bias_shape(c: RuleContext) -> list[Dims]:
    if len(c[1].dims) != 1 or len(c[0].dims) < 2:
        raise c.unsupported("BiasAdd takes a value of rank 2 or more and a bias of rank 1")
    c.b.require(c[1].dims[0], "==", c[0].dims[_channels(c)], "bias and channels")
    return [c[0].dims]


def _channels(c: RuleContext) -> int:
    return 1 if channels_first(c) else len(c[0].dims) - 1


def _bias_add(c: RuleContext) -> Value:
    channels = _channels(c)
    bias = c.b.reshape(c[1], [c[1].dims[0], *[1] * (len(c[0].dims) - 1 - channels)])
    return c.b.elementwise("add", c[0], c.b.broadcast(bias, c[0].dims))


#: Of the gamma function: its poles, and where its logarithm is zero.
_POLES = (
    0.0, -0.0, 1.0, 2.0, -1.0, -2.0, -0.5, float("nan"), math.inf, -math.inf, 1e-30, -1e-30, 3e38, 4e36, -8388607.5, -1e10,
    1.0000001, 0.9999999, 2.0000002, -2.4570247, -2.7476826, -3.9552944, -0.9999999, 7.9999995, 8.0, -7.9999995, -8.000001,
)  # fmt: skip
#: Both poles, next to them, both middles, outside.
_QUANTILES = examples.unary(("f32",)) + tuple(
    Example((Arg("f32", (len(values),), values=values),))
    for values in (
        (
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            -1.5,
            float("nan"),
            math.inf,
            -math.inf,
            1e-40,
            -1e-40,
        ),
        (
            1e-37,
            1e-10,
            1e-6,
            1e-3,
            0.1,
            0.24,
            0.26,
            0.3,
            0.49,
            0.51,
            0.7,
            0.74,
            0.76,
            0.9,
            0.999,
            0.9999999,
        ),
        (-1e-37, -1e-10, -1e-6, -1e-3, -0.1, -0.3, -0.49, -0.51, -0.7, -0.9, -0.999, -0.9999999),
    )
)


RULES: list[OpRule] = [
    unary("Exp", "exp", FLOATING),
    unary("Expm1", "expm1", FLOATING),
    unary("Log", "log", FLOATING),
    unary("Log1p", "log1p", FLOATING),
    unary("Sqrt", "sqrt", FLOATING),
    unary("Rsqrt", "rsqrt", FLOATING),
    unary("Tanh", "tanh", FLOATING),
    unary("Sigmoid", "sigmoid", FLOATING),
    OpRule(
        "Erf", {"T": FLOATING}, same_as_first, lambda c: c.b.elementwise("erf", c[0]),
        examples.unary(("f32", "f16", "bf16")) + examples.unary(("f64",), "finite"),
        notes="In f64 an infinity gives 1 or -1, where TensorFlow's vector code gives NaN.",
    ),
    unary("Erfc", "erfc", FLOATING),
    OpRule("Ndtri", {"T": ("f32",)}, same_as_first, lambda c: c.b.elementwise("ndtri", c[0]), _QUANTILES),
    OpRule("Erfinv", {"T": ("f32",)}, same_as_first, lambda c: erfinv(c, c[0]), _QUANTILES),
    OpRule(
        "Lgamma", {"T": ("f32", "f16")}, same_as_first, lambda c: c.b.elementwise("lgamma", c[0]),
        (*examples.unary(("f32", "f16")), Example((Arg("f32", (len(_POLES),), values=_POLES),))),
        notes="A denormal operand counts as zero and gives inf; TensorFlow gives 104.",
    ),
    unary("Sin", "sin", FLOATING, "finite"),
    unary("Cos", "cos", FLOATING, "finite"),
    unary("Tan", "tan", FLOATING, "finite"),
    unary("Asin", "asin", FLOATING),
    unary("Acos", "acos", FLOATING),
    unary("Atan", "atan", FLOATING),
    unary("Sinh", "sinh", FLOATING),
    unary("Cosh", "cosh", FLOATING),
    unary("Asinh", "asinh", FLOATING),
    unary("Acosh", "acosh", FLOATING),
    unary("Atanh", "atanh", FLOATING),
    unary("Softplus", lambda c: softplus(c, c[0]), FLOATING, alone=True),
    unary("Softsign", lambda c: softsign(c, c[0]), FLOATING),
    unary("Relu", lambda c: relu(c, c[0]), NUMBERS),
    unary("Relu6", lambda c: relu6(c, c[0]), NUMBERS),
    unary("Elu", lambda c: elu(c, c[0]), FLOATING),
    unary("Selu", lambda c: selu(c, c[0]), FLOATING),
    OpRule(
        "LeakyRelu", {"T": FLOATING}, same_as_first, lambda c: leaky_relu(c, c[0], c.attr("alpha", 0.2)),
        tuple(e for alpha in (0.2, 2.0, -0.5, 0.0, 1.0) for e in examples.unary(FLOATING, attrs={"alpha": alpha})),
    ),
    OpRule(
        "BiasAdd", {"T": NUMBERS}, _bias_shape, _bias_add,
        tuple(
            Example((Arg(d, (*s, n)), Arg(d, (n,))))
            for d in NUMBERS
            for s, n in (((3,), 5), ((2, 3), 17), ((0,), 4), ((2, 2, 2), 1), ((5,), 0))
        )
        + tuple(
            Example((Arg("f32", s), Arg("f32", (s[1],))), {"data_format": "NCHW"})
            for s in ((2, 3, 4, 5), (2, 5, 3, 33), (0, 3, 2, 2))
        ),
        attrs={"data_format": ("NHWC", "NCHW")},
    ),
    OpRule(
        "_UnaryOpsComposition", {"T": ("f32", "f64", "f16")}, same_as_first, _composition,
        tuple(
            Example((Arg("f32", shape, "finite"),), {"op_names": names})
            for shape in ((3, 37), (0, 3))
            for names in (("Relu", "Log1p"), ("Abs", "Sqrt"), ("Neg", "Exp", "Tanh"), ("Sin", "Square"), ("Elu", "Floor"))
        )
        + (Example((Arg("f64", (3, 37), "finite"),), {"op_names": ("Sin", "Atan", "Square")}),),
        notes=f"Of {', '.join(sorted(COMPOSED))}.",
    ),
    *(
        OpRule(
            op, {"T": ANY}, same_as_first, lambda c: c[0], examples.unary(ANY), cost="free", constant="folds"
        )
        for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient")
    ),
]  # fmt: skip
