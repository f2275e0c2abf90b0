"""The scalar functions of integers and bool as LLVM.

Integers wrap. Division by zero and a negative power are TensorFlow's errors: `must` leaves the call to it. x86 has
no vector division of integers; up to 32 bits one of doubles is exact.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tf_disc.compiler.codegen.vectors import Must, constant, with_element
from tf_disc.compiler.ir.types import ITEM_BYTES, UNSIGNED


def truncated_division(
    b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value
) -> ir.Value:
    """x / y towards zero. The lowest number by -1 is itself."""
    type_ = x.type
    zero, one = constant(type_, 0), constant(type_, 1)
    must(b.icmp_signed("!=", y, zero))
    bits = 8 * ITEM_BYTES[dtype]
    if bits < 64:
        wide = with_element(type_, ir.DoubleType())
        to_double = b.uitofp if dtype in UNSIGNED else b.sitofp
        # A masked lane may hold a zero here; its quotient is never used, and no conversion traps.
        quotient = b.fdiv(to_double(x, wide), to_double(y, wide))
        whole = b.fptosi(quotient, with_element(type_, ir.IntType(32)))
        return b.trunc(whole, type_) if bits < 32 else whole
    # The instruction traps on a zero, masked or not, and on the lowest number by -1.
    minus = b.icmp_signed("==", y, constant(type_, -1))
    safe = b.select(b.or_(minus, b.icmp_signed("==", y, zero)), one, y)
    return b.select(minus, b.neg(x), b.sdiv(x, safe))


def _rest(b: ir.IRBuilder, x: ir.Value, y: ir.Value, quotient: ir.Value) -> ir.Value:
    return b.sub(x, b.mul(quotient, y))


def _crosses(b: ir.IRBuilder, dtype: str, rest: ir.Value, y: ir.Value) -> ir.Value | None:
    """True where rounding down differs from rounding towards zero."""
    if dtype in UNSIGNED:
        return None
    zero = constant(y.type, 0)
    unequal = b.icmp_signed("<", b.xor(rest, y), zero)
    return b.and_(unequal, b.icmp_signed("!=", rest, zero))


def _floordiv(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    quotient = truncated_division(b, must, dtype, x, y)
    crosses = _crosses(b, dtype, _rest(b, x, y, quotient), y)
    if crosses is None:
        return quotient
    return b.select(crosses, b.sub(quotient, constant(x.type, 1)), quotient)


def _truncmod(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return _rest(b, x, y, truncated_division(b, must, dtype, x, y))


def _floormod(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    rest = _truncmod(b, must, dtype, x, y)
    crosses = _crosses(b, dtype, rest, y)
    return rest if crosses is None else b.select(crosses, b.add(rest, y), rest)


def _power(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """By squaring, one step a bit of the exponent."""
    type_ = x.type
    zero = constant(type_, 0)
    bits = 8 * ITEM_BYTES[dtype]
    if dtype not in UNSIGNED:
        must(b.icmp_signed(">=", y, zero))
        bits -= 1
    result: ir.Value = constant(type_, 1)
    square = x
    for bit in range(bits):
        used = b.icmp_signed("!=", b.and_(y, constant(type_, 1 << bit)), zero)
        result = b.select(used, b.mul(result, square), result)
        if bit + 1 < bits:
            square = b.mul(square, square)
    return result


def _count(b: ir.IRBuilder, dtype: str, y: ir.Value) -> ir.Value:
    """A shift's count as TensorFlow takes it: not below 0, at most the bits less one."""
    most = constant(y.type, 8 * ITEM_BYTES[dtype] - 1)
    if dtype in UNSIGNED:
        return b.select(b.icmp_unsigned("<", y, most), y, most)
    zero = constant(y.type, 0)
    low = b.select(b.icmp_signed("<", y, zero), zero, y)
    return b.select(b.icmp_signed("<", low, most), low, most)


def _shr(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    count = _count(b, dtype, y)
    return b.lshr(x, count) if dtype in UNSIGNED else b.ashr(x, count)


def _abs(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, constant(x.type, 0)), b.neg(x), x)


def _sign(b: ir.IRBuilder, must: Must, dtype: str, x: ir.Value) -> ir.Value:
    zero = constant(x.type, 0)
    below = b.select(b.icmp_signed("<", x, zero), constant(x.type, -1), zero)
    return b.select(b.icmp_signed(">", x, zero), constant(x.type, 1), below)


#: Called with the builder, `must`, the element type and the operands.
INTEGER: dict[str, Callable[..., ir.Value]] = {
    "add": lambda b, must, dtype, x, y: b.add(x, y),
    "sub": lambda b, must, dtype, x, y: b.sub(x, y),
    "mul": lambda b, must, dtype, x, y: b.mul(x, y),
    "neg": lambda b, must, dtype, x: b.neg(x),
    "abs": _abs,
    "sign": _sign,
    "and": lambda b, must, dtype, x, y: b.and_(x, y),
    "or": lambda b, must, dtype, x, y: b.or_(x, y),
    "xor": lambda b, must, dtype, x, y: b.xor(x, y),
    "not": lambda b, must, dtype, x: b.not_(x),
    "shl": lambda b, must, dtype, x, y: b.shl(x, _count(b, dtype, y)),
    "shr": _shr,
    "truncdiv": truncated_division,
    "truncmod": _truncmod,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "pow": _power,
}
