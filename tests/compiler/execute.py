"""Runs an artifact without the C++ runtime: the ABI in ctypes, products in numpy, one thread.

What it proves is the compiler's side of the contract; the runtime's side has its own tests.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import functools
import itertools
import math
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from tf_disc.compiler.codegen import abi
from tf_disc.compiler.pipeline import Artifact

NUMPY = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
#: The element types of gemm_dense, by their numbers in the ABI.
PRODUCTS = {abi.DTYPE_NUMBERS[t]: NUMPY[t] for t in ("f32", "f64", "i32", "i64", "bf16")}
NAMES = {np.dtype(v): k for k, v in NUMPY.items()}

TASK = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64, c.c_int32)
PARALLEL_FOR = c.CFUNCTYPE(
    c.c_int32, c.c_void_p, c.c_int32, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64, c.c_int64
)
GEMM_PACKED = c.CFUNCTYPE(
    c.c_int32,
    c.c_void_p,
    c.c_int32,
    c.c_int32,
    c.c_int64,
    c.c_int64,
    c.c_int64,
    c.c_void_p,
    c.c_int64,
    c.c_void_p,
    c.c_int64,
)
GEMM_DENSE = c.CFUNCTYPE(
    c.c_int32, c.c_void_p, c.c_int32, c.c_int32, c.c_int32, c.c_int32, c.c_int64, c.c_int64, c.c_int64,
    c.c_void_p, c.c_int64, c.c_void_p, c.c_int64, c.c_void_p, c.c_int64,
)  # fmt: skip


class Imports(c.Structure):
    """disc_imports."""

    _fields_ = [
        ("abi_version", c.c_uint32), ("size_bytes", c.c_uint32), ("parallel_for", PARALLEL_FOR),
        ("gemm_packed", GEMM_PACKED), ("gemm_dense", GEMM_DENSE),
    ]  # fmt: skip


class Tensor(c.Structure):
    """disc_tensor."""

    _fields_ = [("data", c.c_void_p), ("dims", c.c_void_p)]


class Frame(c.Structure):
    """disc_frame."""

    _fields_ = [
        ("imports", c.c_void_p), ("run", c.c_void_p), ("inputs", c.c_void_p), ("outputs", c.c_void_p),
        ("output_dims", c.c_void_p), ("sizes", c.c_void_p), ("arena", c.c_void_p), ("scratch", c.c_void_p),
        ("scratch_stride", c.c_int64), ("arena_bytes", c.c_int64), ("scratch_bytes", c.c_int64),
        ("num_slots", c.c_int32), ("failed_guard", c.c_int32),
    ]  # fmt: skip


class GuardFailed(Exception):
    """A guard failed; holds the manifest's line, or says that an index was out of range."""


def _matrix(pointer: int, rows: int, columns: int, leading: int, dtype: Any = np.float32) -> Any:
    if rows <= 0 or columns <= 0:
        return np.zeros((max(rows, 0), max(columns, 0)), dtype)
    item = np.dtype(dtype).itemsize
    array = (c.c_byte * (item * ((rows - 1) * leading + columns))).from_address(pointer)
    flat = np.frombuffer(array, dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (item * leading, item))


class Program:
    """A loaded artifact; call it with arrays."""

    def __init__(self, artifact: Artifact, slots: int = 2) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.facts = [line.split() for line in artifact.manifest.splitlines()]
        self.guards = [line for line in artifact.manifest.splitlines() if line.startswith("guard ")]
        self.outputs = [(f[2], int(f[3])) for f in self.facts if f[0] == "output"]
        self.gemms = [dict(part.split("=") for part in f[2:]) for f in self.facts if f[0] == "gemm"]
        self.num_sizes = next(int(f[1]) for f in self.facts if f[0] == "sizes")
        self.slots = slots
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(artifact.object))
        self.engine.finalize_object()
        entry = c.CFUNCTYPE(c.c_int32, c.c_void_p)
        self.plan = entry(self.engine.get_function_address("disc_plan"))
        self.run = entry(self.engine.get_function_address("disc_run"))
        self.tasks_run: list[int] = []
        self.multiplications = 0  # of gemm_dense, in all calls
        self.run_ms = 0.0

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Raises GuardFailed; returns the outputs."""
        arrays = [np.ascontiguousarray(x) for x in inputs]
        shapes = [np.array(a.shape or (0,), np.int64) for a in arrays]
        tensors = (Tensor * max(len(arrays), 1))(
            *[Tensor(a.ctypes.data, s.ctypes.data) for a, s in zip(arrays, shapes, strict=True)]
        )
        frame = Frame(num_slots=self.slots, failed_guard=-1)

        @PARALLEL_FOR
        def parallel_for(
            at: int, task: int, fn: int, args: int, count: int, grain: int, cost: int
        ) -> int:
            assert grain >= 1 and cost >= 0 and count >= 0
            self.tasks_run.append(task)
            body = TASK(fn)
            step = max(grain, -(-count // (2 * self.slots) // grain) * grain, 1)
            for i, begin in enumerate(range(0, count, step)):
                status = body(at, args, begin, min(count, begin + step), i % self.slots)
                if status:
                    return int(status)
            return 0

        @GEMM_PACKED
        def gemm_packed(
            _: int, gemm: int, slot: int, rows: int, begin: int, end: int,
            a: int, lda: int, out: int, ldc: int,
        ) -> int:  # fmt: skip
            facts = self.gemms[gemm]
            weight = arrays[int(facts["weight"])]
            k, n = int(facts["k"]), int(facts["n"])
            kind = NUMPY[facts["packed"]]
            weight = weight.astype(kind).astype(np.float32)
            w = weight.reshape(n, k).T if facts["transpose"] == "1" else weight.reshape(k, n)
            assert 0 <= slot < self.slots
            assert begin % 64 == 0 and 0 <= begin <= end <= n
            with np.errstate(invalid="ignore"):
                left = _matrix(a, rows, k, lda, kind).astype(np.float32)
                _matrix(out, rows, end - begin, ldc)[:] = left @ w[:, begin:end]
            return 0

        @GEMM_DENSE
        def gemm_dense(
            _: int, dtype: int, slot: int, ta: int, tb: int, m: int, n: int, k: int,
            a: int, lda: int, b: int, ldb: int, out: int, ldc: int,
        ) -> int:  # fmt: skip
            assert dtype in PRODUCTS and 0 <= slot < self.slots
            kind = PRODUCTS[dtype]
            wide = np.float32 if kind is NUMPY["bf16"] else kind
            self.multiplications += m * n * k
            left = _matrix(a, k, m, lda, kind).T if ta else _matrix(a, m, k, lda, kind)
            right = _matrix(b, n, k, ldb, kind).T if tb else _matrix(b, k, n, ldb, kind)
            if m and n:
                with np.errstate(invalid="ignore"):
                    _matrix(out, m, n, ldc, wide)[:] = left.astype(wide) @ right.astype(wide)
            return 0

        table = Imports(abi.ABI_VERSION, c.sizeof(Imports), parallel_for, gemm_packed, gemm_dense)
        sizes = np.zeros(self.num_sizes + 1, np.int64)
        dims = np.full(sum(r for _, r in self.outputs) + 1, -7, np.int64)
        no_outputs = (c.c_void_p * max(len(self.outputs), 1))()
        frame.imports = c.addressof(table)
        frame.inputs = c.addressof(tensors)
        frame.outputs = c.addressof(no_outputs)
        frame.output_dims = dims.ctypes.data
        frame.sizes = sizes.ctypes.data
        self._check(self.plan(c.addressof(frame)), frame)
        results, position = [], 0
        fences: list[Any] = []
        for dtype, rank in self.outputs:
            shape = tuple(int(d) for d in dims[position : position + rank])
            position += rank
            results.append(_fenced(shape, NUMPY[dtype], fences))
        pointers = (c.c_void_p * max(len(results), 1))(*[r.ctypes.data for r in results])
        arena = np.full(frame.arena_bytes + 64, 0xAB, np.uint8)
        stride = (frame.scratch_bytes + 63) // 64 * 64
        scratch = np.full(stride * self.slots + 64, 0xCD, np.uint8)
        frame.outputs = c.addressof(pointers)
        frame.arena = (arena.ctypes.data + 63) // 64 * 64
        frame.scratch = (scratch.ctypes.data + 63) // 64 * 64
        frame.scratch_stride = stride
        started = time.perf_counter()
        with flushed_denormals():
            status = self.run(c.addressof(frame))
        self._check(status, frame)
        for fence in fences:
            assert (fence == FENCE).all(), "a kernel wrote beside an output"
        self.run_ms = (time.perf_counter() - started) * 1e3
        return results

    def _check(self, status: int, frame: Frame) -> None:
        if status == abi.GUARD_FAILED:
            at = frame.failed_guard
            raise GuardFailed(
                self.guards[at] if at >= 0 else "an element is outside of what the kernel computes"
            )
        assert status == abi.OK, status


#: What the bytes on both sides of an output hold.
FENCE = 0xEE


def _fenced(shape: tuple[int, ...], dtype: Any, fences: list[Any]) -> Any:
    """An output where a cache line begins, with at least 64 bytes on either side that no kernel may write."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.full(size + 192, FENCE, np.uint8)
    first = 64 + -raw.ctypes.data % 64
    fences += [raw[:first], raw[first + size :]]
    output = raw[first : first + size].view(dtype).reshape(shape)
    output[...] = np.array(77).astype(dtype)
    return output


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """As TensorFlow's threads and the runtime's have it: denormal operands and results are zero (MXCSR's DAZ and FTZ)."""
    before = c.c_uint32()
    _control().store(c.byref(before))
    flushed = c.c_uint32(before.value | 0x8040)
    _control().load(c.byref(flushed))
    try:
        yield
    finally:
        _control().load(c.byref(before))


@functools.cache
def _control() -> Any:
    """Functions that store and load MXCSR, which Python has no other way to reach."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    text = "".join(
        f"declare void @llvm.x86.sse.{op}mxcsr(ptr)\n"
        f"define void @{name}(ptr %p) {{\n  call void @llvm.x86.sse.{op}mxcsr(ptr %p)\n  ret void\n}}\n"
        for name, op in (("load", "ld"), ("store", "st"))
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    entry = c.CFUNCTYPE(None, c.c_void_p)
    functions = {n: entry(engine.get_function_address(n)) for n in ("load", "store")}
    return types.SimpleNamespace(engine=engine, **functions)


def _runs_here(features: Mapping[str, bool]) -> tuple[str, ...]:
    """The targets that a CPU of these features runs, the narrowest first."""
    needed = {
        "x86-64-v2": ("sse4.2", "ssse3", "popcnt", "cx16"),
        "x86-64-v3": ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"),
        "x86-64-v4": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    }
    known = itertools.takewhile(lambda t: all(features.get(f) for f in needed[t]), sorted(needed))
    return tuple(known)


#: What this CPU runs, the narrowest first.
TARGETS = _runs_here(llvm.get_host_cpu_features())


#: bf16's instructions are extensions of this level: LLVM takes one for all of it.
RUNS_BF16 = TARGETS[-1] == "x86-64-v4"


def host_target() -> str:
    """The widest target that this CPU runs."""
    return TARGETS[-1]


def cluster_input(
    name: str,
    array: Any,
    kind: str = "tensor",
    known: Sequence[int | None] | None = None,
    fixed_length: bool = False,
) -> Mapping[str, Any]:
    """One input of a cluster file, with the sizes (and small integer values) of an array."""
    array = np.asarray(array)
    fixed = kind in ("weight", "const")
    item: dict[str, Any] = {
        "name": name,
        "dtype": NAMES[array.dtype],
        "kind": kind,
        "dims": list(array.shape)
        if fixed
        else list(known)
        if known is not None
        else [None] * array.ndim,
        "sizes": list(array.shape),
    }
    if kind == "const":
        item["value"] = array.ravel().tolist()
    elif (
        (array.ndim <= 1 or fixed_length)
        and array.dtype in (np.int32, np.int64)
        and array.size <= 64
    ):
        item["values"] = array.ravel().tolist()
    return item
