"""Whether a peer's outputs are TensorFlow's: largest difference, and what a precision may differ by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]

#: Largest difference of one output over its largest magnitude. f32 has room for sums of another
#: order through twelve layers; bf16 rounds each product's inputs to 8 bits.
TOLERANCES = {"f32": 1e-3, "bf16": 1e-1}


@dataclass(frozen=True)
class Comparison:
    """`difference`: the largest, absolute. `relative`: over the output's largest magnitude."""

    difference: float
    relative: float
    correct: bool
    reason: str = ""


def compare(expected: Arrays, got: Arrays, precision: str) -> Comparison:
    """Compares all outputs. Integers must be equal, NaN and infinities stand in the same places."""
    if set(expected) != set(got):
        return _wrong(f"outputs are {sorted(got)}, TensorFlow's {sorted(expected)}")
    worst = relative = 0.0
    for name, left in expected.items():
        right = got[name]
        if left.shape != right.shape:
            return _wrong(f"{name} is {right.shape}, TensorFlow's {left.shape}")
        if not np.issubdtype(left.dtype, np.inexact):
            if not np.array_equal(left, right):
                return _wrong(f"{name}: {int((left != right).sum())} integers differ")
            continue
        finite = np.isfinite(left)
        if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
            return _wrong(f"{name}: NaN or infinity in other places")
        if not np.isfinite(right[finite]).all():
            return _wrong(f"{name}: NaN or infinity where TensorFlow has none")
        a, b = left[finite], right[finite]
        difference = float(np.abs(a - b).max(initial=0.0))
        scale = float(np.abs(a).max(initial=0.0))
        worst = max(worst, difference)
        relative = max(relative, difference / scale if scale else difference)
    correct = relative <= TOLERANCES[precision]
    reason = "" if correct else f"differs by {relative:.1e} of the largest value"
    return Comparison(worst, relative, correct, reason)


def _wrong(reason: str) -> Comparison:
    return Comparison(float("inf"), float("inf"), False, reason)
