"""pow: 2^(y log2|x|), then C99's special cases (Annex F.9.4.4).

The product may be 1024, of which the integer part costs as many bits of what follows: the logarithm
is taken in double for float, and as a sum of two doubles for double.
"""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.coefficients import ATANH_DOUBLE, EXP2, EXP2_DOUBLE, LOG2
from tf_disc.compiler.codegen.mathlib.lanes import DOUBLE, Lanes
from tf_disc.compiler.codegen.mathlib.logarithm import divided, exponent_of
from tf_disc.compiler.codegen.mathlib.record import MathFunction

# A y of this size gives 0 or inf for every x but 1 and -1.
_LARGEST_EXPONENT = 2.0**80
# 1/3 and 2 / ln 2 as sums of two doubles.
_THIRD = (0.3333333333333333, 1.850371707708594e-17)
_TWO_OVER_LN2 = (2.8853900817779268, 4.0710547481862066e-17)


def _power_single(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y for normal positive x and |y| <= _LARGEST_EXPONENT."""
    doubles = lanes.doubles()
    shifted = exponent_of(lanes, x)
    n = lanes.integer_to_double(shifted)
    f = doubles.sub(lanes.extend(divided(lanes, x, shifted)), doubles.const(1.0))
    # Relative error below 2^-35, so that y may multiply it.
    logarithm = doubles.fma(f, doubles.horner(f, LOG2), n)
    exponent = doubles.mul(lanes.extend(y), logarithm)
    # At both ends the fraction is 0 and the value before scaling is exactly 1, so that adding the
    # integer to its exponent's bits gives exactly 0 and inf.
    held = doubles.at_most(exponent, 128.0)
    vanishing = doubles.less(held, doubles.const(-126.0))
    held = doubles.select(vanishing, doubles.const(-127.0), held)
    magic = doubles.const(DOUBLE.round_to_integer)
    rounded = doubles.add(held, magic)
    fraction = lanes.truncate(doubles.sub(held, doubles.sub(rounded, magic)))
    value = lanes.exact_fma(fraction, lanes.horner(fraction, EXP2), lanes.const(1.0))
    power = lanes.shift_left(lanes.low_bits(rounded), lanes.format.mantissa)
    return lanes.from_bits(lanes.add_int(lanes.bits(value), power))


def _times(
    lanes: Lanes, a: tuple[ir.Value, ir.Value], b: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """The product of two sums of two, without that of the low parts (Dekker 1971, with fma)."""
    high = lanes.mul(a[0], b[0])
    low = lanes.exact_fma(a[0], b[0], lanes.neg(high))
    low = lanes.fma(a[0], b[1], low)
    return high, lanes.fma(a[1], b[0], low)


def _plus(lanes: Lanes, a: ir.Value, b: ir.Value, low: ir.Value) -> tuple[ir.Value, ir.Value]:
    """a + (b + low) as a sum of two, for |a| >= |b| or a = 0 (Dekker 1971)."""
    high = lanes.add(a, b)
    return high, lanes.add(lanes.add(lanes.sub(a, high), b), low)


def _log2_in_two(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """log2 of normal positive x in double, as a sum of two; relative error about 2^-63."""

    def constant(parts: tuple[float, float]) -> tuple[ir.Value, ir.Value]:
        return lanes.const(parts[0]), lanes.const(parts[1])

    shifted = exponent_of(lanes, x)
    n = lanes.exponent_to_float(shifted)
    two = lanes.const(2.0)
    # s = f / (2 + f), in two; then log(1 + f) = 2 atanh(s).
    f = lanes.sub(divided(lanes, x, shifted), lanes.const(1.0))
    below = lanes.add(f, two)
    below_rest = lanes.sub(f, lanes.sub(below, two))
    inverse = lanes.div(lanes.const(1.0), below)
    s = lanes.mul(f, inverse)
    rest = lanes.exact_fma(lanes.neg(s), below, f)
    rest = lanes.fma(lanes.neg(s), below_rest, rest)
    s_in_two = (s, lanes.mul(rest, inverse))
    square = _times(lanes, s_in_two, s_in_two)
    # s + s^3 (1/3 + s^2 P(s^2)): the last term needs no second part.
    tail = lanes.mul(square[0], lanes.horner(square[0], ATANH_DOUBLE))
    third = constant(_THIRD)
    factor = _plus(lanes, third[0], tail, third[1])
    cube = _times(lanes, s_in_two, _times(lanes, square, factor))
    arc = _plus(lanes, s, cube[0], lanes.add(cube[1], s_in_two[1]))
    logarithm = _times(lanes, arc, constant(_TWO_OVER_LN2))
    return _plus(lanes, n, *logarithm)


def _power_double(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y for normal positive x and |y| <= _LARGEST_EXPONENT."""
    high, low = _times(lanes, _log2_in_two(lanes, x), (y, lanes.const(0.0)))
    magic = lanes.const(lanes.format.round_to_integer)
    rounded = lanes.add(high, magic)
    fraction = lanes.add(lanes.sub(high, lanes.sub(rounded, magic)), low)
    value = lanes.horner(fraction, (1.0, *EXP2_DOUBLE))
    value = lanes.from_bits(lanes.add_int(lanes.bits(value), lanes.to_exponent(rounded)))
    # The exponent is compared with both its parts: near the ends the low one decides.
    from_bottom = lanes.add(lanes.add(high, lanes.const(1022.0)), low)
    from_top = lanes.add(lanes.sub(high, lanes.const(1024.0)), low)
    zero = lanes.const(0.0)
    value = lanes.select(lanes.less(from_bottom, zero), zero, value)
    return lanes.select(lanes.less(from_top, zero), value, lanes.const(float("inf")))


def pow_(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    zero, one = lanes.const(0.0), lanes.const(1.0)
    infinity, nan = lanes.const(float("inf")), lanes.const(float("nan"))
    magnitude = lanes.abs(x)
    # An infinite y acts as a large one, except that it gives 1 for |x| = 1 instead of inf * 0.
    held = lanes.at_most(lanes.at_least(y, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    power = _power_double if lanes.is_double else _power_single
    value = power(lanes, magnitude, held)

    # A negative x: NaN for a y that is no integer, the sign of x for an odd one.
    half = lanes.mul(y, lanes.const(0.5))
    whole = lanes.floor(y)
    odd = lanes.both(lanes.equal(whole, y), lanes.not_equal(lanes.floor(half), half))
    undefined = lanes.both(lanes.less(x, zero), lanes.not_equal(whole, y))
    value = lanes.select(undefined, nan, value)

    # |x| is zero (or denormal), inf or NaN: y log|x| is -inf, inf or NaN, and 2 to it 0 or itself.
    first_normal, first_infinite = lanes.format.normal_bits
    above = lanes.sub_int(lanes.bits(magnitude), lanes.const_int(first_normal))
    special = lanes.not_below_unsigned(above, first_infinite - first_normal)
    is_zero = lanes.less(magnitude, lanes.const(lanes.format.smallest_normal))
    logarithm = lanes.select(is_zero, lanes.const(float("-inf")), magnitude)
    value = lanes.select(special, lanes.at_least(lanes.mul(held, logarithm), 0.0), value)

    sign = lanes.select_int(
        odd, lanes.and_int(lanes.bits(x), lanes.format.sign_bit), lanes.const_int(0)
    )
    value = lanes.from_bits(lanes.xor_int(lanes.bits(value), sign))
    value = lanes.select(lanes.unordered(y), lanes.add(y, infinity), value)
    # These two give 1 whatever the other operand is, NaN included.
    return lanes.select(lanes.either(lanes.equal(y, zero), lanes.equal(x, one)), one, value)


FUNCTIONS = (
    MathFunction(
        name="pow",
        arity=2,
        max_ulp={"f32": 1.0, "f64": 2.0},
        valid_range="all; results below the normal range are 0, and |x| below it is 0",
        special_values="as C99 Annex F: pow(x, +-0) = pow(1, y) = 1, pow(-1, +-inf) = 1, NaN for "
        "x < 0 with a y that is no integer, pow(+-0, y < 0) = inf with the sign of x for odd y; "
        "other NaN stay NaN",
        source="2^(y log2|x|), the logarithm with twice the bits; minimax polynomials",
        emitter=pow_,
    ),
)
