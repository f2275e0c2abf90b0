"""Functions that are one quotient of polynomials and then constant: tanh, erf."""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# tanh(x) = x P(x^2) / Q(x^2) up to where it rounds to 1: fit.py, "tanh".
_TANH_LIMIT = 9.011
_TANH_TOP = (1.0, 0.136819497, 0.00387080712, 2.80534659e-05, 3.06817078e-08, -1.2265273e-11)
_TANH_BOTTOM = (1.0, 0.470152825, 0.0272550937, 0.00039428554, 1.29038517e-06)

# erf(x) = x P(x^2) / Q(x^2) likewise: fit.py, "erf".
_ERF_LIMIT = 3.92
_ERF_TOP = (
    1.12837911,
    0.206236497,
    0.0546078719,
    0.00437478442,
    0.000286565977,
    1.77487516e-06,
)
_ERF_BOTTOM = (1.0, 0.516104043, 0.120437838, 0.0162060112, 0.00128738047, 3.53185751e-05)


def _odd_quotient(
    lanes: Lanes,
    x: ir.Value,
    limit: float,
    top: tuple[float, ...],
    bottom: tuple[float, ...],
) -> ir.Value:
    """x P(x^2) / Q(x^2), x held to [-limit, limit]; keeps the sign of zero, and NaN."""
    held = lanes.at_most(lanes.at_least(x, -limit), limit)
    square = lanes.mul(held, held)
    numerator = lanes.mul(held, lanes.horner(square, top))
    return lanes.div(numerator, lanes.horner(square, bottom))


def tanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    return _odd_quotient(lanes, x, _TANH_LIMIT, _TANH_TOP, _TANH_BOTTOM)


def erf(lanes: Lanes, x: ir.Value) -> ir.Value:
    return _odd_quotient(lanes, x, _ERF_LIMIT, _ERF_TOP, _ERF_BOTTOM)


FUNCTIONS = (
    MathFunction(
        name="tanh",
        arity=1,
        max_ulp={"f32": 5.0},
        valid_range="all",
        special_values="tanh(+-0) = +-0, tanh(+-inf) = +-1, tanh(NaN) = NaN; never above 1 in magnitude",
        source="minimax quotient in x^2, degrees 5 and 4",
        emitter=tanh,
    ),
    MathFunction(
        name="erf",
        arity=1,
        max_ulp={"f32": 6.0},
        valid_range="all",
        special_values="erf(+-0) = +-0, erf(+-inf) = +-1, erf(NaN) = NaN; never above 1 in magnitude",
        source="minimax quotient in x^2, degrees 5 and 5",
        emitter=erf,
    ),
)
