"""Code generation where results of whole clusters would not show a fault."""

from __future__ import annotations

import ctypes
import itertools

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen.emit_llvm import I64, PTR
from tf_disc.compiler.codegen.host_program import DimEmitter
from tf_disc.compiler.ir.dims import FUNCTIONS, Dim
from tf_disc.compiler.ir.text import print_block
from tf_disc.compiler.pipeline import compile_cluster


def test_host_arithmetic_is_the_dims_own() -> None:
    """Each function of operands of either sign, 0 included: rounding to minus infinity, 0 by 0."""
    a, b = Dim.symbol("v0_0"), Dim.symbol("v0_1")
    dims = [Dim.call(f, a, b) for f in FUNCTIONS] + [a * b - a * 3 + 7, Dim.call("mod", a - b, b)]
    module = ir.Module("dims")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64, PTR]), "run")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emitter = DimEmitter(builder)
    emitter.symbols = {"v0_0": function.args[0], "v0_1": function.args[1]}
    for i, dim in enumerate(dims):
        at = builder.gep(function.args[2], [ir.Constant(I64, i)], source_etype=I64)
        builder.store(emitter(dim), at)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        engine.get_function_address("run")
    )
    found = (ctypes.c_int64 * len(dims))()
    for x, y in itertools.product(range(-7, 8), repeat=2):
        run(x, y, ctypes.addressof(found))
        assert list(found) == [d.evaluate({"v0_0": x, "v0_1": y}) for d in dims], (x, y)


def test_a_reduction_over_two_earlier_axes() -> None:
    w = ClusterWriter()
    x = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    total = w.node("Sum", w.tensor("x", x), w.constant([0, 1]), keep_dims=False)
    (found,) = Program(compile_cluster(w.cluster(total), target=host_target()))([x])
    np.testing.assert_array_equal(found, x.sum((0, 1)))


def test_what_is_costly_is_kept_for_the_next_phase() -> None:
    """A softmax computes each exponential once: the row buffer hands it to the division."""
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((4, 90), np.float32), [None, 90])
    (kernel,) = grouped(optimized(w.cluster(w.node("Softmax", x))))[2]
    assert print_block(kernel.body).count(" exp(") == 1
    assert str(kernel.scratch_bytes) == "384"


def test_what_is_cheap_is_computed_again() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((4, 90), np.float32), [None, 90])
    doubled = w.node("AddV2", x, x)
    total = w.node("Sum", doubled, w.constant([1]), keep_dims=True)
    (kernel,) = grouped(optimized(w.cluster(w.node("RealDiv", doubled, total))))[2]
    assert kernel.scratch_bytes == 0
