"""What `emit` promises about the code: straight lines, no call but intrinsics, no fast math."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from tests.compiler.mathlib.compiled import SCALARS, Kernel
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.machine import MACHINES, MachineModule

CASES = [
    (name, dtype, lanes, target)
    for name, record in mathlib.FUNCTIONS.items()
    for dtype in record.max_ulp
    for target, machine in MACHINES.items()
    for lanes in sorted({1, machine.lanes})
]


def builder_and_operands(
    kind: ir.Type, count: int, target: str = "x86-64-v3"
) -> tuple[ir.IRBuilder, list[ir.Value]]:
    module = MachineModule("calls", MACHINES[target])
    function = ir.Function(module, ir.FunctionType(kind, [kind] * count), "f")
    return ir.IRBuilder(function.append_basic_block()), list(function.args)


@pytest.mark.parametrize(("name", "dtype", "lanes", "target"), CASES)
def test_straight_line_of_the_same_type(name: str, dtype: str, lanes: int, target: str) -> None:
    kind = SCALARS[dtype] if lanes == 1 else ir.VectorType(SCALARS[dtype], lanes)
    builder, operands = builder_and_operands(kind, mathlib.FUNCTIONS[name].arity, target)
    block = builder.block
    value = mathlib.emit(builder, name, *operands)
    assert value.type == kind
    assert builder.block is block
    assert len(builder.function.blocks) == 1
    text = str(builder.module)
    assert not re.search(r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)\b", text)


@pytest.mark.parametrize(("name", "dtype", "lanes", "target"), CASES)
def test_no_call_leaves_the_kernel(name: str, dtype: str, lanes: int, target: str) -> None:
    assembly = Kernel(name, dtype, lanes, target).assembly
    assert not re.search(r"^\tcall", assembly, re.MULTILINE)


def test_unknown_function_lists_the_known_ones() -> None:
    builder, operands = builder_and_operands(ir.FloatType(), 1)
    with pytest.raises(KeyError, match=r"no function 'zeta'; it has .*exp, expm1, lgamma, log"):
        mathlib.emit(builder, "zeta", *operands)


def test_unsupported_type_is_named() -> None:
    builder, operands = builder_and_operands(ir.VectorType(ir.HalfType(), 8), 1)
    with pytest.raises(KeyError, match=r"exp is there for f32.* only, not for <8 x half>"):
        mathlib.emit(builder, "exp", *operands)


def test_wrong_operands() -> None:
    builder, operands = builder_and_operands(ir.FloatType(), 2)
    with pytest.raises(TypeError, match=r"exp takes 1 operands of one type, not \(float, float\)"):
        mathlib.emit(builder, "exp", *operands)
