"""sqrt, rsqrt and reciprocal: correctly rounded instructions, as TensorFlow has them."""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction


def sqrt(lanes: Lanes, x: ir.Value) -> ir.Value:
    return lanes.sqrt(x)


def rsqrt(lanes: Lanes, x: ir.Value) -> ir.Value:
    # The estimate instruction differs by CPU maker, and a Newton step on it breaks 0 and inf; a
    # layer norm takes one rsqrt a row, so the exact form costs nothing there.
    return lanes.div(lanes.const(1.0), lanes.sqrt(x))


def reciprocal(lanes: Lanes, x: ir.Value) -> ir.Value:
    return lanes.div(lanes.const(1.0), x)


FUNCTIONS = (
    MathFunction(
        name="sqrt",
        arity=1,
        max_ulp={"f32": 0.5, "f64": 0.5},
        valid_range="all",
        special_values="sqrt(+-0) = +-0, sqrt(x < 0) = NaN, sqrt(inf) = inf, sqrt(NaN) = NaN",
        source="the instruction",
        emitter=sqrt,
    ),
    MathFunction(
        name="rsqrt",
        arity=1,
        max_ulp={"f32": 1.5, "f64": 1.5},
        valid_range="all",
        special_values="rsqrt(+-0) = +-inf, rsqrt(x < 0) = NaN, rsqrt(inf) = 0, rsqrt(NaN) = NaN",
        source="1 / sqrt(x)",
        emitter=rsqrt,
    ),
    MathFunction(
        name="reciprocal",
        arity=1,
        max_ulp={"f32": 0.5, "f64": 0.5},
        valid_range="all; results below 2^-126 may be 0",
        special_values="1/+-0 = +-inf, 1/+-inf = +-0, 1/NaN = NaN",
        source="the division instruction",
        emitter=reciprocal,
    ),
)
