"""docs/numerics.md says what the records say."""

from __future__ import annotations

from pathlib import Path

from tf_disc.compiler.codegen.mathlib.document import numerics_page

PAGE = Path(__file__).parents[3] / "docs" / "numerics.md"


def test_page_is_current() -> None:
    command = "python -m tf_disc.compiler.codegen.mathlib.document docs/numerics.md"
    assert PAGE.read_text(encoding="utf-8") == numerics_page(), f"run {command}"
