"""What code may use on each target, and the LLVM module that carries the choice to whoever emits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from tf_disc.compiler.errors import InternalError, UnsupportedError


@dataclass(frozen=True)
class Machine:
    """A level of the x86-64 ABI, by what the emitters ask about.

    lanes: f32 in a vector. fused: fused multiply-add. halves: conversions of f16. permutes: tables of 32 floats
    in registers, and scaling by powers of two (AVX-512). short_products: products of bf16 summed in f32
    (AVX512-BF16). tile_products: such products in tiles of registers (AMX).
    """

    target: str
    lanes: int
    fused: bool
    halves: bool
    permutes: bool
    short_products: bool = False
    tile_products: bool = False


MACHINES = {
    machine.target: machine
    for machine in (
        Machine("x86-64-v2", 4, fused=False, halves=False, permutes=False),
        Machine("x86-64-v3", 8, fused=True, halves=True, permutes=False),
        Machine("x86-64-v4", 16, fused=True, halves=True, permutes=True),
    )
}


class MachineModule(ir.Module):
    """A module whose code is for one machine."""

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name)
        self.machine = machine


def machine_for(target: str, features: str = "") -> Machine:
    """features: LLVM's text of what the CPU has besides. Raises UnsupportedError for a CPU below SSE4.2."""
    if target not in MACHINES:
        raise UnsupportedError(
            f'no code is generated for CPU "{target}" (x86-64-v2 is the least); everything stays with TensorFlow'
        )
    given = features.split(",")
    return replace(
        MACHINES[target],
        short_products="+avx512bf16" in given,
        tile_products="+amx-bf16" in given,
    )


def machine_of(builder: ir.IRBuilder) -> Machine:
    """The machine that the builder's module is for."""
    module = builder.module
    if not isinstance(module, MachineModule):
        raise InternalError("a module for no machine")
    return module.machine
