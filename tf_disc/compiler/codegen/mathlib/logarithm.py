"""log, log1p and softplus."""

from __future__ import annotations

import math

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import LOG, LOG_DOUBLE, LOG_NEAR
from tf_disc.compiler.codegen.mathlib.exponential import constants, exp_unchecked
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.pieces import on_whole_vectors
from tf_disc.compiler.codegen.mathlib.record import MathFunction

_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.42860682030941723e-6
# n times the high part is exact: it has 32 bits.
_LN2_HIGH_DOUBLE = 6.93147180369123816490e-01
_LN2_LOW_DOUBLE = 1.90821492927058770002e-10


def exponent_of(lanes: Lanes, x: ir.Value) -> ir.Value:
    """n in the exponent's place of an integer: x = 2^n m, m in [2/3, 4/3); x normal, positive."""
    above = lanes.sub_int(lanes.bits(x), lanes.const_int(lanes.format.two_thirds_bits))
    return lanes.and_int(above, lanes.format.exponent_mask)


def divided(lanes: Lanes, x: ir.Value, shifted: ir.Value) -> ir.Value:
    """x / 2^n for `shifted` from exponent_of; both x and the result are normal numbers."""
    return lanes.from_bits(lanes.sub_int(lanes.bits(x), shifted))


def log_of_parts(lanes: Lanes, shifted: ir.Value, f: ir.Value) -> ir.Value:
    """n ln 2 + log(1 + f), for n in the exponent's place of `shifted` and f in [-1/3, 1/3)."""
    n = lanes.exponent_to_float(shifted)
    if lanes.is_double:
        return _log_of_parts_double(lanes, n, f)
    # log(1 + f) = f + f^2 P(f).
    square = lanes.mul(f, f)
    tail = lanes.fma(square, lanes.horner(f, LOG), lanes.mul(n, lanes.const(_LN2_LOW)))
    return lanes.fma(n, lanes.const(_LN2_HIGH), lanes.add(tail, f))


def _log_of_parts_double(lanes: Lanes, n: ir.Value, f: ir.Value) -> ir.Value:
    # log(1 + f) = 2 s + s R, s = f / (2 + f), R = s^2 P(s^2); 2 s = f - s f, and the rounding of s
    # hardly counts when that is written as f - (f^2/2 - s (f^2/2 + R)), as in fdlibm.
    s = lanes.div(f, lanes.add(f, lanes.const(2.0)))
    square = lanes.mul(s, s)
    half = lanes.mul(lanes.mul(f, f), lanes.const(0.5))
    inner = lanes.fma(square, lanes.horner(square, LOG_DOUBLE), half)
    tail = lanes.sub(lanes.fma(s, inner, lanes.mul(n, lanes.const(_LN2_LOW_DOUBLE))), half)
    return lanes.fma(n, lanes.const(_LN2_HIGH_DOUBLE), lanes.add(tail, f))


def _reciprocals() -> tuple[float, ...]:
    """For each sixteenth of an octave from 1 to 3/2, and from 1/2 on for those from 3/4 to 1, a number of
    5 or 6 bits: a mantissa times it, less 1, is a float exactly. 1 on both sides of 1."""
    found = []
    for k in range(16):
        size, unit = (1.0, 32) if k < 8 else (0.5, 16)
        low, high = (size * (1 + (k + end) / 16) for end in (0, 1))
        candidates = [i / unit for i in range(unit // 2, 2 * unit)] if 0 < k < 15 else [1.0]
        found.append(min(candidates, key=lambda c: max(abs(low * c - 1), abs(high * c - 1))))
    return tuple(found)


_RECIPROCALS = _reciprocals()
# Their logarithms in two parts; the first, as that of ln 2, is a multiple of 2^-16, so that their sum is exact.
_LOG_HIGH = tuple(round(-math.log(c) * 2**16) / 2**16 for c in _RECIPROCALS)
_LOG_LOW = tuple(-math.log(c) - high for c, high in zip(_RECIPROCALS, _LOG_HIGH))
# What vfixupimmps puts in place: NaN for NaN, NaN, -inf, inf and +0.
_QUIET, _NAN, _MINUS_INF, _INF, _ZERO = 2, 3, 4, 5, 8


def _log_of_pieces(lanes: Lanes, n: ir.Value, index: ir.Value, f: ir.Value) -> ir.Value:
    """n ln 2 - log(c) + log(1 + f), c the reciprocal of that index."""
    whole = lanes.fma(n, lanes.const(_LN2_HIGH), lanes.lookup(_LOG_HIGH, index))
    rest = lanes.fma(n, lanes.const(_LN2_LOW), lanes.lookup(_LOG_LOW, index))
    tail = lanes.fma(lanes.mul(f, f), lanes.horner(f, LOG_NEAR), rest)
    return lanes.add(whole, lanes.add(f, tail))


def _split(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """n, m and m's index in the tables, x = 2^n m, m in [3/4, 3/2)."""
    m = lanes.mantissa(x)
    # One more than x's own exponent where m is below 1.
    n = lanes.sub(lanes.exponent(x), lanes.exponent(m))
    return n, m, lanes.shift_right(lanes.bits(m), 19)


def _log1p_by_table(lanes: Lanes, x: ir.Value) -> ir.Value:
    """log(1 + x) for finite x > -1; +0 for -0. As log1p_unchecked, c times everything."""
    u = lanes.add(x, lanes.const(1.0))
    n, m, index = _split(lanes, u)
    shifted = lanes.sub_int(lanes.bits(u), lanes.bits(m))
    c = lanes.lookup(_RECIPROCALS, index)
    four_over_power = lanes.from_bits(
        lanes.sub_int(lanes.const_int(lanes.format.four_bits), shifted)
    )
    quarter = lanes.mul(c, lanes.const(0.25))
    less_one = lanes.fma(quarter, four_over_power, lanes.const(-1.0))
    return _log_of_pieces(lanes, n, index, lanes.fma(c, divided(lanes, x, shifted), less_one))


def _log_by_table(lanes: Lanes, x: ir.Value) -> ir.Value:
    n, m, index = _split(lanes, x)
    f = lanes.fma(m, lanes.lookup(_RECIPROCALS, index), lanes.const(-1.0))
    value = _log_of_pieces(lanes, n, index, f)
    # Denormals are read as zeros.
    return lanes.repaired(
        value,
        x,
        quiet=_QUIET,
        signalling=_QUIET,
        zero=_MINUS_INF,
        one=_ZERO,
        minus_inf=_NAN,
        inf=_INF,
        negative=_NAN,
    )


def log(lanes: Lanes, x: ir.Value) -> ir.Value:
    if lanes.machine.permutes and not lanes.is_double:
        return on_whole_vectors(lanes, _log_by_table, x)
    shifted = exponent_of(lanes, x)
    m = divided(lanes, x, shifted)
    value = log_of_parts(lanes, shifted, lanes.sub(m, lanes.const(1.0)))
    infinity = lanes.const(float("inf"))
    value = lanes.select(lanes.less(x, infinity), value, x)
    # Denormals are zero to TensorFlow's threads, so all that is below the normal range is a pole.
    pole = lanes.const(float("-inf"))
    negative = lanes.not_less(lanes.const(-lanes.format.smallest_normal), x)
    below = lanes.select(negative, lanes.const(float("nan")), pole)
    return lanes.select(lanes.less(x, lanes.const(lanes.format.smallest_normal)), below, value)


def log1p_unchecked(lanes: Lanes, x: ir.Value) -> ir.Value:
    """log(1 + x) for finite x > -1; +0 for -0."""
    if lanes.machine.permutes and not lanes.is_double:
        return on_whole_vectors(lanes, _log1p_by_table, x)
    # 1 + x serves only to find the exponent; (1 + x) / 2^n - 1 is then made of x / 2^n and 2^-n, so
    # that nothing of x is lost. 2^-n itself may be no normal number where 2^(2-n) is one.
    shifted = exponent_of(lanes, lanes.add(x, lanes.const(1.0)))
    four_over_power = lanes.from_bits(
        lanes.sub_int(lanes.const_int(lanes.format.four_bits), shifted)
    )
    less_one = lanes.fma(four_over_power, lanes.const(0.25), lanes.const(-1.0))
    return log_of_parts(lanes, shifted, lanes.add(divided(lanes, x, shifted), less_one))


def log1p(lanes: Lanes, x: ir.Value) -> ir.Value:
    value = lanes.copysign(log1p_unchecked(lanes, x), x)
    value = lanes.select(lanes.less(x, lanes.const(float("inf"))), value, x)
    minus_one = lanes.const(-1.0)
    pole = lanes.const(float("-inf"))
    value = lanes.select(lanes.equal(x, minus_one), pole, value)
    return lanes.select(lanes.less(x, minus_one), lanes.const(float("nan")), value)


def softplus(lanes: Lanes, x: ir.Value) -> ir.Value:
    # max(x, 0) + log1p(exp(-|x|)). NaN comes through max, whatever the rest is.
    magnitude = lanes.abs(x)
    vanishing = lanes.less(lanes.const(-constants(lanes).underflow), magnitude)
    falling = lanes.select(vanishing, lanes.const(0.0), exp_unchecked(lanes, magnitude, -1.0))
    return lanes.add(lanes.at_least(x, 0.0), log1p_unchecked(lanes, falling))


FUNCTIONS = (
    MathFunction(
        name="log",
        arity=1,
        max_ulp={"f32": 1.0, "f64": 1.0},
        valid_range="all; inputs below 2^-126 in magnitude are 0",
        special_values="log(+-0) = -inf, log(inf) = inf, log(1) = +0, NaN for x < 0 and for NaN",
        source="exponent and mantissa in [2/3, 4/3) by integer operations; minimax polynomial; in f32 "
        "with AVX-512 of what a table of 16 reciprocals leaves of the mantissa (Tang 1990)",
        emitter=log,
    ),
    MathFunction(
        name="log1p",
        arity=1,
        max_ulp={"f32": 2.0, "f64": 2.0},
        valid_range="all",
        special_values="log1p(+-0) = +-0, log1p(-1) = -inf, log1p(x < -1) = NaN, log1p(inf) = inf, "
        "log1p(NaN) = NaN",
        source="log with the mantissa made of x and 1 separately; minimax polynomial",
        emitter=log1p,
    ),
    MathFunction(
        name="softplus",
        arity=1,
        max_ulp={"f32": 2.25, "f64": 2.25},
        valid_range="all; results below 2^-126 are 0",
        special_values="softplus(NaN) = NaN, softplus(inf) = inf, softplus(-inf) = 0",
        source="max(x, 0) + log1p(exp(-|x|))",
        emitter=softplus,
    ),
)
