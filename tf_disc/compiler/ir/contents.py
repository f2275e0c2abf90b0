"""Where the followed elements of small integer tensors go when an op moves them (ir/builder.py).

Shapes are of known sizes; elements are in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tf_disc.compiler.ir.dims import Dim

Elements = Sequence[Dim]


def known_sizes(dims: Sequence[Dim]) -> list[int] | None:
    """The sizes as numbers, or None where one is not known."""
    sizes = [d.value for d in dims]
    return None if any(s is None for s in sizes) else [s for s in sizes if s is not None]


def read_through(
    elements: Elements,
    sizes: Sequence[int],
    begin: Sequence[int],
    steps: Sequence[int],
    strides: Sequence[int],
) -> list[Dim]:
    """Elements begin + i * step of each result axis of `sizes`, whose axis is `strides` apart in the operand."""
    return [
        elements[sum((b + i * s) * t for i, b, s, t in zip(at, begin, steps, strides, strict=True))]
        for at in product(*(range(n) for n in sizes))
    ]


def strides_of(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours on each axis are."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step *= n
    return strides[::-1]


def joined(parts: Sequence[Elements], rows: int) -> list[Dim]:
    """Parts side by side, each of `rows` rows."""
    widths = [len(p) // rows if rows else 0 for p in parts]
    return [
        d
        for row in range(rows)
        for part, width in zip(parts, widths, strict=True)
        for d in part[row * width : (row + 1) * width]
    ]
