"""Matrix products of the oneDNN that tf_disc ships, through its C interface and ctypes.

The process must have OMP_NUM_THREADS=1 before the library is loaded: each product runs on its caller's thread.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARY = Path(__file__).resolve().parent.parent / "tf_disc" / "lib" / "libtf_disc_dnnl.so.3"

# Of dnnl_types.h.
_CPU, _IN_ORDER = 1, 1
#: Element types of a product's operands; its result is f32.
DTYPES = {"f32": 3, "bf16": 2}
_F32 = DTYPES["f32"]
_ANY, _ROWS = 1, 3
_QUERY_WEIGHTS = 131
_SOURCE, _DESTINATION, _WEIGHTS = 1, 17, 33
_ALLOCATE = ctypes.c_void_p(-1)


def load() -> Any:
    """The library."""
    return ctypes.CDLL(str(_LIBRARY))


class _Argument(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("memory", ctypes.c_void_p)]


class Product:
    """[rows, k] by a packed weight of [k, n], with memory of its own, ready to run."""

    def __init__(self, library: Any, rows: int, k: int, n: int, precision: str) -> None:
        self._library = library
        dtype = DTYPES[precision]
        engine = self._made("engine", _CPU, ctypes.c_size_t(0))
        self._stream = self._made("stream", engine, _IN_ORDER)
        source = self._description(rows, k, dtype, _ROWS)
        weights = self._description(k, n, dtype, _ANY)
        destination = self._description(rows, n, _F32, _ROWS)
        plan = ctypes.c_void_p()
        self._check(
            library.dnnl_matmul_primitive_desc_create(
                ctypes.byref(plan), engine, source, weights, None, destination, None
            )
        )
        self._primitive = self._made("primitive", plan)
        library.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        packed = ctypes.c_void_p(
            library.dnnl_primitive_desc_query_md(plan, _QUERY_WEIGHTS, ctypes.c_int(0))
        )
        memories = [
            (_SOURCE, self._memory(source, engine, dtype)),
            (_WEIGHTS, self._memory(packed, engine, dtype)),
            (_DESTINATION, self._memory(destination, engine, _F32)),
        ]
        self._arguments = (_Argument * 3)(*(_Argument(i, m.value) for i, m in memories))

    def run(self) -> None:
        self._check(
            self._library.dnnl_primitive_execute(self._primitive, self._stream, 3, self._arguments)
        )

    def _made(self, what: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        create = getattr(self._library, f"dnnl_{what}_create")
        self._check(create(ctypes.byref(handle), *arguments))
        return handle

    def _description(self, rows: int, columns: int, dtype: int, tag: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        dims = (ctypes.c_int64 * 2)(rows, columns)
        self._check(
            self._library.dnnl_memory_desc_create_with_tag(
                ctypes.byref(handle), 2, dims, dtype, tag
            )
        )
        return handle

    def _memory(self, description: ctypes.c_void_p, engine: Any, dtype: int) -> ctypes.c_void_p:
        """Memory of random numbers: zeros would be easier on the core than real work is."""
        memory = self._made("memory", description, engine, _ALLOCATE)
        size = ctypes.c_size_t
        self._library.dnnl_memory_desc_get_size.restype = size
        num_bytes = self._library.dnnl_memory_desc_get_size(description)
        values = np.random.default_rng(0).normal(size=num_bytes // 2).astype(np.float32)
        # The upper half of a float's bits is the number in BF16.
        short = dtype == DTYPES["bf16"]
        data = (values.view(np.uint32) >> 16).astype(np.uint16) if short else values
        place = ctypes.c_void_p()
        self._check(self._library.dnnl_memory_get_data_handle(memory, ctypes.byref(place)))
        ctypes.memmove(place, data.tobytes(), num_bytes)
        return memory

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"oneDNN answered with status {status}")
