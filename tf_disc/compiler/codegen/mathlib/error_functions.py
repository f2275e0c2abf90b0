"""erf, erfc and the normal quantile."""

from __future__ import annotations

import math

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import (
    ERF,
    ERF_DOUBLE,
    ERF_PIECES,
    ERFC,
    ERFC_DOUBLE,
    ERFC_PIECES,
    ERFC_WHOLE_DOUBLE,
    NDTRI_MIDDLE,
    NDTRI_TAIL,
)
from tf_disc.compiler.codegen.mathlib.exponential import exp_unchecked, scaled_exp, scaled_expm1
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.logarithm import divided, exponent_of, log_of_parts
from tf_disc.compiler.codegen.mathlib.pieces import on_whole_vectors, piecewise
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# From here on erf rounds to 1.
_ERF_LIMIT = 3.93
_ERF_LIMIT_DOUBLE = 5.93
# Here exp(-x^2) has become 0, and 2^n, which makes it so, is still 2^-127 (2^-1023 in double): its
# bits are those of 0.
_ERFC_LIMIT = 9.39
_ERFC_LIMIT_DOUBLE = 26.63
# The intervals begin at 1, of which exponent and two bits of the mantissa are 508, or 12 modulo 16.
_ERFC_TABLES = tuple((*row[4:], 0.0, 0.0, *row[:4]) for row in ERFC_PIECES)


def erf(lanes: Lanes, x: ir.Value) -> ir.Value:
    if lanes.is_double:
        return _erf_double(lanes, x)
    if lanes.machine.permutes:
        return on_whole_vectors(lanes, _erf_by_pieces, x)
    # erf(x) = -expm1(log(erfc(x))), for x >= 0. A quotient of polynomials would be as short, but
    # rounds five times just below 1; expm1 is accurate both near 0 and where the result nears 1.
    held = lanes.at_most(lanes.abs(x), _ERF_LIMIT)
    slope = lanes.exact_fma(lanes.horner(held, ERF[1:]), held, lanes.const(ERF[0]))
    exponent = _grown(lanes, held, slope)
    return lanes.copysign(scaled_expm1(lanes, exponent, -1.0), x)


def _grown(lanes: Lanes, x: ir.Value, slope: ir.Value) -> ir.Value:
    """x + x * slope, for a slope of 2 / sqrt(pi) - 1 at 0."""
    if not lanes.is_double:
        return lanes.exact_fma(x, slope, x)
    value = lanes.fma(x, slope, x)
    if lanes.machine.fused:
        return value
    # The product by itself may be no normal number where the sum is one.
    tiny = lanes.less(x, lanes.const(2.0**-100))
    return lanes.select(tiny, lanes.mul(x, lanes.const(2.0 / math.sqrt(math.pi))), value)


def _erf_by_pieces(lanes: Lanes, x: ir.Value) -> ir.Value:
    held = lanes.at_most(lanes.abs(x), _ERF_LIMIT)
    # 4 <= held + 4 < 8, so that four bits of the mantissa count quarters.
    index = lanes.shift_right(lanes.bits(lanes.add(held, lanes.const(4.0))), 19)
    return lanes.copysign(piecewise(lanes, index, held, ERF_PIECES, own=True), x)


def _erf_double(lanes: Lanes, x: ir.Value) -> ir.Value:
    # log(erfc(x)) would take a polynomial of degree 36: two ranges, joined at 1, are shorter.
    held = lanes.at_most(lanes.abs(x), _ERF_LIMIT_DOUBLE)
    square = lanes.mul(held, held)
    near = _grown(lanes, held, lanes.horner(square, ERF_DOUBLE))
    inverse = lanes.div(lanes.const(1.0), lanes.add(held, lanes.const(2.0)))
    mapped = lanes.fma(inverse, lanes.const(-4.0), lanes.const(1.0))
    scaled = lanes.mul(inverse, lanes.horner(mapped, ERFC_DOUBLE))
    rest = lanes.mul(scaled, exp_unchecked(lanes, square, -1.0))
    far = lanes.sub(lanes.const(1.0), rest)
    # NaN fails the comparison, and comes through `near`.
    value = lanes.select(lanes.less(lanes.const(1.0), held), far, near)
    return lanes.copysign(value, x)


def _erfcx_by_pieces(lanes: Lanes, x: ir.Value) -> ir.Value:
    """exp(x^2) erfc(x) for 0 <= x <= _ERFC_LIMIT."""
    # Exponent and two bits of the mantissa.
    index = lanes.shift_right(lanes.bits(lanes.add(x, lanes.const(1.0))), 21)
    return piecewise(lanes, index, x, _ERFC_TABLES, own=False)


def erfc(lanes: Lanes, x: ir.Value) -> ir.Value:
    # exp(-x^2) w P(1 - 2 k w), w = 1 / (k + x), for x >= 0; what x^2 loses by rounding is given back.
    limit = _ERFC_LIMIT_DOUBLE if lanes.is_double else _ERFC_LIMIT
    k = 4.0 if lanes.is_double else 2.0
    held = lanes.at_most(lanes.abs(x), limit)
    square = lanes.mul(held, held)
    lost = lanes.exact_fma(held, held, lanes.neg(square))
    if lanes.machine.permutes and not lanes.is_double:
        scaled = on_whole_vectors(lanes, _erfcx_by_pieces, held)
    else:
        inverse = lanes.div(lanes.const(1.0), lanes.add(held, lanes.const(k)))
        mapped = lanes.fma(inverse, lanes.const(-2.0 * k), lanes.const(1.0))
        polynomial = lanes.horner(mapped, ERFC_WHOLE_DOUBLE if lanes.is_double else ERFC)
        scaled = lanes.mul(inverse, polynomial)
    value = scaled_exp(lanes, square, -1.0, lost, scaled)
    if lanes.is_double:
        # The long polynomial rounds eight times next to 1; erf's own, joined at 1, hardly does.
        less_held = lanes.sub(lanes.const(1.0), held)
        near = lanes.fma(lanes.neg(held), lanes.horner(square, ERF_DOUBLE), less_held)
        value = lanes.select(lanes.less(held, lanes.const(1.0)), near, value)
    return lanes.select(lanes.less(x, lanes.const(0.0)), lanes.sub(lanes.const(2.0), value), value)


def ndtri(lanes: Lanes, p: ir.Value) -> ir.Value:
    # Of q = min(p, 1 - p): near 1/2 a polynomial of the distance from it, below 1/4 one of
    # t = sqrt(-2 log(q)), from which the quantile differs by less than 1.
    one, half = lanes.const(1.0), lanes.const(0.5)
    q = lanes.select(lanes.less(half, p), lanes.sub(one, p), p)
    w = lanes.sub(p, half)
    middle = lanes.mul(w, lanes.horner(lanes.mul(w, w), NDTRI_MIDDLE))
    shifted = exponent_of(lanes, q)
    logarithm = log_of_parts(lanes, shifted, lanes.sub(divided(lanes, q, shifted), one))
    t = lanes.sqrt(lanes.mul(logarithm, lanes.const(-2.0)))
    inverse = lanes.div(one, lanes.add(t, lanes.const(3.0)))
    mapped = lanes.fma(inverse, lanes.const(-6.0), one)
    tail = lanes.sub(t, lanes.horner(mapped, NDTRI_TAIL))
    # 0 and 1 are poles, denormals with them; beyond there is nothing. NaN is not less than 1/4 and
    # comes through `middle`.
    normal = lanes.format.smallest_normal
    negative = lanes.not_less(lanes.const(-normal), q)
    outside = lanes.select(negative, lanes.const(math.nan), lanes.const(math.inf))
    small = lanes.less(q, lanes.const(normal))
    tail = lanes.copysign(lanes.select(small, outside, tail), w)
    return lanes.select(lanes.less(q, lanes.const(0.25)), tail, middle)


FUNCTIONS = (
    MathFunction(
        name="erf",
        arity=1,
        max_ulp={"f32": 2.0, "f64": 2.0},
        valid_range="all",
        special_values="erf(+-0) = +-0, erf(+-inf) = +-1, erf(NaN) = NaN; never above 1 in size",
        source="erf(x) = -expm1(log(erfc(x))), the logarithm by a minimax polynomial; in f32 "
        "with AVX-512 a polynomial a quarter of x (Gal 1986)",
        emitter=erf,
    ),
    MathFunction(
        name="erfc",
        arity=1,
        max_ulp={"f32": 5.5, "f64": 7.0},
        valid_range="all; results below 2^-126 are 0",
        special_values="erfc(inf) = 0, erfc(-inf) = 2, erfc(NaN) = NaN, erfc(+-0) = 1",
        source="exp(-x^2) times a minimax polynomial of 1 / (k + x), k = 2, in f64 4; in f64 "
        "1 - erf(x) below 1; in f32 with AVX-512 times a polynomial an interval (Gal 1986)",
        emitter=erfc,
    ),
    MathFunction(
        name="ndtri",
        arity=1,
        max_ulp={"f32": 5.0},
        valid_range="all",
        special_values="ndtri(0) = -inf, ndtri(1) = inf, ndtri(1/2) = +0, NaN outside [0, 1] and for "
        "NaN",
        source="minimax polynomials of p - 1/2, and below 1/4 of sqrt(-2 log(min(p, 1 - p)))",
        emitter=ndtri,
    ),
)
