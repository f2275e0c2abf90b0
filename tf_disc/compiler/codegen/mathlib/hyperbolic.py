"""tanh, from expm1."""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.exponential import scaled_expm1
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# From here on tanh rounds to 1.
_LIMIT = 9.011
_LIMIT_DOUBLE = 19.07


def tanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # tanh(x) = -h / (1 + h) with h = expm1(-2 x) / 2, for x >= 0; the sign is set at the end.
    limit = _LIMIT_DOUBLE if lanes.is_double else _LIMIT
    held = lanes.at_most(lanes.abs(x), limit)
    falling = scaled_expm1(lanes, held, -2.0)
    quotient = lanes.div(falling, lanes.add(falling, lanes.const(1.0)))
    return lanes.copysign(quotient, x)


FUNCTIONS = (
    MathFunction(
        name="tanh",
        arity=1,
        max_ulp={"f32": 2.5, "f64": 2.5},
        valid_range="all",
        special_values="tanh(+-0) = +-0, tanh(+-inf) = +-1, tanh(NaN) = NaN; never above 1 in size",
        source="tanh(x) = -h / (1 + h), h = expm1(-2 x) / 2",
        emitter=tanh,
    ),
)
