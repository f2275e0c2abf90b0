"""Operations on one vector type (or its scalar): what the math functions are written in.

A thin layer over `ir.IRBuilder`: constants are splat to the width, comparisons are named after how
they treat NaN, and nothing here makes a basic block. No instruction carries a fast-math flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen.machine import machine_of


class SplatConstant(ir.Constant):
    """One scalar in every lane, in LLVM's short form; llvmlite's own constant prints each lane."""

    def __init__(self, kind: ir.VectorType, scalar: ir.Constant) -> None:
        super().__init__(kind, [scalar] * kind.count)
        self._text = f"splat ({scalar})"

    def _get_reference(self) -> str:
        return self._text


@dataclass(frozen=True)
class Format:
    """An IEEE type. round_to_integer + x has round(x) in its low bits; names in _bits are patterns.

    own_result: below it, a function with f(x) = x + O(x^2) at 0 is x to within half a unit.
    """

    name: str
    mantissa: int
    bias: int
    round_to_integer: float
    own_result: float
    exponent_mask: int
    two_thirds_bits: int
    four_bits: int

    @property
    def sign_bit(self) -> int:
        return 0x80000000 if self.mantissa == 23 else 0x8000000000000000

    @property
    def normal_bits(self) -> tuple[int, int]:
        """The patterns of the smallest normal number and of inf."""
        return 1 << self.mantissa, (2 * self.bias + 1) << self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


SINGLE = Format("f32", 23, 127, 1.5 * 2.0**23, 2.0**-25, 0xFF800000, 0x3F2AAAAB, 0x40800000)
DOUBLE = Format(
    "f64",
    52,
    1023,
    1.5 * 2.0**52,
    2.0**-54,
    0xFFF0000000000000,
    0x3FE5555555555555,
    0x4010000000000000,
)


class Lanes:
    """Emits operations on `kind` (f32 or f64, scalar or vector) at the position of `builder`.

    Every method takes and returns values of that type, or of the integer type of equal width and
    equal lane count (names that end in `_int`), or masks (`i1` lanes).
    """

    def __init__(self, builder: ir.IRBuilder, kind: ir.Type) -> None:
        self.builder = builder
        self.machine = machine_of(builder)
        self.kind = kind
        self.width = kind.count if isinstance(kind, ir.VectorType) else 1
        self.element = kind.element if isinstance(kind, ir.VectorType) else kind
        self.is_double = isinstance(self.element, ir.DoubleType)
        self.format = DOUBLE if self.is_double else SINGLE
        self.int_element = ir.IntType(64 if self.is_double else 32)
        self.int_kind = self._of(self.int_element)

    # Constants and types.

    def _of(self, element: ir.Type) -> ir.Type:
        """The type of as many lanes of another element."""
        if isinstance(self.kind, ir.VectorType):
            return ir.VectorType(element, self.width)
        return element

    def _splat(self, kind: ir.Type, scalar: ir.Constant) -> ir.Constant:
        if not isinstance(kind, ir.VectorType):
            return scalar
        return SplatConstant(kind, scalar)

    def const(self, number: float) -> ir.Constant:
        return self._splat(self.kind, ir.Constant(self.element, number))

    def const_int(self, number: int) -> ir.Constant:
        bits = self.int_element.width
        wrapped = (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return self._splat(self.int_kind, ir.Constant(self.int_element, wrapped))

    def _call(self, name: str, *args: ir.Value) -> ir.Value:
        """Calls the LLVM intrinsic `name` on this type; llvmlite cannot mangle vector types."""
        count = f"v{self.width}" if isinstance(self.kind, ir.VectorType) else ""
        full_name = f"{name}.{count}{self.format.name}"
        module = self.builder.module
        callee = module.globals.get(full_name)
        if callee is None:
            callee = ir.Function(
                module, ir.FunctionType(self.kind, [self.kind] * len(args)), full_name
            )
        return self.builder.call(callee, args)

    # AVX-512, for vectors of its 16 floats.

    def _declared(self, name: str, type_: ir.FunctionType) -> ir.Function:
        found = self.builder.module.globals.get(name)
        return found if found is not None else ir.Function(self.builder.module, type_, name)

    def lookup(self, table: Sequence[float], index: ir.Value) -> ir.Value:
        """table[index % 16], of 16 numbers, which are held in a register (vpermps)."""
        function = self._declared(
            "llvm.x86.avx512.permvar.sf.512", ir.FunctionType(self.kind, [self.kind, self.int_kind])
        )
        numbers = [ir.Constant(self.element, number) for number in table]
        return self.builder.call(function, [ir.Constant(self.kind, numbers), index])

    def _masked(self, name: str, *args: ir.Value) -> ir.Value:
        """An AVX-512 intrinsic of all lanes, rounding as MXCSR says."""
        args = (*args, ir.Constant(ir.IntType(16), -1), ir.Constant(ir.IntType(32), 4))
        type_ = ir.FunctionType(self.kind, [arg.type for arg in args])
        return self.builder.call(self._declared(f"llvm.x86.avx512.mask.{name}.ps.512", type_), args)

    def exponent(self, a: ir.Value) -> ir.Value:
        """floor(log2(|a|)) of a normal number."""
        return self._masked("getexp", a, a)

    def mantissa(self, a: ir.Value) -> ir.Value:
        """|a| over a power of two, in [3/4, 3/2)."""
        return self._masked("getmant", a, ir.Constant(ir.IntType(32), 0b0111), a)

    def repaired(self, value: ir.Value, x: ir.Value, **tokens: int) -> ir.Value:
        """`value`, but where x is of a kind that `tokens` names what its token stands for (vfixupimmps)."""
        kinds = ("quiet", "signalling", "zero", "one", "minus_inf", "inf", "negative", "positive")
        table = sum(token << 4 * kinds.index(kind) for kind, token in tokens.items())
        nothing = ir.Constant(ir.IntType(32), 0)
        return self._masked("fixupimm", value, x, self.const_int(table), nothing)

    # As many lanes of double.

    def doubles(self) -> Lanes:
        return Lanes(self.builder, self._of(ir.DoubleType()))

    def extend(self, a: ir.Value) -> ir.Value:
        return self.builder.fpext(a, self._of(ir.DoubleType()))

    def truncate(self, a: ir.Value) -> ir.Value:
        """Double lanes rounded to this type."""
        return self.builder.fptrunc(a, self.kind)

    def low_bits(self, a: ir.Value) -> ir.Value:
        """The low half of the bits of double lanes, as integers of this type's width."""
        return self.builder.trunc(self.doubles().bits(a), self.int_kind)

    # Arithmetic, each rounded once.

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fmul(a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fdiv(a, b)

    def neg(self, a: ir.Value) -> ir.Value:
        return self.builder.fneg(a)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, rounded once where the machine has an instruction for it; the C library's
        function, which LLVM would call elsewhere, is out of reach."""
        if self.machine.fused:
            return self._call("llvm.fma", a, b, c)
        return self.add(self.mul(a, b), c)

    def exact_fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c as if rounded once, on every machine: what it gives is exact if there is a number
        for it. In double without the instruction |a|, |b| and |a * b| are below 2^996, and an error
        of the product below 2^-1022 is lost.
        """
        if self.machine.fused:
            return self.fma(a, b, c)
        if not self.is_double:
            wide = self.doubles()
            product = wide.mul(self.extend(a), self.extend(b))  # exact
            return self.truncate(wide.add(product, self.extend(c)))
        product = self.mul(a, b)
        # What the product lost (Dekker 1971), and the sum (Knuth 1997, 4.2.2 B).
        (a_high, a_low), (b_high, b_low) = self._halves(a), self._halves(b)
        lost = self.sub(self.mul(a_high, b_high), product)
        lost = self.add(self.add(lost, self.mul(a_high, b_low)), self.mul(a_low, b_high))
        lost = self.add(lost, self.mul(a_low, b_low))
        total = self.add(product, c)
        taken = self.sub(total, product)
        rest = self.add(self.sub(product, self.sub(total, taken)), self.sub(c, taken))
        return self.add(total, self.add(rest, lost))

    def _halves(self, a: ir.Value) -> tuple[ir.Value, ir.Value]:
        """a double as the sum of two of 26 bits each."""
        rounded = self.add_int(self.bits(a), self.const_int(1 << 26))
        high = self.from_bits(self.and_int(rounded, -(1 << 27)))
        return high, self.sub(a, high)

    def abs(self, a: ir.Value) -> ir.Value:
        return self._call("llvm.fabs", a)

    def floor(self, a: ir.Value) -> ir.Value:
        return self._call("llvm.floor", a)

    def sqrt(self, a: ir.Value) -> ir.Value:
        return self._call("llvm.sqrt", a)

    def copysign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        return self._call("llvm.copysign", magnitude, sign)

    def horner(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """The polynomial with `coefficients` from the constant upward, at x, by fma."""
        total: ir.Value = self.const(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.const(coefficient))
        return total

    # Comparison and choice.

    def less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a < b; false where either is NaN."""
        return self.builder.fcmp_ordered("<", a, b)

    def equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fcmp_ordered("==", a, b)

    def not_equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a != b; true where either is NaN."""
        return self.builder.fcmp_unordered("!=", a, b)

    def unordered(self, a: ir.Value) -> ir.Value:
        """Whether a is NaN."""
        return self.builder.fcmp_unordered("uno", a, a)

    def not_less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """not (a < b); true where either is NaN."""
        return self.builder.fcmp_unordered(">=", a, b)

    def select_int(self, mask: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
        return self.builder.select(mask, then, otherwise)

    def select(self, mask: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
        return self.builder.select(mask, then, otherwise)

    def at_least(self, a: ir.Value, bound: float) -> ir.Value:
        """max(a, bound); NaN stays NaN. One x86 max: it returns its second operand for NaN."""
        limit = self.const(bound)
        return self.select(self.builder.fcmp_ordered(">", limit, a), limit, a)

    def at_most(self, a: ir.Value, bound: float) -> ir.Value:
        """min(a, bound); NaN stays NaN."""
        limit = self.const(bound)
        return self.select(self.builder.fcmp_ordered("<", limit, a), limit, a)

    # Bits.

    def bits(self, a: ir.Value) -> ir.Value:
        return self.builder.bitcast(a, self.int_kind)

    def from_bits(self, a: ir.Value) -> ir.Value:
        return self.builder.bitcast(a, self.kind)

    def add_int(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.add(a, b)

    def sub_int(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.sub(a, b)

    def and_int(self, a: ir.Value, mask: int) -> ir.Value:
        return self.builder.and_(a, self.const_int(mask))

    def equal_int(self, a: ir.Value, number: int) -> ir.Value:
        return self.builder.icmp_signed("==", a, self.const_int(number))

    def shift_right(self, a: ir.Value, count: int) -> ir.Value:
        return self.builder.lshr(a, self.const_int(count))

    def not_below_unsigned(self, a: ir.Value, number: int) -> ir.Value:
        return self.builder.icmp_unsigned(">=", a, self.const_int(number))

    def both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The masks' conjunction."""
        return self.builder.and_(a, b)

    def either(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.or_(a, b)

    def xor_int(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.xor(a, b)

    def shift_left(self, a: ir.Value, count: int) -> ir.Value:
        return self.builder.shl(a, self.const_int(count))

    def to_exponent(self, a: ir.Value) -> ir.Value:
        """The low bits of a's pattern, moved to the exponent's place of an integer."""
        return self.shift_left(self.bits(a), self.format.mantissa)

    def exponent_to_float(self, shifted: ir.Value) -> ir.Value:
        """n of this type, from n in the exponent's place of an integer."""
        if not self.is_double:
            n = self.builder.ashr(shifted, self.const_int(self.format.mantissa))
            return self.builder.sitofp(n, self.kind)
        # AVX2 has neither a signed shift nor a conversion of 64-bit integers. n + 1023 is positive,
        # and below the exponent of 2^52 it is that many units.
        biased = self.add_int(shifted, self.const_int(self.format.bias << 52))
        units = self.builder.lshr(biased, self.const_int(52))
        offset = self.from_bits(self.builder.or_(units, self.const_int(0x433 << 52)))
        return self.sub(offset, self.const(2.0**52 + self.format.bias))

    def integer_to_double(self, shifted: ir.Value) -> ir.Value:
        """n as double lanes, from n in the exponent's place of a 32-bit integer."""
        n = self.builder.ashr(shifted, self.const_int(self.format.mantissa))
        return self.builder.sitofp(n, self._of(ir.DoubleType()))
