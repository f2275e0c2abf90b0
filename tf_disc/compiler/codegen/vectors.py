"""Constants, types and intrinsics for a scalar or a vector of it alike."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tf_disc.compiler.codegen.mathlib.lanes import SplatConstant

#: Takes a condition, one a lane. Where it is false the call is TensorFlow's.
Must = Callable[[ir.Value], None]

_SUFFIX = {"float": "f32", "double": "f64"}


def element_of(type_: ir.Type) -> ir.Type:
    """The type of one lane."""
    return type_.element if isinstance(type_, ir.VectorType) else type_


def with_element(like: ir.Type, element: ir.Type) -> ir.Type:
    """As many lanes of another element."""
    return ir.VectorType(element, like.count) if isinstance(like, ir.VectorType) else element


def constant(type_: ir.Type, value: float) -> ir.Constant:
    """One number in every lane."""
    scalar = ir.Constant(element_of(type_), value)
    return SplatConstant(type_, scalar) if isinstance(type_, ir.VectorType) else scalar


def intrinsic(b: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """Calls an LLVM intrinsic of which all operands and the result have one type."""
    type_ = args[0].type
    suffix = _SUFFIX.get(str(element_of(type_)), str(element_of(type_)))
    lanes = f"v{type_.count}" if isinstance(type_, ir.VectorType) else ""
    full = f"{name}.{lanes}{suffix}"
    callee = b.module.globals.get(full)
    if callee is None:
        callee = ir.Function(b.module, ir.FunctionType(type_, [type_] * len(args)), full)
    return b.call(callee, args)


def opaque(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The value, of which the optimizer knows nothing any more.

    LLVM 22 turns a masked store of narrowed elements into a store of one whole wide element where it sees that
    the mask is one lane: the two bytes of a bf16 become four, past the end of the buffer.
    """
    type_ = ir.FunctionType(value.type, [value.type])
    return b.asm(type_, "", "=r,0", [value], side_effect=False)
