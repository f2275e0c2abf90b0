"""Cycles an element, in L1: `python -m tests.compiler.mathlib.speed` (all), or with names.

Prints the lower quartile of rounds in which functions take turns, and puts it into measured.json.
A cycle is an addition in a chain of them, timed beside each measurement.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from tests.compiler.execute import TARGETS
from tests.compiler.mathlib.compiled import Kernel, kernel
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.mathlib.measured import PATH, Measured, read

ELEMENTS, TIMES, ROUNDS = 2048, 64, 31
CHAIN, CHAINS = 16, 4000
NAMES = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "softplus",
    "sin",
    "cos",
    "pow",
    "rsqrt",
    "sqrt",
]


def _chain() -> tuple[Callable[[int], None], object]:
    """Additions that wait for each other, and what must live as long as it is called."""
    llvm.initialize_native_asmparser()
    additions = "; ".join(["add $$1, %rax"] * CHAIN)
    module = llvm.parse_assembly(
        "define void @chain(i64 %n) {\nentry:\n  br label %loop\n"
        "loop:\n  %i = phi i64 [0, %entry], [%next, %loop]\n"
        f'  call void asm sideeffect "{additions}", "~{{rax}},~{{flags}}"()\n'
        "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %n\n"
        "  br i1 %more, label %loop, label %done\ndone:\n  ret void\n}\n"
    )
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    entry = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("chain"))
    return entry, engine


def _arrays(function: Kernel, *, positive: bool) -> list[np.ndarray]:
    """Operands and the result, each from a cache line on, none a multiple of 4 KB from another: loads
    would wait for stores of like addresses."""
    stride = ELEMENTS * 4 + 1088
    space = np.zeros((function.arity + 1) * stride + 64, np.uint8)
    begin = -space.ctypes.data % 64
    arrays = [
        space[begin + i * stride :][: ELEMENTS * 4].view(np.float32)
        for i in range(function.arity + 1)
    ]
    for array in arrays[:-1]:
        array[:] = np.random.default_rng(0).normal(0.0, 2.0, ELEMENTS)
        if positive:
            np.exp(array, out=array)
    return arrays


def measure(names: list[str]) -> dict[tuple[str, str], float]:
    """Cycles an element by function and target."""
    chain, _engine = _chain()
    cases = {(name, target): kernel(name, "f32", target=target) for name in names for target in TARGETS}  # fmt: skip
    positive = ("log", "pow", "rsqrt", "sqrt")
    arrays = {key: _arrays(k, positive=key[0] in positive) for key, k in cases.items()}
    found: dict[tuple[str, str], list[float]] = {key: [] for key in cases}
    for _ in range(ROUNDS):
        for key, function in cases.items():
            begin = time.perf_counter()
            chain(CHAINS)
            middle = time.perf_counter()
            function.repeat(TIMES, *arrays[key])
            end = time.perf_counter()
            chain(CHAINS)
            cycle = (middle - begin + time.perf_counter() - end) / (2 * CHAIN * CHAINS)
            found[key].append((end - middle) / cycle / (ELEMENTS * TIMES))
    return {key: float(np.quantile(times, 0.25)) for key, times in found.items()}


def main(names: list[str]) -> None:
    found = measure(names or NAMES)
    measured = read()
    for (name, target), cycles in found.items():
        print(f"{name:9} {target} {cycles:6.2f}")
        of_name = measured.setdefault(name, {})
        of_name[target] = of_name.get(target, Measured()).with_cycles(round(cycles, 2))
    text = {n: {t: m.fields() for t, m in by.items()} for n, by in measured.items()}
    PATH.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name in mathlib.FUNCTIONS])
