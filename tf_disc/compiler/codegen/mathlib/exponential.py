"""exp, and what the other functions need of it."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# 1.5 * 2^23: adding it rounds to an integer and leaves that integer in the low bits.
_ROUND = 12582912.0
_LOG2_E = 1.44269504088896341
# ln 2 in two parts (Cody and Waite 1980). With fma, n * high needs no zero bits at its end.
_LN2_HIGH = 0.693147182464599609375
_LN2_LOW = -1.904654290582768e-9
# exp(r) = 1 + r + r^2 P(r) on [-ln2/2, ln2/2]: fit.py, "exp".
_EXP_TAIL = (0.49999994, 0.166665211, 0.0416682549, 0.00836866256, 0.00138214615)

# The smallest x whose exp overflows, and the smallest whose exp is a normal number.
OVERFLOW = 88.7228469848632812
UNDERFLOW = -87.33654022216796875


@dataclass(frozen=True)
class Reduced:
    """sign * x = n ln 2 + sign * r, |r| <= ln(2)/2. `shifted` has n in its low bits."""

    shifted: ir.Value
    n: ir.Value
    r: ir.Value


def reduce(lanes: Lanes, x: ir.Value, sign: float = 1.0) -> Reduced:
    """Splits sign * x. Needs |x| < 2^22."""
    shifted = lanes.fma(x, lanes.const(sign * _LOG2_E), lanes.const(_ROUND))
    n = lanes.sub(shifted, lanes.const(_ROUND))
    r = lanes.fma(n, lanes.const(-sign * _LN2_HIGH), x)
    r = lanes.fma(n, lanes.const(-sign * _LN2_LOW), r)
    return Reduced(shifted, n, r)


def times_power_of_two(lanes: Lanes, value: ir.Value, shifted: ir.Value) -> ir.Value:
    """value * 2^n by adding n to the exponent; right only where the result is a normal number."""
    return lanes.from_bits(lanes.add_int(lanes.bits(value), lanes.shift_left(lanes.bits(shifted), 23)))


def exp_unchecked(lanes: Lanes, x: ir.Value, sign: float = 1.0) -> ir.Value:
    """exp(sign * x) where that is a normal number; bits without meaning elsewhere (NaN included)."""
    reduced = reduce(lanes, x, sign)
    coefficients = [c * sign**k for k, c in enumerate((1.0, 1.0, *_EXP_TAIL))]
    value = lanes.horner(reduced.r, coefficients)
    return times_power_of_two(lanes, value, reduced.shifted)


def exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    value = exp_unchecked(lanes, x)
    value = lanes.select(lanes.less(x, lanes.const(UNDERFLOW)), lanes.const(0.0), value)
    # One selection serves overflow and NaN: x + inf is inf, or NaN if x is.
    unbounded = lanes.not_less(x, lanes.const(OVERFLOW))
    return lanes.select(unbounded, lanes.add(x, lanes.const(float("inf"))), value)


def sigmoid(lanes: Lanes, x: ir.Value) -> ir.Value:
    # exp(-x) is held to normal numbers from below, where 1 + exp(-x) is 1 anyway. NaN meets no bound.
    held = lanes.at_most(x, -UNDERFLOW)
    falling = exp_unchecked(lanes, held, sign=-1.0)
    unbounded = lanes.not_less(lanes.const(-OVERFLOW), x)
    falling = lanes.select(unbounded, lanes.sub(lanes.const(float("inf")), x), falling)
    return lanes.div(lanes.const(1.0), lanes.add(lanes.const(1.0), falling))


FUNCTIONS = (
    MathFunction(
        name="exp",
        arity=1,
        max_ulp={"f32": 1.0},
        valid_range="all; results below 2^-126 are 0",
        special_values="exp(NaN) = NaN, exp(inf) = inf, exp(-inf) = 0, exp(+-0) = 1",
        source="Cody and Waite 1980 (reduction by ln 2 in two parts); minimax polynomial of degree 6",
        emitter=exp,
    ),
    MathFunction(
        name="sigmoid",
        arity=1,
        max_ulp={"f32": 2.5},
        valid_range="all; results below 2^-126 are 0",
        special_values="sigmoid(NaN) = NaN, sigmoid(inf) = 1, sigmoid(-inf) = 0, sigmoid(+-0) = 0.5",
        source="1 / (1 + exp(-x)), exp as above",
        emitter=sigmoid,
    ),
)
