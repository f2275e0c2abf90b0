"""pow: 2^(y log2|x|) with the logarithm in double, then C99's special cases (Annex F.9.4.4)."""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import EXP2, LOG2
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.logarithm import divided, exponent_of
from tf_disc.compiler.codegen.mathlib.record import MathFunction

_ROUND = 6755399441055744.0
_LARGEST = 3.4028234663852886e38
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST_NORMAL_BITS = 0x00800000
_NORMAL_RANGE_BITS = 0x7F000000
_SIGN = 0x80000000
# log2(1 + f) = f P(f) in double, 2^r = 1 + r P(r) in float: fit.py, "log2", "exp2".


def _log2(lanes: Lanes, doubles: Lanes, x: ir.Value) -> ir.Value:
    """log2 of normal positive x, in double; relative error below 2^-35, so that y may multiply it."""
    shifted = exponent_of(lanes, x)
    n = lanes.integer_to_double(shifted)
    f = doubles.sub(lanes.extend(divided(lanes, x, shifted)), doubles.const(1.0))
    return doubles.fma(f, doubles.horner(f, LOG2), n)


def _exp2(lanes: Lanes, doubles: Lanes, exponent: ir.Value) -> ir.Value:
    """2^exponent of double lanes; 0 below the normal range, inf above."""
    # At both of these the fraction is 0 and the value before scaling is exactly 1, so that adding the
    # integer to its exponent's bits gives exactly 0 and inf.
    held = doubles.at_most(exponent, 128.0)
    vanishing = doubles.less(held, doubles.const(-126.0))
    held = doubles.select(vanishing, doubles.const(-127.0), held)
    magic = doubles.const(_ROUND)
    shifted = doubles.add(held, magic)
    fraction = lanes.truncate(doubles.sub(held, doubles.sub(shifted, magic)))
    value = lanes.horner(fraction, (1.0, *EXP2))
    power = lanes.shift_left(lanes.low_bits(shifted), 23)
    return lanes.from_bits(lanes.add_int(lanes.bits(value), power))


def pow_(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    doubles = lanes.doubles()
    zero, one = lanes.const(0.0), lanes.const(1.0)
    infinity, nan = lanes.const(float("inf")), lanes.const(float("nan"))
    magnitude = lanes.abs(x)
    # An infinite y acts as the largest one, except that it gives 1 for |x| = 1 instead of inf * 0.
    held = lanes.at_most(lanes.at_least(y, -_LARGEST), _LARGEST)
    exponent = doubles.mul(lanes.extend(held), _log2(lanes, doubles, magnitude))
    value = _exp2(lanes, doubles, exponent)

    # A negative x: NaN for a y that is no integer, the sign of x for an odd one.
    half = lanes.mul(y, lanes.const(0.5))
    whole = lanes.floor(y)
    odd = lanes.both(lanes.equal(whole, y), lanes.not_equal(lanes.floor(half), half))
    undefined = lanes.both(lanes.less(x, zero), lanes.not_equal(whole, y))
    value = lanes.select(undefined, nan, value)

    # |x| is zero (or denormal), inf or NaN: y log|x| is -inf, inf or NaN, and 2 to it 0 or itself.
    above = lanes.sub_int(lanes.bits(magnitude), lanes.const_int(_SMALLEST_NORMAL_BITS))
    special = lanes.not_below_unsigned(above, _NORMAL_RANGE_BITS)
    is_zero = lanes.less(magnitude, lanes.const(_SMALLEST_NORMAL))
    logarithm = lanes.select(is_zero, lanes.const(float("-inf")), magnitude)
    value = lanes.select(special, lanes.at_least(lanes.mul(held, logarithm), 0.0), value)

    sign = lanes.select_int(odd, lanes.and_int(lanes.bits(x), _SIGN), lanes.const_int(0))
    value = lanes.from_bits(lanes.xor_int(lanes.bits(value), sign))
    # NaN in y has come through so far; these two give 1 whatever the other operand is.
    value = lanes.select(lanes.unordered(y), lanes.add(y, infinity), value)
    return lanes.select(lanes.either(lanes.equal(y, zero), lanes.equal(x, one)), one, value)


FUNCTIONS = (
    MathFunction(
        name="pow",
        arity=2,
        max_ulp={"f32": 1.5},
        valid_range="all; results below 2^-126 are 0, and |x| below 2^-126 is 0",
        special_values="as C99 Annex F: pow(x, +-0) = pow(1, y) = 1, pow(-1, +-inf) = 1, NaN for x < 0 with "
        "a y that is no integer, pow(+-0, y < 0) = inf with the sign of x for odd y; other NaN stay NaN",
        source="2^(y log2|x|), the logarithm in double; minimax polynomials",
        emitter=pow_,
    ),
)
