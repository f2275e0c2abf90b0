"""How each scalar function of ir/functions.py becomes LLVM, for scalars and vectors alike.

TensorFlow's rules hold: max and min give NaN when either side is NaN; integers wrap; float to integer
conversions give what the CPU's instruction gives. Floats of 16 bits are computed in f32; short_floats.py rounds.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.integer_functions import INTEGER
from tf_disc.compiler.codegen.mathlib.lanes import Lanes
from tf_disc.compiler.codegen.short_floats import round_to
from tf_disc.compiler.codegen.vectors import Must, constant, intrinsic, with_element
from tf_disc.compiler.errors import UnsupportedError
from tf_disc.compiler.ir.types import FLOATS, ITEM_BYTES, SHORT_FLOATS, UNSIGNED, limits

#: Functions of which the vector code is mathlib's.
MATH = frozenset(mathlib.FUNCTIONS)
#: sin, cos and tan hold their error bound up to here, in f32 and f64; beyond, TensorFlow computes the call.
TRIGONOMETRIC_LIMIT = 2.0**40
#: A quotient up to here is exact in f64; the remainder of a larger one is TensorFlow's.
QUOTIENT_LIMIT = 2.0**52

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
#: Their results are numbers of the type already, whatever their operands.
_EXACT = frozenset({"max", "min", "neg", "abs", "select", "copy", "sign", "floor", "ceil", "rint", "fmod"})  # fmt: skip


def _compare(b: ir.IRBuilder, sign: str, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype in FLOATS:
        # "not equal" is true of NaN, every other comparison false.
        return b.fcmp_unordered(sign, x, y) if sign == "!=" else b.fcmp_ordered(sign, x, y)
    return b.icmp_unsigned(sign, x, y) if dtype in UNSIGNED else b.icmp_signed(sign, x, y)


def _extreme(b: ir.IRBuilder, x: ir.Value, y: ir.Value, *, dtype: str, sign: str) -> ir.Value:
    """The greater or the smaller; of floats NaN where either is."""
    if dtype not in FLOATS:
        return b.select(_compare(b, sign, dtype, x, y), x, y)
    chosen = b.select(b.fcmp_ordered(sign, x, y), x, y)  # y where either is NaN
    return b.select(b.fcmp_unordered("uno", x, x), x, chosen)


def _float_sign(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """-1, 0 or 1, the zero always positive; NaN of NaN."""
    zero, one = constant(x.type, 0.0), constant(x.type, 1.0)
    other = b.select(b.fcmp_ordered("<", x, zero), constant(x.type, -1.0), zero)
    known = b.select(b.fcmp_ordered(">", x, zero), one, other)
    return b.select(b.fcmp_unordered("uno", x, x), x, known)


def _is_finite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    infinity = constant(x.type, float("inf"))
    return b.fcmp_ordered("<", intrinsic(b, "llvm.fabs", x), infinity)


def _is_infinite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    infinity = constant(x.type, float("inf"))
    return b.fcmp_ordered("==", intrinsic(b, "llvm.fabs", x), infinity)


def _fmod(b: ir.IRBuilder, must: Must, x: ir.Value, y: ir.Value) -> ir.Value:
    """C's fmod: exact, with the sign of x. In f64, where the quotient is below 2^52, so that one
    step of fused multiply-add gives the remainder of a quotient that is off by at most one."""
    narrow = x.type
    wide = with_element(x.type, ir.DoubleType())
    u, v = (b.fpext(a, wide) if narrow != wide else a for a in (x, y))
    a, d = intrinsic(b, "llvm.fabs", u), intrinsic(b, "llvm.fabs", v)
    zero, infinity = constant(wide, 0.0), constant(wide, float("inf"))
    divisible = b.and_(b.fcmp_ordered("<", a, infinity), b.fcmp_ordered(">", d, zero))
    far = b.fcmp_ordered("==", d, infinity)  # x itself
    plain = b.and_(divisible, b.not_(far))
    quotient = intrinsic(b, "llvm.floor", b.fdiv(a, d))
    must(b.or_(b.not_(plain), b.fcmp_ordered("<", quotient, constant(wide, QUOTIENT_LIMIT))))
    lanes = Lanes(b, wide)
    back = None
    if narrow == wide and not lanes.machine.fused:
        # The product in parts needs room above and below. d below 2^-52 a is TensorFlow's; a d so
        # large that it is held goes into a 0 times.
        large = b.fcmp_ordered(">", a, constant(wide, 2.0**500))
        small = b.fcmp_ordered("<", a, constant(wide, 2.0**-500))
        one = constant(wide, 1.0)
        scale = b.select(small, constant(wide, 2.0**300), one)
        scale = b.select(large, constant(wide, 2.0**-200), scale)
        back = b.select(small, constant(wide, 2.0**-300), one)
        back = b.select(large, constant(wide, 2.0**200), back)
        a = b.fmul(a, scale)
        d = lanes.at_most(b.fmul(d, scale), 2.0**900)
    rest = lanes.exact_fma(b.fneg(quotient), d, a)
    rest = b.select(b.fcmp_ordered("<", rest, zero), b.fadd(rest, d), rest)
    rest = b.select(b.fcmp_ordered(">=", rest, d), b.fsub(rest, d), rest)
    rest = b.select(far, a, rest)
    rest = rest if back is None else b.fmul(rest, back)
    signed = intrinsic(b, "llvm.copysign", rest, u)
    result = b.select(divisible, signed, constant(wide, float("nan")))
    return b.fptrunc(result, narrow) if narrow != wide else result


def _math(b: ir.IRBuilder, must: Must, name: str, *args: ir.Value) -> ir.Value:
    if name in ("sin", "cos", "tan"):
        size = intrinsic(b, "llvm.fabs", args[0])
        infinity = constant(size.type, float("inf"))
        near = b.fcmp_unordered("<=", size, constant(size.type, TRIGONOMETRIC_LIMIT))
        must(b.or_(near, b.fcmp_ordered("==", size, infinity)))
    return mathlib.emit(b, name, *args)


def emit(b: ir.IRBuilder, name: str, dtype: str, *args: ir.Value, must: Must) -> ir.Value:
    """The function applied to operands of one element type. `must` takes what has to be true for TensorFlow not
    to be needed. Raises UnsupportedError when there is no code."""
    result = _emit(b, name, dtype, args, must)
    if dtype in SHORT_FLOATS and name not in _EXACT and result.type == args[-1].type:
        return round_to(b, result, dtype)
    return result


def _emit(
    b: ir.IRBuilder, name: str, dtype: str, args: tuple[ir.Value, ...], must: Must
) -> ir.Value:
    if name in _COMPARE:
        return _compare(b, _COMPARE[name], dtype, *args)
    if name in ("max", "min"):
        return _extreme(b, *args, dtype=dtype, sign=">" if name == "max" else "<")
    if name == "select":
        condition, yes, no = args
        return b.select(condition, yes, no)
    if dtype in FLOATS:
        if name == "fmod":
            return _fmod(b, must, *args)
        if name in _FLOAT:
            return _FLOAT[name](b, *args)
        if name in MATH:
            return _math(b, must, name, *args)
    elif name in INTEGER:
        return INTEGER[name](b, must, dtype, *args)
    raise UnsupportedError(f"{name} has no code for {dtype}")


_FLOAT: dict[str, Callable[..., ir.Value]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
    "abs": lambda b, x: intrinsic(b, "llvm.fabs", x),
    "floor": lambda b, x: intrinsic(b, "llvm.floor", x),
    "ceil": lambda b, x: intrinsic(b, "llvm.ceil", x),
    "rint": lambda b, x: intrinsic(b, "llvm.roundeven", x),
    "sign": _float_sign,
    "isnan": lambda b, x: b.fcmp_unordered("uno", x, x),
    "isinf": _is_infinite,
    "isfinite": _is_finite,
}


def _to_signed(b: ir.IRBuilder, value: ir.Value, to: ir.Type) -> ir.Value:
    """Towards zero; the lowest number for what is out of range and for NaN, as the CPU's instruction gives it.

    LLVM's own conversion promises nothing there: what it folds becomes any number.
    """
    element = to.element if isinstance(to, ir.VectorType) else to
    assert isinstance(element, ir.IntType)
    bits = element.width
    limit = 2.0 ** (bits - 1)
    above = b.fcmp_ordered(">=", value, constant(value.type, -limit))
    within = b.and_(above, b.fcmp_ordered("<", value, constant(value.type, limit)))
    inside = b.select(within, value, constant(value.type, 0.0))
    return b.select(within, b.fptosi(inside, to), constant(to, -(2 ** (bits - 1))))


def emit_cast(b: ir.IRBuilder, value: ir.Value, source: str, target: str, to: ir.Type) -> ir.Value:
    """A conversion between element types. bool is i1 here; to bool is "not zero"."""
    if source == target:
        return value
    zero = constant(value.type, 0.0 if source in FLOATS else 0)
    if target == "bool":
        return (
            b.fcmp_unordered("!=", value, zero)
            if source in FLOATS
            else b.icmp_signed("!=", value, zero)
        )
    if target in SHORT_FLOATS:
        single = emit_cast(b, value, source, "f32", to) if source not in SHORT_FLOATS else value
        return round_to(b, single, target)
    if source in SHORT_FLOATS:
        source = "f32"
    if source in FLOATS and target in FLOATS:
        if source == target:
            return value
        return b.fpext(value, to) if target == "f64" else b.fptrunc(value, to)
    if source in FLOATS:
        if target in ("i32", "i64"):
            return _to_signed(b, value, to)
        # The CPU converts to 32 bits (the lowest number when out of range) and narrows with saturation.
        whole = _to_signed(b, value, with_element(to, ir.IntType(32)))
        low, high = (constant(whole.type, limit) for limit in limits(target))
        whole = b.select(b.icmp_signed("<", whole, low), low, whole)
        whole = b.select(b.icmp_signed(">", whole, high), high, whole)
        return b.trunc(whole, to)
    if target in FLOATS:
        return b.uitofp(value, to) if source in UNSIGNED else b.sitofp(value, to)
    before, after = ITEM_BYTES[source] if source != "bool" else 0, ITEM_BYTES[target]
    if before == after:
        return value
    if before > after:
        return b.trunc(value, to)
    return b.zext(value, to) if source in UNSIGNED else b.sext(value, to)
