"""sin, cos and tan: reduction by pi/2 in double, for double with its rest; then polynomials."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import (
    COS,
    COS_DOUBLE,
    SIN,
    SIN_DOUBLE,
    TAN,
)
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# 1.5 * 2^52 rounds a double to an integer and leaves it in the low bits.
_ROUND = 6755399441055744.0
_TWO_OVER_PI = 2.0 / math.pi
# pi/2 in two parts. With fma, x - n * high is exact: a multiple of 2^-52 below 2.
_HALF_PI_HIGH = 1.5707963267948966
_HALF_PI_LOW = 6.123233995736766e-17
# What the two leave of pi/2. A double below 2^40 may lie within 2^-58 of a multiple of pi/2.
_HALF_PI_REST = -1.4973849048591698e-33
# A little above pi/4, by what n is off for the largest arguments that the bound covers. Arguments
# that double cannot reduce are held there, so that |sin| <= 1 always.
_LARGEST = 0.7856
# sin(r) = r + r^3 P(r^2) and so on, |r| <= pi/4: fit.py, "sin", "cos", "tan".


@dataclass(frozen=True)
class Reduced:
    """|x| = n pi/2 + r, |r| <= pi/4; the low bits of `quadrant` are those of n.

    low: what r lacks, of doubles only.
    """

    quadrant: ir.Value
    r: ir.Value
    square: ir.Value
    low: ir.Value | None = None


def _reduce_double(lanes: Lanes, x: ir.Value) -> Reduced:
    wide = lanes.abs(x)
    magic = lanes.const(_ROUND)
    shifted = lanes.fma(wide, lanes.const(_TWO_OVER_PI), magic)
    n = lanes.sub(shifted, magic)
    rest = lanes.exact_fma(n, lanes.const(-_HALF_PI_HIGH), wide)
    # rest - n * low as a sum of two (Knuth 1997, 4.2.2 B): either may be the larger.
    product = lanes.mul(n, lanes.const(_HALF_PI_LOW))
    lost = lanes.exact_fma(n, lanes.const(_HALF_PI_LOW), lanes.neg(product))
    r = lanes.sub(rest, product)
    taken = lanes.sub(rest, r)
    kept = lanes.add(r, taken)
    low = lanes.add(lanes.sub(rest, kept), lanes.sub(taken, product))
    low = lanes.fma(n, lanes.const(-_HALF_PI_REST), lanes.sub(low, lost))
    return Reduced(lanes.bits(shifted), r, lanes.mul(r, r), low)


def _reduce(lanes: Lanes, x: ir.Value) -> Reduced:
    """Reduces |x| (so that zeros keep their sign at the end). NaN for inf and NaN."""
    if lanes.is_double:
        return _reduce_double(lanes, x)
    doubles = lanes.doubles()
    wide = lanes.extend(lanes.abs(x))
    magic = doubles.const(_ROUND)
    shifted = doubles.fma(wide, doubles.const(_TWO_OVER_PI), magic)
    n = doubles.sub(shifted, magic)
    r = doubles.exact_fma(n, doubles.const(-_HALF_PI_HIGH), wide)
    r = lanes.truncate(doubles.fma(n, doubles.const(-_HALF_PI_LOW), r))
    r = lanes.at_most(lanes.at_least(r, -_LARGEST), _LARGEST)
    return Reduced(lanes.low_bits(shifted), r, lanes.mul(r, r))


def _sine_and_cosine(lanes: Lanes, reduced: Reduced) -> tuple[ir.Value, ir.Value]:
    """Of r."""
    r, square, low = reduced.r, reduced.square, reduced.low
    if low is None:
        sine = lanes.fma(lanes.mul(r, square), lanes.horner(square, SIN), r)
        return sine, lanes.horner(square, (1.0, *COS))
    # sin(r + low) = sin(r) + low and cos(r + low) = cos(r) - r low, to within the last place.
    bent = lanes.fma(lanes.mul(r, square), lanes.horner(square, SIN_DOUBLE), low)
    turned = lanes.fma(square, lanes.horner(square, COS_DOUBLE), lanes.neg(lanes.mul(r, low)))
    return lanes.add(r, bent), lanes.add(turned, lanes.const(1.0))


def _is_even(lanes: Lanes, quadrant: ir.Value) -> ir.Value:
    return lanes.equal_int(lanes.and_int(quadrant, 1), 0)


def _sine_or_cosine(lanes: Lanes, reduced: Reduced, quadrant: ir.Value, sign: ir.Value) -> ir.Value:
    """sin(r), cos(r), -sin(r) or -cos(r) by quadrant modulo 4, times the sign of `sign`'s bits."""
    value = lanes.select(_is_even(lanes, quadrant), *_sine_and_cosine(lanes, reduced))
    half_turn = lanes.shift_left(quadrant, lanes.int_element.width - 2)
    flip = lanes.and_int(lanes.xor_int(half_turn, sign), lanes.format.sign_bit)
    return lanes.from_bits(lanes.xor_int(lanes.bits(value), flip))


def sin(lanes: Lanes, x: ir.Value) -> ir.Value:
    reduced = _reduce(lanes, x)
    return _sine_or_cosine(lanes, reduced, reduced.quadrant, lanes.bits(x))


def cos(lanes: Lanes, x: ir.Value) -> ir.Value:
    reduced = _reduce(lanes, x)
    quadrant = lanes.add_int(reduced.quadrant, lanes.const_int(1))
    return _sine_or_cosine(lanes, reduced, quadrant, lanes.const_int(0))


def tan(lanes: Lanes, x: ir.Value) -> ir.Value:
    reduced = _reduce(lanes, x)
    r, square = reduced.r, reduced.square
    even = _is_even(lanes, reduced.quadrant)
    if lanes.is_double:
        # A polynomial for tan itself would be longer than the two.
        sine, cosine = _sine_and_cosine(lanes, reduced)
        above = lanes.select(even, sine, lanes.neg(cosine))
        value = lanes.div(above, lanes.select(even, cosine, sine))
    else:
        tangent = lanes.fma(lanes.mul(r, square), lanes.horner(square, TAN), r)
        value = lanes.select(even, tangent, lanes.div(lanes.const(-1.0), tangent))
    flip = lanes.and_int(lanes.bits(x), lanes.format.sign_bit)
    return lanes.from_bits(lanes.xor_int(lanes.bits(value), flip))


_RANGE = "|x| <= 2^40; beyond, neighbouring floats lie thousands of periods apart: no meaning"

FUNCTIONS = (
    MathFunction(
        name="sin",
        arity=1,
        max_ulp={"f32": 1.75, "f64": 1.5},
        valid_range=f"{_RANGE} (but is in [-1, 1] in f32)",
        special_values="sin(+-0) = +-0, sin(+-inf) = NaN, sin(NaN) = NaN",
        source="Cody and Waite 1980 (reduction by pi/2 in double, for f64 in three parts); "
        "minimax polynomials",
        emitter=sin,
    ),
    MathFunction(
        name="cos",
        arity=1,
        max_ulp={"f32": 1.75, "f64": 1.5},
        valid_range=f"{_RANGE} (but is in [-1, 1] in f32)",
        special_values="cos(+-0) = 1, cos(+-inf) = NaN, cos(NaN) = NaN",
        source="as sin",
        emitter=cos,
    ),
    MathFunction(
        name="tan",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range=_RANGE,
        special_values="tan(+-0) = +-0, tan(+-inf) = NaN, tan(NaN) = NaN",
        source="reduced as sin; tan(r) or -1 / tan(r), in f64 by sin(r) and cos(r)",
        emitter=tan,
    ),
)
