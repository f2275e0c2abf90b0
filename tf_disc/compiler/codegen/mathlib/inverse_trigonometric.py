"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import ASIN, ASIN_DOUBLE, ATAN, ATAN_DOUBLE
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

_HALF_PI = math.pi / 2.0


def _asin_core(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(|x| > 1/2, asin(r)): r = |x|, or where that is above 1/2, r = sqrt((1 - |x|) / 2)."""
    magnitude, half = lanes.abs(x), lanes.const(0.5)
    far = lanes.less(half, magnitude)
    # (1 - |x|) / 2 is exact there, and negative for |x| > 1, so that its root is NaN.
    below = lanes.fma(magnitude, lanes.const(-0.5), half)
    square = lanes.select(far, below, lanes.mul(magnitude, magnitude))
    r = lanes.select(far, lanes.sqrt(below), magnitude)
    polynomial = lanes.horner(square, ASIN_DOUBLE if lanes.is_double else ASIN)
    return far, lanes.fma(lanes.mul(r, square), polynomial, r)


def asin(lanes: Lanes, x: ir.Value) -> ir.Value:
    # asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
    far, arc = _asin_core(lanes, x)
    turned = lanes.fma(arc, lanes.const(-2.0), lanes.const(_HALF_PI))
    return lanes.copysign(lanes.select(far, turned, arc), x)


def acos(lanes: Lanes, x: ir.Value) -> ir.Value:
    # acos(x) = 2 asin(sqrt((1 - x) / 2)), pi minus that of -x, or pi/2 - asin(x).
    far, arc = _asin_core(lanes, x)
    signed = lanes.copysign(arc, x)
    base = lanes.select(lanes.less(x, lanes.const(0.0)), lanes.const(math.pi), lanes.const(0.0))
    turned = lanes.fma(signed, lanes.const(2.0), base)
    return lanes.select(far, turned, lanes.sub(lanes.const(_HALF_PI), signed))


def _atan_core(lanes: Lanes, r: ir.Value) -> ir.Value:
    """atan(r) for 0 <= r <= 1."""
    square = lanes.mul(r, r)
    polynomial = lanes.horner(square, ATAN_DOUBLE if lanes.is_double else ATAN)
    return lanes.fma(lanes.mul(r, square), polynomial, r)


def atan(lanes: Lanes, x: ir.Value) -> ir.Value:
    # atan(x) = pi/2 - atan(1 / x).
    magnitude, one = lanes.abs(x), lanes.const(1.0)
    far = lanes.less(one, magnitude)
    arc = _atan_core(lanes, lanes.select(far, lanes.div(one, magnitude), magnitude))
    turned = lanes.sub(lanes.const(_HALF_PI), arc)
    return lanes.copysign(lanes.select(far, turned, arc), x)


def atan2(lanes: Lanes, y: ir.Value, x: ir.Value) -> ir.Value:
    # The angle to the nearer axis is atan of a quotient up to 1: from 0, pi/2 or pi, by the octant.
    across, along = lanes.abs(x), lanes.abs(y)
    zero, one = lanes.const(0.0), lanes.const(1.0)
    steep = lanes.less(across, along)
    small = lanes.select(steep, across, along)
    large = lanes.select(steep, along, across)
    # NaN is not less and takes the quotient; inf / inf is 1, and 0 / 0 is 0.
    level = lanes.select(lanes.equal(large, zero), zero, one)
    r = lanes.select(lanes.equal(small, large), level, lanes.div(small, large))
    arc = _atan_core(lanes, r)
    # The sign bit of x counts, of a zero, too.
    side = lanes.copysign(one, x)
    back = lanes.select(lanes.less(side, zero), lanes.const(math.pi), zero)
    flat = lanes.add(back, lanes.mul(arc, side))
    upright = lanes.sub(lanes.const(_HALF_PI), lanes.mul(arc, side))
    return lanes.copysign(lanes.select(steep, upright, flat), y)


FUNCTIONS = (
    MathFunction(
        name="asin",
        arity=1,
        max_ulp={"f32": 2.5, "f64": 2.5},
        valid_range="all",
        special_values="asin(+-0) = +-0, asin(|x| > 1) = NaN, asin(NaN) = NaN",
        source="minimax polynomial for |x| <= 1/2; pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond",
        emitter=asin,
    ),
    MathFunction(
        name="acos",
        arity=1,
        max_ulp={"f32": 2.0, "f64": 2.0},
        valid_range="all",
        special_values="acos(1) = +0, acos(|x| > 1) = NaN, acos(NaN) = NaN",
        source="as asin",
        emitter=acos,
    ),
    MathFunction(
        name="atan",
        arity=1,
        max_ulp={"f32": 2.5, "f64": 2.5},
        valid_range="all",
        special_values="atan(+-0) = +-0, atan(+-inf) = +-pi/2, atan(NaN) = NaN",
        source="minimax polynomial for |x| <= 1; pi/2 - atan(1 / |x|) beyond",
        emitter=atan,
    ),
    MathFunction(
        name="atan2",
        arity=2,
        max_ulp={"f32": 2.5, "f64": 2.5},
        valid_range="all",
        special_values="as C99 Annex F: atan2(+-0, x) = +-0 or, for a negative x or -0, +-pi; "
        "atan2(y, +-0) = +-pi/2; infinities count as equal: odd multiples of pi/4; NaN for NaN",
        source="atan of the quotient up to 1 of the magnitudes, from the nearer axis",
        emitter=atan2,
    ),
)
