"""f16 and bf16: 16 bits in memory, f32 in registers, rounded to even after each op.

In registers a value is always one that the short type has, so loads and stores only move bits.
"""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.machine import machine_of
from tf_disc.compiler.codegen.vectors import constant, with_element

_I16, _I32, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def round_to(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """The nearest number of the short type, as f32."""
    if dtype == "f16":
        return from_memory(b, to_memory(b, value, dtype), dtype)
    type_ = with_element(value.type, _I32)
    bits = b.bitcast(value, type_)
    odd = b.and_(b.lshr(bits, constant(type_, 16)), constant(type_, 1))
    up = b.add(b.add(bits, constant(type_, 0x7FFF)), odd)
    rounded = b.bitcast(b.and_(up, constant(type_, -0x10000)), value.type)
    # Adding would carry a NaN into infinity.
    quiet = constant(value.type, float("nan"))
    return b.select(b.fcmp_unordered("uno", value, value), quiet, rounded)


def from_memory(b: ir.IRBuilder, bits: ir.Value, dtype: str) -> ir.Value:
    """The f32 of 16 bits."""
    if dtype == "f16":
        if not machine_of(b).halves:
            return _half_to_single(b, bits)
        half = b.bitcast(bits, with_element(bits.type, ir.HalfType()))
        return b.fpext(half, with_element(bits.type, _FLOAT))
    type_ = with_element(bits.type, _I32)
    high = b.shl(b.zext(bits, type_), constant(type_, 16))
    return b.bitcast(high, with_element(bits.type, _FLOAT))


def to_memory(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """The 16 bits of an f32; of bf16, of one that the type has."""
    short = with_element(value.type, _I16)
    if dtype == "f16":
        if not machine_of(b).halves:
            return _single_to_half(b, value)
        return b.bitcast(b.fptrunc(value, with_element(value.type, ir.HalfType())), short)
    type_ = with_element(value.type, _I32)
    return b.trunc(b.lshr(b.bitcast(value, type_), constant(type_, 16)), short)


# Without F16C, where LLVM would call a function of the compiler's library. By integers, as Giesen 2012,
# "Half to float done quick", with one addition of floats where f16 is denormal, which f32 is not.

#: From the exponent's bias of f16 to that of f32, in the exponent's place.
_BIAS = (127 - 15) << 23
#: The f32 of which the last place is that of f16's denormals: 1/2.
_HALF_BITS = 126 << 23
#: 2^-14, the smallest normal f16, and 2^16, which is beyond the largest.
_FIRST_NORMAL, _BEYOND = 113 << 23, 143 << 23


def _half_to_single(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    type_, single = with_element(bits.type, _I32), with_element(bits.type, _FLOAT)
    wide = b.zext(bits, type_)
    moved = b.shl(b.and_(wide, constant(type_, 0x7FFF)), constant(type_, 13))
    biased = b.add(moved, constant(type_, _BIAS))
    infinite = b.icmp_unsigned(">=", moved, constant(type_, 0x7C00 << 13))
    biased = b.select(infinite, b.add(biased, constant(type_, _BIAS)), biased)
    # A denormal m 2^-24 as 2^-14 + m 2^-24, less 2^-14.
    first = constant(type_, _FIRST_NORMAL)
    less = b.fsub(b.bitcast(b.add(moved, first), single), b.bitcast(first, single))
    denormal = b.icmp_unsigned("<", moved, constant(type_, 0x400 << 13))
    magnitude = b.select(denormal, b.bitcast(less, type_), biased)
    sign = b.shl(b.and_(wide, constant(type_, 0x8000)), constant(type_, 16))
    return b.bitcast(b.or_(magnitude, sign), single)


def _single_to_half(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    type_ = with_element(value.type, _I32)
    bits = b.bitcast(value, type_)
    magnitude = b.and_(bits, constant(type_, 0x7FFFFFFF))
    # To nearest, ties to even; a carry goes into the exponent, and from the largest to infinity.
    odd = b.and_(b.lshr(magnitude, constant(type_, 13)), constant(type_, 1))
    up = b.add(b.add(magnitude, constant(type_, 0xFFF - _BIAS)), odd)
    normal = b.lshr(up, constant(type_, 13))
    # Below the normal numbers the addition rounds, at the place where f16's denormals end.
    half = constant(type_, _HALF_BITS)
    sum_ = b.fadd(b.bitcast(magnitude, value.type), b.bitcast(half, value.type))
    denormal = b.sub(b.bitcast(sum_, type_), half)
    small = b.icmp_unsigned("<", magnitude, constant(type_, _FIRST_NORMAL))
    result = b.select(small, denormal, normal)
    nan = b.fcmp_unordered("uno", value, value)
    endless = b.select(nan, constant(type_, 0x7E00), constant(type_, 0x7C00))
    beyond = b.icmp_unsigned(">=", magnitude, constant(type_, _BEYOND))
    result = b.select(beyond, endless, result)
    sign = b.and_(b.lshr(bits, constant(type_, 16)), constant(type_, 0x8000))
    return b.trunc(b.or_(result, sign), with_element(value.type, _I16))
