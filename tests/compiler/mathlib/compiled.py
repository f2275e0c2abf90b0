"""Compiles one function of mathlib into a loop over arrays, for this machine."""

from __future__ import annotations

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tests.compiler.execute import TARGETS
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.machine import MACHINES, Machine, MachineModule

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

SCALARS = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
DTYPES = {"f32": np.float32, "f64": np.float64}


class Kernel:
    """The function `name` of `arity` operands, `lanes` at a time; calls flush and ignore denormals.

    `target` is one of codegen/machine.py. The loop sets MXCSR as TensorFlow does in its threads (0x9fc0) and puts it back.
    """

    def __init__(self, name: str, dtype: str, lanes: int, target: str) -> None:
        self.dtype = DTYPES[dtype]
        self.lanes = lanes
        self.arity = mathlib.FUNCTIONS[name].arity
        self._machine = llvm.Target.from_default_triple().create_target_machine(cpu=target, opt=3)
        self.text = _loop(name, SCALARS[dtype], lanes, self.arity, MACHINES[target])
        module = llvm.parse_assembly(self.text)
        module.triple = llvm.get_default_triple()
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        self.optimized = str(module)
        self.assembly = self._machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, self._machine)
        self._engine.finalize_object()
        pointers = [ctypes.c_void_p] * (self.arity + 1)
        signature = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)
        self._function = signature(self._engine.get_function_address("loop"))

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        """Of one-dimensional arrays of one length and this kernel's dtype; returns such a one."""
        size = operands[0].size
        blocks = -(-max(size, 1) // self.lanes)
        padded = [np.zeros(blocks * self.lanes, self.dtype) for _ in operands]
        for to, source in zip(padded, operands):
            to[:size] = source
        result = np.empty_like(padded[0])
        self._function(*[array.ctypes.data for array in [*padded, result]], blocks, -1)
        return result[:size]

    def repeat(self, times: int, *arrays: np.ndarray) -> None:
        """`times` times over operands and a result of one power of two of elements."""
        blocks = arrays[0].size // self.lanes
        self._function(*[array.ctypes.data for array in arrays], blocks * times, blocks - 1)


def _loop(name: str, scalar: ir.Type, lanes: int, arity: int, machine: Machine) -> str:
    kind = scalar if lanes == 1 else ir.VectorType(scalar, lanes)
    module = MachineModule("loop", machine)
    int64, int32 = ir.IntType(64), ir.IntType(32)
    pointer = kind.as_pointer()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [pointer] * (arity + 1) + [int64] * 2), "loop"
    )
    control = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    load_control = ir.Function(module, control, "llvm.x86.sse.ldmxcsr")
    store_control = ir.Function(module, control, "llvm.x86.sse.stmxcsr")
    entry, body, done = (function.append_basic_block(n) for n in ("entry", "body", "done"))
    builder = ir.IRBuilder(entry)
    saved, flushing = builder.alloca(int32), builder.alloca(int32)
    as_bytes = ir.IntType(8).as_pointer()
    builder.call(store_control, [builder.bitcast(saved, as_bytes)])
    builder.store(ir.Constant(int32, 0x9FC0), flushing)
    builder.call(load_control, [builder.bitcast(flushing, as_bytes)])
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(int64)
    index.add_incoming(ir.Constant(int64, 0), entry)
    place = builder.and_(index, function.args[arity + 2])
    args = [builder.load(builder.gep(arg, [place]), align=4) for arg in function.args[:arity]]
    value = mathlib.emit(builder, name, *args)
    builder.store(value, builder.gep(function.args[arity], [place]), align=4)
    following = builder.add(index, ir.Constant(int64, 1))
    index.add_incoming(following, body)
    again = builder.icmp_signed("<", following, function.args[arity + 1])
    builder.cbranch(again, body, done)
    builder.position_at_end(done)
    builder.call(load_control, [builder.bitcast(saved, as_bytes)])
    builder.ret_void()
    return str(module)


#: Each target with the widths that must give the same bits as its own; tails and scalars use them.
WIDTHS = [
    (target, lanes) for target in TARGETS for lanes in (1, 4, 8) if lanes < MACHINES[target].lanes
]


@functools.cache
def kernel(name: str, dtype: str, lanes: int = 0, target: str = TARGETS[-1]) -> Kernel:
    """The function over arrays; by default on the widest vectors that the target has."""
    return Kernel(name, dtype, lanes or MACHINES[target].lanes, target)
