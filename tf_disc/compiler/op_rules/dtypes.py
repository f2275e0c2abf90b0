"""The sets of element types that rules take, by the names of docs/contracts.md."""

from __future__ import annotations

FLOATING = ("f32", "f64")
INTEGRAL = ("i32", "i64")
#: Types of indices, axes and sizes.
INDEX = ("i32", "i64")
NUMBERS = (*FLOATING, *INTEGRAL)
ANY = (*NUMBERS, "bool")
