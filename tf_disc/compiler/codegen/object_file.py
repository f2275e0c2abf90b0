"""LLVM IR to a relocatable object, with the attributes that every function of ours carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm

from tf_disc.compiler.codegen.machine import machine_for

#: TensorFlow's threads run with denormals flushed, so folding must flush as well; no call to the C library may
#: be made up from loops ("no-builtins"), since an object has no linker; vectors are as wide as we write them.
ATTRIBUTES = (
    'nounwind "no-builtins" "denormal-fp-math"="preserve-sign,preserve-sign" "frame-pointer"="none"'
)
TRIPLE = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True)
class CompiledObject:
    """The object's bytes, and texts for the dump."""

    object: bytes
    optimized: str
    assembly: str


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def with_attributes(text: str, target: str) -> str:
    """Adds the function attributes to every definition of an LLVM module's text."""
    bits = machine_for(target).lanes * 32
    group = f'{ATTRIBUTES} "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    lines = []
    for line in text.splitlines():
        if line.startswith("define "):
            line = f"{line} #0"
        lines.append(line)
    return "\n".join(lines) + f"\nattributes #0 = {{ {group} }}\n"


def compile_object(text: str, target: str, features: str, *, texts: bool) -> CompiledObject:
    """Optimises and emits. `texts` asks for the optimised IR and the assembly too (for dumps)."""
    _initialize()
    module = llvm.parse_assembly(with_attributes(text, target))
    module.triple = TRIPLE
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target, features=features, opt=2, reloc="pic", codemodel="small"
    )
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # vectors are explicit
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    optimized = str(module) if texts else ""
    assembly = machine.emit_assembly(module) if texts else ""
    return CompiledObject(machine.emit_object(module), optimized, assembly)


def llvm_version() -> str:
    """LLVM's version as text."""
    return ".".join(str(v) for v in llvm.llvm_version_info)
