"""f16 and bf16: 16 bits in memory, f32 in registers, rounded to even after each op.

In registers a value is always one that the short type has, so loads and stores only move bits.
"""

from __future__ import annotations

from llvmlite import ir

from tf_disc.compiler.codegen.vectors import constant, with_element

_I16, _I32, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def round_to(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """The nearest number of the short type, as f32."""
    if dtype == "f16":
        half = b.fptrunc(value, with_element(value.type, ir.HalfType()))
        return b.fpext(half, value.type)
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
        half = b.bitcast(bits, with_element(bits.type, ir.HalfType()))
        return b.fpext(half, with_element(bits.type, _FLOAT))
    type_ = with_element(bits.type, _I32)
    high = b.shl(b.zext(bits, type_), constant(type_, 16))
    return b.bitcast(high, with_element(bits.type, _FLOAT))


def to_memory(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """The 16 bits of an f32 that the short type has."""
    short = with_element(value.type, _I16)
    if dtype == "f16":
        return b.bitcast(b.fptrunc(value, with_element(value.type, ir.HalfType())), short)
    type_ = with_element(value.type, _I32)
    return b.trunc(b.lshr(b.bitcast(value, type_), constant(type_, 16)), short)
