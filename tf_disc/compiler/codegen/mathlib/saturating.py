"""tanh and erf: odd functions that tend to 1, both by way of expm1.

The plain quotient of polynomials is as short, but it rounds five times just below 1, where each costs a
unit in the last place; expm1 is accurate both near 0 and where the result nears 1.
"""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import ERF
from tf_disc.compiler.codegen.mathlib.exponential import scaled_expm1
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# From here on the result rounds to 1.
_TANH_LIMIT = 9.011
_ERF_LIMIT = 3.93
# -log(erfc(x)) = x + x P(x) up to the limit: fit.py, "erf".


def tanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # tanh(x) = -h / (1 + h) with h = expm1(-2 x) / 2, for x >= 0; the sign is set at the end.
    held = lanes.at_most(lanes.abs(x), _TANH_LIMIT)
    falling = scaled_expm1(lanes, held, -2.0)
    quotient = lanes.div(falling, lanes.add(falling, lanes.const(1.0)))
    return lanes.copysign(quotient, x)


def erf(lanes: Lanes, x: ir.Value) -> ir.Value:
    # erf(x) = -expm1(log(erfc(x))), for x >= 0.
    held = lanes.at_most(lanes.abs(x), _ERF_LIMIT)
    exponent = lanes.fma(held, lanes.horner(held, ERF), held)
    return lanes.copysign(scaled_expm1(lanes, exponent, -1.0), x)


FUNCTIONS = (
    MathFunction(
        name="tanh",
        arity=1,
        max_ulp={"f32": 2.5},
        valid_range="all",
        special_values="tanh(+-0) = +-0, tanh(+-inf) = +-1, tanh(NaN) = NaN; never above 1 in magnitude",
        source="tanh(x) = -h / (1 + h), h = expm1(-2 x) / 2",
        emitter=tanh,
    ),
    MathFunction(
        name="erf",
        arity=1,
        max_ulp={"f32": 2.0},
        valid_range="all",
        special_values="erf(+-0) = +-0, erf(+-inf) = +-1, erf(NaN) = NaN; never above 1 in magnitude",
        source="erf(x) = -expm1(log(erfc(x))), the logarithm by a minimax polynomial",
        emitter=erf,
    ),
)
