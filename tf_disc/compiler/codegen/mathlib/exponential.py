"""exp, expm1, sigmoid, and what other functions need of them."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import (
    EXP,
    EXP_DOUBLE,
    EXPM1,
    EXPM1_DOUBLE,
)
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

_LOG2_E = 1.44269504088896341


@dataclass(frozen=True)
class Constants:
    """What exp needs to know of a type.

    ln2: in two parts (Cody and Waite 1980). With fma, the first needs no zero bits at its end.
    ln2_short: the same without; n times the first part is exact.
    exp, expm1: P in exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2; for expm1, relative to expm1(r).
    overflow, underflow: the smallest x whose exp overflows, and the smallest whose exp is normal.
    expm1_limit: below this, expm1 rounds to -1.
    """

    ln2: tuple[float, float]
    ln2_short: tuple[float, float]
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    overflow: float
    underflow: float
    expm1_limit: float


_SINGLE = Constants(
    ln2=(0.693147182464599609375, -1.904654290582768e-9),
    ln2_short=(0.693145751953125, 1.42860682030941723e-6),
    exp=EXP,
    expm1=EXPM1,
    overflow=88.72283935546875,
    underflow=-87.33654022216796875,
    expm1_limit=-18.0,
)
_DOUBLE = Constants(
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    ln2_short=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    exp=EXP_DOUBLE,
    expm1=EXPM1_DOUBLE,
    overflow=709.7827128933841,
    underflow=-708.3964185322641,
    expm1_limit=-38.0,
)


def constants(lanes: Lanes) -> Constants:
    return _DOUBLE if lanes.is_double else _SINGLE


@dataclass(frozen=True)
class Reduced:
    """factor * x = n ln 2 + factor * r, |factor * r| <= ln(2)/2. `shifted`: n + bias, low bits."""

    shifted: ir.Value
    r: ir.Value


def _reduce(lanes: Lanes, x: ir.Value, factor: float, bias: int) -> Reduced:
    """Splits factor * x, for |factor * x| < 2^22; factor is a power of two or its negative.

    With the exponent's bias for bias, the low bits are a power of two when moved to its place.
    """
    known = constants(lanes)
    magic = lanes.const(lanes.format.round_to_integer + bias)
    shifted = lanes.fma(x, lanes.const(factor * _LOG2_E), magic)
    n = lanes.sub(shifted, magic)
    high, low = known.ln2 if lanes.machine.fused else known.ln2_short
    r = lanes.fma(n, lanes.const(-high / factor), x)
    r = lanes.fma(n, lanes.const(-low / factor), r)
    return Reduced(shifted, r)


def _scaled(coefficients: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """The polynomial of factor * r as one of r; exact, the factor being a power of two."""
    return tuple(c * factor**k for k, c in enumerate(coefficients))


def exp_unchecked(lanes: Lanes, x: ir.Value, factor: float = 1.0) -> ir.Value:
    """exp(factor * x) where that is a normal number; no meaning elsewhere, for NaN included."""
    reduced = _reduce(lanes, x, factor, 0)
    r = reduced.r
    coefficients = _scaled((1.0, 1.0, *constants(lanes).exp), factor)
    if lanes.machine.fused:
        value = lanes.horner(r, coefficients)
    else:
        # Each product is rounded, too, so the last is kept small: r itself is exact.
        first = r if factor == 1.0 else lanes.mul(r, lanes.const(factor))
        tail = lanes.fma(lanes.mul(r, r), lanes.horner(r, coefficients[2:]), first)
        value = lanes.add(tail, lanes.const(1.0))
    # n goes to the exponent by integer addition: 2^n by itself overflows before the result does.
    exponent = lanes.to_exponent(reduced.shifted)
    return lanes.from_bits(lanes.add_int(lanes.bits(value), exponent))


def scaled_exp(
    lanes: Lanes, x: ir.Value, factor: float, correction: ir.Value, scale: ir.Value
) -> ir.Value:
    """scale * exp(factor * (x + correction)), correction a rest that x has lost by rounding.

    Needs -88.3 < factor * x < 88; below the normal range it is 0. NaN gives NaN.
    """
    reduced = _reduce(lanes, x, factor, lanes.format.bias)
    r = lanes.add(reduced.r, correction)
    power = lanes.from_bits(lanes.to_exponent(reduced.shifted))
    # exp(factor * r) - 1, so that the sum with 1 need not be rounded by itself.
    less_one = lanes.mul(r, lanes.horner(r, _scaled((1.0, 1.0, *constants(lanes).exp), factor)[1:]))
    return lanes.mul(lanes.fma(scale, less_one, scale), power)


def scaled_expm1(lanes: Lanes, x: ir.Value, factor: float, down: int = 0) -> ir.Value:
    """expm1(factor * x) / |factor| / 2^down, accurate near 0.

    For finite results, down 1 or 2 reaches as far as expm1 itself or 2 * expm1 does; below,
    factor * x > -87 (-708 for double). NaN gives NaN. factor: a power of two or its negative.
    """
    reduced = _reduce(lanes, x, factor, lanes.format.bias - down)
    size = abs(factor)
    power = lanes.from_bits(lanes.to_exponent(reduced.shifted))
    polynomial = _scaled(constants(lanes).expm1, factor)
    tail = lanes.horner(reduced.r, tuple(c * size for c in polynomial))
    # expm1(factor * r) / size, of which the first term is r or -r.
    first = reduced.r if factor > 0 else lanes.neg(reduced.r)
    square = lanes.mul(reduced.r, reduced.r)
    # In double without the instruction this would cost more than the last tenth of a unit is worth.
    exactly = lanes.fma if lanes.is_double else lanes.exact_fma
    near = exactly(square, tail, first)
    one = lanes.const(-(0.5**down) / size)
    return lanes.fma(power, near, lanes.fma(power, lanes.const(1.0 / size), one))


def exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    vanishing = lanes.less(x, lanes.const(constants(lanes).underflow))
    value = lanes.select(vanishing, lanes.const(0.0), exp_unchecked(lanes, x))
    # One selection serves overflow and NaN: x + inf is inf, or NaN if x is.
    unbounded = lanes.not_less(x, lanes.const(constants(lanes).overflow))
    return lanes.select(unbounded, lanes.add(x, lanes.const(float("inf"))), value)


def expm1(lanes: Lanes, x: ir.Value) -> ir.Value:
    half = scaled_expm1(lanes, lanes.at_least(x, constants(lanes).expm1_limit), 1.0, down=1)
    # Tiny operands are their own result: half of one may be no normal number, and -0 would lose
    # its sign.
    tiny = lanes.less(lanes.abs(x), lanes.const(lanes.format.own_result))
    value = lanes.select(tiny, x, lanes.add(half, half))
    unbounded = lanes.not_less(x, lanes.const(constants(lanes).overflow))
    return lanes.select(unbounded, lanes.add(x, lanes.const(float("inf"))), value)


def sigmoid(lanes: Lanes, x: ir.Value) -> ir.Value:
    # exp(-x) is held to normal numbers from below, where 1 + exp(-x) is 1 anyway.
    falling = exp_unchecked(lanes, lanes.at_most(x, -constants(lanes).underflow), -1.0)
    unbounded = lanes.not_less(lanes.const(-constants(lanes).overflow), x)
    falling = lanes.select(unbounded, lanes.sub(lanes.const(float("inf")), x), falling)
    return lanes.div(lanes.const(1.0), lanes.add(lanes.const(1.0), falling))


FUNCTIONS = (
    MathFunction(
        name="exp",
        arity=1,
        max_ulp={"f32": 1.0, "f64": 1.0},
        valid_range="all; results below 2^-126 are 0",
        special_values="exp(NaN) = NaN, exp(inf) = inf, exp(-inf) = 0, exp(+-0) = 1",
        source="Cody and Waite 1980 (reduction by ln 2 in two parts); minimax polynomial",
        emitter=exp,
    ),
    MathFunction(
        name="expm1",
        arity=1,
        max_ulp={"f32": 2.0, "f64": 2.0},
        valid_range="all",
        special_values="expm1(NaN) = NaN, expm1(inf) = inf, expm1(-inf) = -1, expm1(+-0) = +-0",
        source="2^n expm1(r) + (2^n - 1), reduced as exp; minimax polynomial",
        emitter=expm1,
    ),
    MathFunction(
        name="sigmoid",
        arity=1,
        max_ulp={"f32": 2.75, "f64": 2.75},
        valid_range="all; results below 2^-126 are 0",
        special_values="sigmoid(NaN) = NaN, sigmoid(inf) = 1, sigmoid(-inf) = 0, sigmoid(0) = 0.5",
        source="1 / (1 + exp(-x)), exp as above",
        emitter=sigmoid,
    ),
)
