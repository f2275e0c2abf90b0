"""log."""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.mathlib.record import MathFunction

_SMALLEST_NORMAL = 2.0**-126
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.42860682030941723e-6
_TWO_THIRDS_BITS = 0x3F2AAAAB
_EXPONENT_MASK = 0xFF800000
# log(1 + f) = f + f^2 P(f) for 1 + f in [2/3, 4/3): fit.py, "log".
_LOG_TAIL = (
    -0.5,
    0.333332151,
    -0.249998063,
    0.200104266,
    -0.166801959,
    0.14005734,
    -0.121874772,
    0.139845937,
    -0.128800616,
)


def split_exponent(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(n shifted to the exponent's place, m): x = 2^n m, m in [2/3, 4/3), for normal positive x."""
    bits = lanes.bits(x)
    shifted = lanes.and_int(lanes.sub_int(bits, lanes.const_int(_TWO_THIRDS_BITS)), _EXPONENT_MASK)
    return shifted, lanes.from_bits(lanes.sub_int(bits, shifted))


def log_of_parts(lanes: Lanes, shifted: ir.Value, f: ir.Value) -> ir.Value:
    """n ln 2 + log(1 + f), for n in the exponent's place of `shifted` and f in [-1/3, 1/3)."""
    n = lanes.to_float(lanes.shift_right_signed(shifted, 23))
    square = lanes.mul(f, f)
    tail = lanes.fma(square, lanes.horner(f, _LOG_TAIL), lanes.mul(n, lanes.const(_LN2_LOW)))
    return lanes.fma(n, lanes.const(_LN2_HIGH), lanes.add(tail, f))


def log(lanes: Lanes, x: ir.Value) -> ir.Value:
    shifted, m = split_exponent(lanes, x)
    value = log_of_parts(lanes, shifted, lanes.sub(m, lanes.const(1.0)))
    infinity = lanes.const(float("inf"))
    value = lanes.select(lanes.less(x, infinity), value, x)
    # Denormals are zero to TensorFlow's threads, so all that is below the normal range is a pole.
    pole = lanes.const(float("-inf"))
    negative = lanes.not_less(lanes.const(-_SMALLEST_NORMAL), x)
    below = lanes.select(negative, lanes.const(float("nan")), pole)
    return lanes.select(lanes.less(x, lanes.const(_SMALLEST_NORMAL)), below, value)


FUNCTIONS = (
    MathFunction(
        name="log",
        arity=1,
        max_ulp={"f32": 1.0},
        valid_range="all; inputs below 2^-126 in magnitude are 0",
        special_values="log(+-0) = -inf, log(x < 0) = NaN, log(inf) = inf, log(NaN) = NaN, log(1) = +0",
        source="exponent and mantissa in [2/3, 4/3) by integer operations; minimax polynomial",
        emitter=log,
    ),
)
