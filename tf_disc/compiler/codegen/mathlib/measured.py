"""What was measured of the functions in f32: the largest error over all floats, and the speed.

measured.json is written by the tests' tools (tests/compiler/mathlib: sweep.py, speed.py); a test
holds the errors against the bounds of the records.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class Measured:
    """Of one function on one target, None where it was not measured.

    ulp: the largest error of all 2^32 floats, at the operand `worst`. cycles: an element's, in
    operands and results that stay in L1 (of the CPU that the page names).
    """

    ulp: float | None = None
    worst: float | None = None
    cycles: float | None = None

    def with_error(self, ulp: float, worst: float) -> Measured:
        return replace(self, ulp=ulp, worst=worst)

    def with_cycles(self, cycles: float) -> Measured:
        return replace(self, cycles=cycles)

    def fields(self) -> dict[str, Any]:
        """Those that are known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read() -> dict[str, dict[str, Measured]]:
    """By function and target."""
    known = json.loads(PATH.read_text(encoding="utf-8"))
    return {
        name: {target: Measured(**fields) for target, fields in by_target.items()}
        for name, by_target in known.items()
    }
