"""Pages that are made from the compiler, or quote it, are current."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from tf_disc.compiler.op_rules import RULES
from tf_disc.tools import architecture_page, ops_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("tool", [ops_page, architecture_page], ids=lambda t: t.__name__)
def test_page_is_current(tool: ModuleType) -> None:
    text = (ROOT / tool.PAGE).read_text(encoding="utf-8")
    assert text == tool.page(), f"run python -m {tool.__name__}"


def test_every_rule_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", ops_page.page(), re.MULTILINE)
    assert sorted(rows) == sorted(RULES)


def test_the_record_in_adding_an_op_is_the_real_one() -> None:
    page = (DOCS / "adding_an_op.md").read_text(encoding="utf-8")
    source = (ROOT / "tf_disc/compiler/op_rules/activations.py").read_text(encoding="utf-8")
    real = {ast.dump(node) for node in ast.walk(ast.parse(source))}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    quoted = [node for block in blocks for node in ast.parse(block).body]
    assert len(quoted) == 4
    for node in quoted:
        # Compared without their layout: a formatter may reach the one and not the other.
        inner = node.value if isinstance(node, ast.Expr) else node
        assert ast.dump(inner) in real, f"adding_an_op.md has what is no more: {ast.unparse(inner)}"


def test_make_docs_makes_every_page() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for tool in (ops_page, architecture_page):
        assert f"-m {tool.__name__}" in makefile


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_vector_loop_of_another_op_is_not_found() -> None:
    with pytest.raises(ValueError, match="no vector loop with fdiv"):
        architecture_page.vector_loop("define i32 @f() {\nentry:\n  ret i32 0\n}", "fdiv")
