"""How each scalar function of ir/functions.py becomes LLVM, for scalars and vectors alike.

TensorFlow's rules hold: max and min give NaN when either side is NaN; integers wrap; float to integer
conversions give what the CPU's instruction gives.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.errors import UnsupportedError
from tf_disc.compiler.ir.types import FLOATS

#: Functions of which the vector code is mathlib's.
MATH = frozenset({"exp", "log", "log1p", "tanh", "sigmoid", "erf", "erfc", "rsqrt", "sqrt"})

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(b: ir.IRBuilder, sign: str, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype in FLOATS:
        # "not equal" is true of NaN, every other comparison false.
        return b.fcmp_unordered(sign, x, y) if sign == "!=" else b.fcmp_ordered(sign, x, y)
    return b.icmp_unsigned(sign, x, y) if dtype == "bool" else b.icmp_signed(sign, x, y)


def _extreme(b: ir.IRBuilder, x: ir.Value, y: ir.Value, *, floating: bool, sign: str) -> ir.Value:
    """The greater or the smaller; of floats NaN where either is."""
    if not floating:
        return b.select(b.icmp_signed(sign, x, y), x, y)
    chosen = b.select(b.fcmp_ordered(sign, x, y), x, y)  # y where either is NaN
    return b.select(b.fcmp_unordered("uno", x, x), x, chosen)


def _absolute(b: ir.IRBuilder, x: ir.Value, *, floating: bool) -> ir.Value:
    if floating:
        return b.call(_fabs(b, x.type), [x])
    return b.select(b.icmp_signed("<", x, ir.Constant(x.type, None)), b.neg(x), x)


def _fabs(b: ir.IRBuilder, type_: ir.Type) -> ir.Function:
    scalar = type_.element if isinstance(type_, ir.VectorType) else type_
    suffix = "f32" if scalar == ir.FloatType() else "f64"
    lanes = f"v{type_.count}" if isinstance(type_, ir.VectorType) else ""
    name = f"llvm.fabs.{lanes}{suffix}"
    found = b.module.globals.get(name)
    if found is not None:
        return found
    return ir.Function(b.module, ir.FunctionType(type_, [type_]), name)


def emit(b: ir.IRBuilder, name: str, dtype: str, *args: ir.Value) -> ir.Value:
    """The function applied to operands of one element type. Raises UnsupportedError when there is no code."""
    floating = dtype in FLOATS
    if name in MATH:
        return mathlib.emit(b, name, *args)
    if name in _COMPARE:
        return _compare(b, _COMPARE[name], dtype, *args)
    if name in ("max", "min"):
        return _extreme(b, *args, floating=floating, sign=">" if name == "max" else "<")
    if name == "abs":
        return _absolute(b, *args, floating=floating)
    if name == "select":
        condition, yes, no = args
        return b.select(condition, yes, no)
    table: dict[str, Callable[..., ir.Value]] = _FLOAT if floating else _INTEGER
    if name not in table:
        raise UnsupportedError(f"{name} has no code for {dtype}")
    return table[name](b, *args)


_FLOAT: dict[str, Callable[..., ir.Value]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
}
_INTEGER: dict[str, Callable[..., ir.Value]] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "mul": lambda b, x, y: b.mul(x, y),
    "neg": lambda b, x: b.neg(x),
    "and": lambda b, x, y: b.and_(x, y),
    "or": lambda b, x, y: b.or_(x, y),
    "not": lambda b, x: b.not_(x),
}


def emit_cast(b: ir.IRBuilder, value: ir.Value, source: str, target: str, to: ir.Type) -> ir.Value:
    """A conversion between element types. bool is i1 here; to bool is "not zero"."""
    if source == target:
        return value
    zero = ir.Constant(value.type, None)
    if target == "bool":
        return (
            b.fcmp_unordered("!=", value, zero)
            if source in FLOATS
            else b.icmp_signed("!=", value, zero)
        )
    if source == "bool":
        return b.uitofp(value, to) if target in FLOATS else b.zext(value, to)
    if source in FLOATS and target in FLOATS:
        return b.fpext(value, to) if target == "f64" else b.fptrunc(value, to)
    if source in FLOATS:
        return b.fptosi(value, to)
    if target in FLOATS:
        return b.sitofp(value, to)
    return b.sext(value, to) if target == "i64" else b.trunc(value, to)
