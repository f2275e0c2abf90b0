"""The compiler's mirror of the kernel ABI against what the C++ compiler made of kernel_abi.h."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import tensorflow as tf

import tf_disc
from tf_disc.compiler.codegen import abi


@pytest.fixture(scope="module")
def layout() -> dict[str, int]:
    """`disc_abi_layout()` as {"disc_frame_t.run offset": 8, "DISC_OK value": 0, ...}."""
    path = str(Path(tf_disc.__file__).parent / "lib" / "libtf_disc.so")
    # By TensorFlow first: of a library that is already open it registers no ops, and other tests
    # in this process need them.
    tf.load_op_library(path)
    report = ctypes.CDLL(path).disc_abi_layout
    report.restype = ctypes.c_char_p
    facts = (line.rsplit(" ", 1) for line in report().decode().splitlines())
    return {what: int(number) for what, number in facts}


def test_every_fact_has_its_mirror(layout: dict[str, int]):
    statuses = {
        "OK": abi.OK,
        "GUARD_FAILED": abi.GUARD_FAILED,
        "LIBRARY_FAILED": abi.LIBRARY_FAILED,
    }
    numbers = {name.upper(): number for name, number in abi.DTYPE_NUMBERS.items()}
    mirror = {"version": abi.ABI_VERSION}
    mirror |= {f"DISC_{name} value": value for name, value in (statuses | numbers).items()}
    for struct, fields, size in (
        ("disc_frame_t", abi.FRAME, abi.FRAME_BYTES),
        ("disc_imports_t", abi.IMPORTS, abi.IMPORTS_BYTES),
        ("disc_tensor_t", abi.TENSOR, abi.TENSOR_BYTES),
    ):
        mirror[f"{struct} size"] = size
        mirror |= {f"{struct}.{field} offset": offset for field, offset in fields.items()}
    assert mirror == layout
