"""The kernel ABI (cc/abi/kernel_abi.h) as offsets and numbers. A test holds this page against the library's."""

from __future__ import annotations

ABI_VERSION = 3

OK, GUARD_FAILED, LIBRARY_FAILED = 0, 1, 2

DTYPE_NUMBERS = {
    "f32": 1, "f64": 2, "i32": 3, "i64": 4, "bool": 5, "i8": 6, "u8": 7, "i16": 8, "f16": 9, "bf16": 10,
}  # fmt: skip

#: Byte offsets of the fields of disc_frame.
FRAME = {
    "imports": 0, "run": 8, "inputs": 16, "outputs": 24, "output_dims": 32, "sizes": 40, "arena": 48,
    "scratch": 56, "scratch_stride": 64, "arena_bytes": 72, "scratch_bytes": 80, "num_slots": 88,
    "failed_guard": 92,
}  # fmt: skip
FRAME_BYTES = 96

#: Byte offsets of the fields of disc_imports.
IMPORTS = {
    "abi_version": 0,
    "size_bytes": 4,
    "parallel_for": 8,
    "gemm_packed": 16,
    "gemm_dense": 24,
}
IMPORTS_BYTES = 32

#: Byte offsets of the fields of disc_tensor.
TENSOR = {"data": 0, "dims": 8}
TENSOR_BYTES = 16
