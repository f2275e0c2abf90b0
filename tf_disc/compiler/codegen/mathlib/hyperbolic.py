"""tanh, sinh, cosh and their inverses, from expm1 and log1p."""

from __future__ import annotations

import math

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import TANH_PIECES
from tf_disc.compiler.codegen.mathlib.exponential import scaled_expm1
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.logarithm import log1p_unchecked
from tf_disc.compiler.codegen.mathlib.pieces import on_whole_vectors, piecewise
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# From here on tanh rounds to 1.
_TANH_LIMIT = 9.011
_TANH_LIMIT_DOUBLE = 19.07
# A little above the last number whose sinh and cosh are finite.
_FINITE_LIMIT = 89.6
_FINITE_LIMIT_DOUBLE = 710.6
# From here on asinh(x) and acosh(x) are log(2 x) to within the last place.
_BIG = 2.0**13
_BIG_DOUBLE = 2.0**28
# The intervals begin at 3/4, of which exponent and two bits of the mantissa are 506, or 10 modulo 16.
_TANH_TABLES = tuple((*row[6:], 0.0, *row[:6]) for row in TANH_PIECES)


def tanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    if lanes.machine.permutes and not lanes.is_double:
        return on_whole_vectors(lanes, _tanh_by_pieces, x)
    # tanh(x) = -h / (1 + h) with h = expm1(-2 x) / 2, for x >= 0; the sign is set at the end.
    limit = _TANH_LIMIT_DOUBLE if lanes.is_double else _TANH_LIMIT
    held = lanes.at_most(lanes.abs(x), limit)
    falling = scaled_expm1(lanes, held, -2.0)
    quotient = lanes.div(falling, lanes.add(falling, lanes.const(1.0)))
    return lanes.copysign(quotient, x)


def _tanh_by_pieces(lanes: Lanes, x: ir.Value) -> ir.Value:
    # Not just where it rounds to 1, so that the polynomial's own error cannot take it back.
    held = lanes.at_most(lanes.abs(x), 9.2)
    # Exponent and two bits of the mantissa.
    index = lanes.shift_right(lanes.bits(lanes.add(held, lanes.const(0.75))), 21)
    return lanes.copysign(piecewise(lanes, index, held, _TANH_TABLES, own=False), x)


def _quarter(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(q, 4 q + 1) for q = expm1(|x|) / 4, which is finite as far as sinh and cosh are."""
    limit = _FINITE_LIMIT_DOUBLE if lanes.is_double else _FINITE_LIMIT
    held = lanes.at_most(lanes.abs(x), limit)
    q = scaled_expm1(lanes, held, 1.0, down=2)
    return q, lanes.fma(q, lanes.const(4.0), lanes.const(1.0))


def sinh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # (e - 1 / e) / 2 = 2 (q + q / e), with e = exp(|x|) = 4 q + 1.
    q, e = _quarter(lanes, x)
    value = lanes.mul(lanes.add(q, lanes.div(q, e)), lanes.const(2.0))
    # A quarter of a tiny operand may be no normal number.
    tiny = lanes.less(lanes.abs(x), lanes.const(lanes.format.own_result))
    return lanes.select(tiny, x, lanes.copysign(value, x))


def cosh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # (e + 1 / e) / 2 = 2 q + 1/2 + (1/2) / e.
    q, e = _quarter(lanes, x)
    half = lanes.const(0.5)
    return lanes.add(lanes.fma(q, lanes.const(2.0), half), lanes.div(half, e))


def _log_of_double(lanes: Lanes, x: ir.Value, magnitude: ir.Value, less_one: ir.Value) -> ir.Value:
    """log(1 + less_one), or log(2 magnitude) where that is big; x where it is inf or NaN."""
    big = lanes.less(lanes.const(_BIG_DOUBLE if lanes.is_double else _BIG), magnitude)
    operand = lanes.select(big, lanes.sub(magnitude, lanes.const(1.0)), less_one)
    added = lanes.select(big, lanes.const(math.log(2.0)), lanes.const(0.0))
    value = lanes.add(log1p_unchecked(lanes, operand), added)
    return lanes.select(lanes.less(magnitude, lanes.const(math.inf)), value, x)


def asinh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|.
    magnitude, one = lanes.abs(x), lanes.const(1.0)
    square = lanes.mul(magnitude, magnitude)
    root = lanes.sqrt(lanes.add(square, one))
    less_one = lanes.add(magnitude, lanes.div(square, lanes.add(root, one)))
    return lanes.copysign(_log_of_double(lanes, x, magnitude, less_one), x)


def acosh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(t (t + 2))), t = x - 1.
    one = lanes.const(1.0)
    t = lanes.sub(x, one)
    root = lanes.sqrt(lanes.mul(t, lanes.add(t, lanes.const(2.0))))
    value = _log_of_double(lanes, x, x, lanes.add(t, root))
    return lanes.select(lanes.less(x, one), lanes.const(math.nan), value)


def atanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    # log((1 + a) / (1 - a)) / 2 = log1p(2 a / (1 - a)) / 2, a = |x|.
    magnitude, one = lanes.abs(x), lanes.const(1.0)
    quotient = lanes.div(lanes.add(magnitude, magnitude), lanes.sub(one, magnitude))
    value = lanes.mul(log1p_unchecked(lanes, quotient), lanes.const(0.5))
    # 1 is a pole; beyond there is nothing, and NaN is not less than 1 either.
    outside = lanes.select(
        lanes.equal(magnitude, one), lanes.const(math.inf), lanes.const(math.nan)
    )
    value = lanes.select(lanes.less(magnitude, one), value, outside)
    return lanes.copysign(value, x)


FUNCTIONS = (
    MathFunction(
        name="tanh",
        arity=1,
        max_ulp={"f32": 2.75, "f64": 2.75},
        valid_range="all",
        special_values="tanh(+-0) = +-0, tanh(+-inf) = +-1, tanh(NaN) = NaN; never above 1 in size",
        source="tanh(x) = -h / (1 + h), h = expm1(-2 x) / 2; in f32 with AVX-512 a polynomial an "
        "interval, 15 of them (Gal 1986)",
        emitter=tanh,
    ),
    MathFunction(
        name="sinh",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range="all",
        special_values="sinh(+-0) = +-0, sinh(+-inf) = +-inf, sinh(NaN) = NaN",
        source="2 (q + q / (4 q + 1)), q = expm1(|x|) / 4",
        emitter=sinh,
    ),
    MathFunction(
        name="cosh",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range="all",
        special_values="cosh(+-0) = 1, cosh(+-inf) = inf, cosh(NaN) = NaN",
        source="2 q + 1/2 + (1/2) / (4 q + 1), q = expm1(|x|) / 4",
        emitter=cosh,
    ),
    MathFunction(
        name="asinh",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range="all",
        special_values="asinh(+-0) = +-0, asinh(+-inf) = +-inf, asinh(NaN) = NaN",
        source="log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|; log(2 a) for large a",
        emitter=asinh,
    ),
    MathFunction(
        name="acosh",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range="all",
        special_values="acosh(1) = +0, acosh(x < 1) = NaN, acosh(inf) = inf, acosh(NaN) = NaN",
        source="log1p(t + sqrt(t (t + 2))), t = x - 1; log(2 x) for large x",
        emitter=acosh,
    ),
    MathFunction(
        name="atanh",
        arity=1,
        max_ulp={"f32": 3.0, "f64": 3.0},
        valid_range="all",
        special_values="atanh(+-0) = +-0, atanh(+-1) = +-inf, NaN for |x| > 1 and for NaN",
        source="log1p(2 a / (1 - a)) / 2, a = |x|",
        emitter=atanh,
    ),
)
