"""_FusedMatMul: what TensorFlow's remapper makes of a product, its bias and an activation."""

from __future__ import annotations

import math

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.activations import COMPOSED, leaky_relu
from tf_disc.compiler.op_rules.products import matmul_shape
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext


def _halved(c: RuleContext, x: Value, factor: Value) -> Value:
    """x / 2 * (1 + factor)."""
    half = c.b.elementwise("mul", x, c.b.scalar(0.5, x.dtype))
    return c.b.elementwise("mul", half, c.b.elementwise("add", factor, c.b.scalar(1.0, x.dtype)))


def _gelu_exact(c: RuleContext, x: Value) -> Value:
    scaled = c.b.elementwise("mul", x, c.b.scalar(math.sqrt(0.5), x.dtype))
    return _halved(c, x, c.b.elementwise("erf", scaled))


def _gelu_approximate(c: RuleContext, x: Value) -> Value:
    """With tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) in the place of erf."""
    square = c.b.elementwise("mul", x, x)
    cubic = c.b.elementwise("mul", square, c.b.scalar(0.044715, x.dtype))
    inner = c.b.elementwise("mul", x, c.b.elementwise("add", cubic, c.b.scalar(1.0, x.dtype)))
    scaled = c.b.elementwise("mul", inner, c.b.scalar(math.sqrt(2.0 / math.pi), x.dtype))
    return _halved(c, x, c.b.elementwise("tanh", scaled))


_ACTIVATIONS = {
    **{op: COMPOSED[op] for op in ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid")},
    "LeakyRelu": lambda c, x: leaky_relu(c, x, float(c.attr("leakyrelu_alpha", 0.2))),
    "GeluExact": _gelu_exact,
    "GeluApproximate": _gelu_approximate,
}


def _shape(c: RuleContext) -> list[Dims]:
    (dims,) = matmul_shape(c)
    if len(c[2].dims) != 1:
        raise c.unsupported("takes a bias of rank 1")
    c.b.require(c[2].dims[0], "==", dims[1], "bias and columns of the product")
    if len(c.inputs) > 3:
        if len(c[3].dims) != 2:
            raise c.unsupported("adds a matrix")
        for a, b in zip(c[3].dims, dims, strict=True):
            c.b.require(a, "==", b, "the matrix that is added has the product's shape")
    return [dims]


def _lower(c: RuleContext) -> Value:
    """In f32 to the end, also where operands and result are bf16."""
    (dims,) = _shape(c)
    a, b, bias, *more = (
        v if v.dtype == "f32" else c.b.elementwise("cast", v, dtype="f32") for v in c.inputs
    )
    value = c.b.matmul(a, b, bool(c.attr("transpose_a", False)), bool(c.attr("transpose_b", False)))
    value = c.b.elementwise("add", value, c.b.broadcast(bias, dims))
    for fused in c.attr("fused_ops")[1:]:
        if fused == "Add":
            value = c.b.elementwise("add", value, c.b.reshape(more[0], dims))
        else:
            value = _ACTIVATIONS[fused](c, value)
    return value if c[0].dtype == "f32" else c.b.elementwise("cast", value, dtype=c[0].dtype)


def _example(
    dtype: str, *more: str, sizes: tuple[int, int, int] = (5, 7, 33), **attrs: object
) -> Example:
    m, k, n = sizes
    a = Arg(dtype, (k, m) if attrs.get("transpose_a") else (m, k), "finite")
    b = Arg(dtype, (n, k) if attrs.get("transpose_b") else (k, n), "finite")
    rest = [Arg(dtype, (n,), "finite")] + [Arg(dtype, (m, n), "finite")] * more.count("Add")
    return Example((a, b, tuple(rest)), {"fused_ops": ("BiasAdd", *more), **attrs})  # type: ignore[arg-type]


RULES: list[OpRule] = [
    OpRule(
        "_FusedMatMul",
        {"T": ("f32", "bf16")},
        _shape,
        _lower,
        (
            *(_example(t, *f) for t in ("f32", "bf16") for f in ((), ("Add",), *((x,) for x in _ACTIVATIONS))),
            _example("f32", "LeakyRelu", leakyrelu_alpha=0.3),
            _example("f32", "Tanh", transpose_a=True, transpose_b=True),
            _example("f32", "Relu", sizes=(3, 4, 1)),
            _example("f32", "Relu", sizes=(0, 4, 5)),
            _example("f32", sizes=(64, 16, 48), transpose_b=True),
        ),
        cost="heavy",
        weights=(1,),
        attrs={"fused_ops": ("[BiasAdd]", "[BiasAdd,Add]", *(f"[BiasAdd,{x}]" for x in _ACTIVATIONS))},
    )
]  # fmt: skip
