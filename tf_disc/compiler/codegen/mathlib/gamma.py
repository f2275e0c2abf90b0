"""lgamma, of float only: double holds what cancels next to its zeros."""

from __future__ import annotations

import math

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import COS_DOUBLE, SIN_DOUBLE, STIRLING
from tf_disc.compiler.codegen.mathlib.lanes import DOUBLE, Lanes
from tf_disc.compiler.codegen.mathlib.logarithm import divided, exponent_of, log_of_parts
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# Stirling's series serves from here; smaller operands are moved up by as much.
_SHIFT = 8


def _log(lanes: Lanes, x: ir.Value) -> ir.Value:
    """Of a normal positive number."""
    shifted = exponent_of(lanes, x)
    f = lanes.sub(divided(lanes, x, shifted), lanes.const(1.0))
    return log_of_parts(lanes, shifted, f)


def _stirling(lanes: Lanes, z: ir.Value) -> ir.Value:
    """log(gamma(z)) for z >= 8: (z - 1/2) log(z) - z + log(2 pi) / 2 + P(1 / z^2) / z."""
    inverse = lanes.div(lanes.const(1.0), z)
    rest = lanes.mul(inverse, lanes.horner(lanes.mul(inverse, inverse), STIRLING))
    rest = lanes.add(rest, lanes.const(0.5 * math.log(2.0 * math.pi)))
    factor = lanes.sub(z, lanes.const(0.5))
    return lanes.fma(factor, _log(lanes, z), lanes.sub(rest, z))


def _sine_of_pi_times(lanes: Lanes, r: ir.Value) -> ir.Value:
    """sin(pi r) for |r| <= 1/2, as 2 sin(a) cos(a) with a = pi r / 2."""
    a = lanes.mul(r, lanes.const(0.5 * math.pi))
    square = lanes.mul(a, a)
    sine = lanes.fma(lanes.mul(a, square), lanes.horner(square, SIN_DOUBLE), a)
    cosine = lanes.horner(square, (1.0, *COS_DOUBLE))
    return lanes.mul(lanes.add(sine, sine), cosine)


def lgamma(lanes: Lanes, x: ir.Value) -> ir.Value:
    doubles = lanes.doubles()
    zero, one = doubles.const(0.0), doubles.const(1.0)
    wide = lanes.extend(x)
    y = doubles.abs(wide)
    # gamma(y + 8) = y Q gamma(y) with Q = (y + 1) ... (y + 7); of a large y, Q = 1 / y.
    small = doubles.less(y, doubles.const(float(_SHIFT)))
    z = doubles.select(small, doubles.add(y, doubles.const(float(_SHIFT))), y)
    product = doubles.add(y, one)
    for step in range(2, _SHIFT):
        product = doubles.mul(product, doubles.add(y, doubles.const(float(step))))
    q = doubles.select(small, product, doubles.div(one, y))
    # |gamma(-y)| = pi / (y sin(pi y) gamma(y)), so one logarithm serves y and the reflection.
    magic = doubles.const(DOUBLE.round_to_integer)
    r = doubles.sub(y, doubles.sub(doubles.add(y, magic), magic))
    sine = doubles.abs(_sine_of_pi_times(doubles, r))
    negative = doubles.less(wide, zero)
    factor = doubles.select(negative, doubles.div(doubles.const(math.pi), sine), y)
    value = doubles.sub(_stirling(doubles, z), _log(doubles, doubles.mul(factor, q)))
    value = doubles.select(negative, doubles.neg(value), value)
    # 1 and 2 are exact zeros; 0 and the negative integers poles.
    either = doubles.either(doubles.equal(wide, one), doubles.equal(wide, doubles.const(2.0)))
    value = doubles.select(either, zero, value)
    whole = doubles.both(doubles.equal(r, zero), doubles.not_less(zero, wide))
    value = doubles.select(whole, doubles.const(math.inf), value)
    finite = doubles.less(y, doubles.const(math.inf))
    return lanes.truncate(doubles.select(finite, value, y))


FUNCTIONS = (
    MathFunction(
        name="lgamma",
        arity=1,
        max_ulp={"f32": 2.0},
        valid_range="all",
        special_values="lgamma(1) = lgamma(2) = +0, inf for zeros, negative integers and +-inf, "
        "lgamma(NaN) = NaN",
        source="Stirling's series in double, moved up by 8 below 8; reflection for x < 0",
        emitter=lgamma,
    ),
)
