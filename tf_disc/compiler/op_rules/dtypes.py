"""The sets of element types that rules take, by the names of docs/contracts.md."""

from __future__ import annotations

import struct

FLOATING = ("f32", "f64", "f16", "bf16")
SIGNED = ("i32", "i64", "i8", "i16")
INTEGRAL = (*SIGNED, "u8")
#: Types of indices, axes and sizes.
INDEX = ("i32", "i64")
NUMBERS = (*FLOATING, *INTEGRAL)
ANY = (*NUMBERS, "bool")


def single(value: float) -> float:
    """The f32 nearest to a number: what an attribute of an op holds."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
