"""The gradients of elementwise ops that TensorFlow has as ops."""

from __future__ import annotations

from collections.abc import Callable

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules import examples
from tf_disc.compiler.op_rules.activations import SELU_SCALE, SELU_SCALE_ALPHA
from tf_disc.compiler.op_rules.dtypes import FLOATING, NUMBERS, single
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext


class _Terms:
    """Arithmetic on the operands of one rule, numbers included."""

    def __init__(self, c: RuleContext) -> None:
        self.b = c.b
        self.dtype = c[0].dtype

    def value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else self.b.scalar(x, self.dtype)

    def __call__(self, function: str, *operands: Value | float) -> Value:
        return self.b.elementwise(function, *(self.value(v) for v in operands))

    def where(self, condition: Value, yes: Value | float, no: Value | float) -> Value:
        return self.b.elementwise("select", condition, self.value(yes), self.value(no))


def _tanh(t: _Terms, y: Value, dy: Value) -> Value:
    return t("mul", dy, t("sub", 1.0, t("mul", y, y)))


def _sigmoid(t: _Terms, y: Value, dy: Value) -> Value:
    # In this order y (1 - y) does not overflow, and each bit is TensorFlow's.
    return t("mul", dy, t("mul", y, t("sub", 1.0, y)))


def _unless_zero(t: _Terms, dy: Value, result: Value) -> Value:
    """0 where the gradient that comes in is 0, whatever y is."""
    return t.where(t("eq", dy, 0.0), 0.0, result)


def _sqrt(t: _Terms, y: Value, dy: Value) -> Value:
    # TensorFlow multiplies by the reciprocal, which is 0 for a y near the largest number.
    return _unless_zero(t, dy, t("mul", t("mul", dy, 0.5), t("div", 1.0, y)))


def _rsqrt(t: _Terms, y: Value, dy: Value) -> Value:
    return _unless_zero(t, dy, t("mul", t("mul", -0.5, t("mul", dy, y)), t("mul", y, y)))


def _reciprocal(t: _Terms, y: Value, dy: Value) -> Value:
    # The square first: TensorFlow's order, and so its places of 0 and infinity.
    return _unless_zero(t, dy, t("mul", dy, t("neg", t("mul", y, y))))


def _gated(t: _Terms, g: Value, condition: Value) -> Value:
    """g * 1 or g * 0: a NaN in g stays one, and zeros have g's sign."""
    return t("mul", g, t.b.elementwise("cast", condition, dtype=t.dtype))


def _relu(t: _Terms, g: Value, x: Value) -> Value:
    return _gated(t, g, t("gt", x, 0))


def _relu6(t: _Terms, g: Value, x: Value) -> Value:
    return _gated(t, g, t("and", t("gt", x, 0), t("lt", x, 6)))


def _elu(t: _Terms, g: Value, y: Value) -> Value:
    return t.where(t("lt", y, 0.0), t("mul", t("add", y, 1.0), g), g)


def _selu(t: _Terms, g: Value, y: Value) -> Value:
    low = t("mul", g, t("add", y, SELU_SCALE_ALPHA))
    return t.where(t("lt", y, 0.0), low, t("mul", g, SELU_SCALE))


def _softplus(t: _Terms, g: Value, x: Value) -> Value:
    return t("div", g, t("add", t("exp", t("neg", x)), 1.0))


def _softsign(t: _Terms, g: Value, x: Value) -> Value:
    size = t("add", 1.0, t("abs", x))
    return t("div", g, t("mul", size, size))


def _same_shape(c: RuleContext) -> list[Dims]:
    """The operands have one shape: these gradients never broadcast."""
    if len(c[0].dims) != len(c[1].dims):
        raise c.unsupported("its operands have one shape")
    for a, b in zip(c[0].dims, c[1].dims, strict=True):
        c.b.require(b, "==", a, "its operands have one shape")
    return [c[0].dims]


_INF, _NAN = float("inf"), float("nan")
_EDGES = (
    (_INF, 0.0), (_INF, -0.0), (0.0, 0.0), (0.0, -0.0), (_NAN, 0.0), (3.06e38, _INF), (1.6e38, 1.0), (2.0, -0.0),
    (-0.0, 5.0), (_NAN, 1.0), (1e30, 1e30), (1e-30, 1e30),
)  # fmt: skip


def _gradient(
    op: str,
    lower: Callable[[_Terms, Value, Value], Value],
    dtypes: tuple[str, ...] = FLOATING,
    kind: str = "finite",
    edges: bool = True,
) -> OpRule:
    return OpRule(
        op,
        {"T": dtypes},
        _same_shape,
        lambda c: lower(_Terms(c), c[0], c.b.agreed(c[1], c[0].dims)),
        examples.same_shape(dtypes, kind=kind)
        + (
            (
                Example(
                    tuple(Arg("f32", (len(_EDGES),), values=v) for v in zip(*_EDGES, strict=True))
                ),
            )
            if edges
            else ()
        ),
    )


def _leaky_relu(c: RuleContext) -> Value:
    t, g, x = _Terms(c), c[0], c.b.agreed(c[1], c[0].dims)
    return t.where(t("gt", x, 0.0), g, t("mul", g, single(c.attr("alpha", 0.2))))


RULES: list[OpRule] = [
    _gradient("TanhGrad", _tanh),
    _gradient("SigmoidGrad", _sigmoid),
    _gradient("SqrtGrad", _sqrt),
    _gradient("RsqrtGrad", _rsqrt),
    _gradient("ReciprocalGrad", _reciprocal),
    _gradient("InvGrad", _reciprocal),
    _gradient("ReluGrad", _relu, NUMBERS),
    _gradient("Relu6Grad", _relu6, NUMBERS),
    _gradient("EluGrad", _elu),
    _gradient("SeluGrad", _selu),
    _gradient("SoftplusGrad", _softplus),
    _gradient("SoftsignGrad", _softsign),
    OpRule(
        "LeakyReluGrad",
        {"T": FLOATING},
        _same_shape,
        _leaky_relu,
        examples.same_shape(FLOATING),
    ),
]
