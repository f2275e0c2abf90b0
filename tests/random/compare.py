"""Whether two results are the same answer.

Integers and bools: equal. Floats: NaN in the same places, and equal, or a few ULP apart where an inexact op leads to the
output; farther apart, `spread` (disturb.py) says how far right answers may lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.random.arrays import is_float, largest

#: Differences up to here need no further look.
CLOSE_ULPS = 4.0
#: How far outside of the disturbed runs' range a right result may lie, in widths of that range.
MARGIN = 3.0


@dataclass(frozen=True)
class Difference:
    """Where an output differs, and how."""

    output: int
    text: str


def distance(plain: Any, found: Any) -> Any:
    """ULP of plain's type between two float arrays of one shape; inf where one is NaN or an infinity and the other not."""
    a, b = plain.astype(np.float64), found.astype(np.float64)
    eps = 2.0**-7 if plain.dtype.kind != "f" else float(np.finfo(plain.dtype).eps)
    tiny = (
        float(np.finfo(plain.dtype).tiny)
        if plain.dtype.kind == "f"
        else float(np.finfo(np.float32).tiny)
    )
    with np.errstate(all="ignore"):
        unit = eps * np.maximum(np.minimum(np.abs(a), largest(plain.dtype)), tiny)
        apart = np.abs(a - b) / unit
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def suspects(plain: Any, found: Any, inexact: bool) -> Any:
    """A mask of the elements that are not yet known to be right. Raises ValueError where type or shape differ."""
    if plain.dtype != found.dtype or plain.shape != found.shape:
        raise ValueError(
            f"{found.dtype}{list(found.shape)}, TensorFlow gives {plain.dtype}{list(plain.shape)}"
        )
    if not is_float(plain.dtype):
        return plain != found
    return distance(plain, found) > (CLOSE_ULPS if inexact else 0.0)


def outside(plain: Any, found: Any, disturbed: list[Any]) -> Any:
    """A mask of the elements that lie outside of what the disturbed runs allow."""
    if not is_float(plain.dtype):
        return (plain != found) & np.logical_and.reduce([d == plain for d in disturbed])
    a, b = plain.astype(np.float64), found.astype(np.float64)
    runs = np.stack([d.astype(np.float64) for d in disturbed])
    kind = np.stack([_kind(r) for r in runs])
    # Where right answers are now a number, now NaN or an infinity, nothing can be said.
    unsure = (kind != kind[0]).any(0) | (kind[0] != _kind(a))
    with np.errstate(all="ignore"):
        width = np.max(np.abs(runs - runs[0]), axis=0)
        far = np.abs(a - b) > MARGIN * np.where(np.isfinite(width), width, np.inf)
    wrong = np.where((_kind(a) == 0) & (_kind(b) == 0), far, _kind(a) != _kind(b))
    return wrong & ~unsure


def _kind(a: Any) -> Any:
    """0 for numbers, 1 and 2 for infinities, 3 for NaN."""
    return np.where(np.isnan(a), 3, np.where(np.isposinf(a), 1, np.where(np.isneginf(a), 2, 0)))


def describe(plain: Any, found: Any, mask: Any) -> str:
    """The first elements that differ, in words."""
    at = np.argwhere(mask)
    shown = [
        f"{tuple(map(int, i))}: {found[tuple(i)]!r}, TensorFlow {plain[tuple(i)]!r}" for i in at[:3]
    ]
    return f"{int(mask.sum())} of {mask.size} {plain.dtype} elements differ, at " + "; at ".join(
        shown
    )
