"""Element types and tensor types."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tf_disc.compiler.ir.dims import Dim, DimLike, as_dim, parse_dim, product

#: Bytes of one element. The names are those of docs/contracts.md.
ITEM_BYTES: dict[str, int] = {
    "f32": 4, "f64": 8, "i32": 4, "i64": 8, "bool": 1, "i8": 1, "u8": 1, "i16": 2, "f16": 2, "bf16": 2,
}  # fmt: skip

#: Floats of 16 bits are computed in f32 and rounded after each op, as TensorFlow does it.
SHORT_FLOATS = ("f16", "bf16")
FLOATS = ("f32", "f64", *SHORT_FLOATS)
INTEGERS = ("i32", "i64", "i8", "u8", "i16")
UNSIGNED = ("u8", "bool")


def limits(dtype: str) -> tuple[int, int]:
    """The lowest and the highest number of an integer type."""
    bits = 8 * ITEM_BYTES[dtype]
    return (
        (0, (1 << bits) - 1) if dtype in UNSIGNED else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    )


def wrapped(value: int, dtype: str) -> int:
    """An integer as its type holds it: wrapped, as the CPU wraps."""
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def short_bits(value: float, dtype: str) -> int:
    """The 16 bits of a number rounded to f16 or bf16 (ties to even; beyond the range, infinity)."""
    if dtype == "f16":
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def rounded(value: float, dtype: str) -> float:
    """A Python number as a float type holds it; of f32 and f64 the target rounds."""
    if dtype not in SHORT_FLOATS:
        return value
    bits = short_bits(value, dtype)
    if dtype == "f16":
        return float(struct.unpack("<e", bits.to_bytes(2, "little"))[0])
    return float(struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0])


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and sizes; the rank is ``len(dims)``. Row-major and dense."""

    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def num_elements(self) -> Dim:
        return product(self.dims)

    @property
    def num_bytes(self) -> Dim:
        return self.num_elements * ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(d) for d in self.dims)}]"


@dataclass(frozen=True, slots=True)
class LoopType:
    """The type of a value inside a kernel: one scalar, or one for each lane."""

    dtype: str
    lanes: bool = False

    def __str__(self) -> str:
        return f"v.{self.dtype}" if self.lanes else self.dtype


Type = TensorType | LoopType


def tensor(dtype: str, dims: Sequence[DimLike]) -> TensorType:
    """A tensor type of ints and dims."""
    return TensorType(dtype, tuple(as_dim(d) for d in dims))


def parse_type(text: str) -> Type:
    """The inverse of ``str(type)``."""
    text = text.strip()
    if "[" not in text:
        lanes = text.startswith("v.")
        return LoopType(text[2:] if lanes else text, lanes)
    dtype, _, rest = text.partition("[")
    if dtype not in ITEM_BYTES or not rest.endswith("]"):
        raise ValueError(f"not a type: {text!r}")
    return TensorType(dtype, tuple(parse_dim(d) for d in split_top(rest[:-1])))


def split_top(text: str) -> list[str]:
    """Splits at the commas that stand outside brackets and quotes."""
    parts: list[str] = []
    depth, start, quoted, escaped = 0, 0, False, False
    for i, c in enumerate(text):
        if quoted:
            quoted = escaped or c != '"'
            escaped = c == "\\" and not escaped
        elif c == '"':
            quoted = True
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:])
    return [p.strip() for p in parts]
