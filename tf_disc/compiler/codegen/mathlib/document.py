"""Writes docs/numerics.md from the records; the page's head has the command."""

from __future__ import annotations

import sys
from pathlib import Path

from tf_disc.compiler.codegen.mathlib import FUNCTIONS
from tf_disc.compiler.codegen.mathlib.measured import Measured, read

_HEAD = """# Numerics of the math functions

Made from `tf_disc/compiler/codegen/mathlib` by
`python -m tf_disc.compiler.codegen.mathlib.document docs/numerics.md`; a test compares the two.
The bounds are tested over the whole range of float32, and on samples of double.

Errors are against the exact value, in units in the last place (ULP) of the result's type. Denormal
operands count as zero and denormal results may be zero, as in TensorFlow's threads. Inside a
function multiplications and additions are fused where the CPU has an instruction for it (not in
x86-64-v2, where they round separately; the bounds are the same); no instruction has a fast-math
flag. f16 and bf16 are computed in f32 and rounded once.

| function | error in ULP | range | special values | method |
|---|---|---|---|---|
"""


_MEASURED = """
## Measured in f32

The largest error of all 2^32 floats, by level of x86-64, the float of the largest of these, and that
of TensorFlow 2.21's own kernel on a sample of 2.6 million (`python -m
tests.compiler.mathlib.sweep`, `….tensorflow_errors`; the numbers are in `mathlib/measured.json`).
Empty: not swept; the bound is tested on a sample. Cycles an element in L1, one core of an EPYC
(Zen 4) (`….speed`).

| function | error v2 | v3 | v4 | at | TensorFlow | cycles v2 | v3 | v4 |
|---|---|---|---|---|---|---|---|---|
"""

_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def _measured_rows() -> list[str]:
    def text(number: float | None, form: str) -> str:
        return "" if number is None else format(number, form)

    rows = []
    for name, by_target in sorted(read().items()):
        levels = [by_target.get(level, Measured()) for level in _LEVELS]
        worst = max(levels, key=lambda level: level.ulp or 0.0)
        cells = (
            f"`{name}`",
            *(text(level.ulp, ".2f") for level in levels),
            text(worst.worst, ".9g"),
            text(by_target.get("tensorflow", Measured()).ulp, ".2f"),
            *(text(level.cycles, ".2f") for level in levels),
        )
        rows.append("| " + " | ".join(cells) + " |\n")
    return rows


def numerics_page() -> str:
    """The text of docs/numerics.md."""
    rows = []
    for name in sorted(FUNCTIONS):
        function = FUNCTIONS[name]
        bounds = ", ".join(f"{dtype} {ulp:g}" for dtype, ulp in function.max_ulp.items())
        cells = (
            f"`{name}`",
            bounds,
            function.valid_range,
            function.special_values,
            function.source,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return _HEAD + "".join(rows) + _MEASURED + "".join(_measured_rows())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(numerics_page(), encoding="utf-8")
