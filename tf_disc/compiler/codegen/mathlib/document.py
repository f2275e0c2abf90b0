"""Writes docs/numerics.md from the records; the page's head has the command."""

from __future__ import annotations

import sys
from pathlib import Path

from tf_disc.compiler.codegen.mathlib import FUNCTIONS

_HEAD = """# Numerics of the math functions

Made from `tf_disc/compiler/codegen/mathlib` by
`python -m tf_disc.compiler.codegen.mathlib.document docs/numerics.md`; a test compares the two.
The bounds are tested over the whole range of float32, and on samples of double.

Errors are against the exact value, in units in the last place (ULP) of the result's type. Denormal
operands count as zero and denormal results may be zero, as in TensorFlow's threads. Inside a
function multiplications and additions are fused; no instruction has a fast-math flag.

| function | error in ULP | range | special values | method |
|---|---|---|---|---|
"""


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
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(numerics_page(), encoding="utf-8")
