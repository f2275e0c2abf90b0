"""Golden tests of passes: golden/<pass>/<idea>.disc holds the passes, a graph, and what becomes of it.

    // passes: eliminate_dead
    graph @g { ...
    // ----
    expected text

The pass "groups" stands last and gives the groups as text. `--update-golden` rewrites what is expected.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_disc.compiler.codegen.memory import plan_memory
from tf_disc.compiler.ir.text import parse_graph, print_graph
from tf_disc.compiler.ir.verifier import verify_graph
from tf_disc.compiler.passes.groups import form_groups
from tf_disc.compiler.pipeline import PASSES, describe_groups

FOLDER = Path(__file__).parent / "golden"
CUT = "// ----\n"
COMMAND = "pytest tests/compiler/test_golden.py --update-golden"


def run(source: str) -> str:
    """The text that the passes of the first line give for the graph."""
    head, _, text = source.partition("\n")
    assert head.startswith("// passes: "), f"the first line names the passes, not {head!r}"
    names = [n.strip() for n in head.removeprefix("// passes: ").split(",")]
    graph = parse_graph(text)
    verify_graph(graph)
    for name in names:
        if name == "groups":
            groups, inlined = form_groups(graph)
            return describe_groups(graph, groups, plan_memory(graph, groups, inlined))
        PASSES[name](graph)
        verify_graph(graph)
    return print_graph(graph)


CASES = sorted(FOLDER.glob("*/*.disc"))


def check(path: Path, update: bool) -> None:
    """Compares one file, or rewrites it."""
    source, cut, expected = path.read_text(encoding="utf-8").partition(CUT)
    found = run(source)
    if update:
        path.write_text(f"{source}{CUT}{found}", encoding="utf-8")
        return
    assert cut, f"{path.name} expects nothing yet; write it with: {COMMAND}"
    assert found == expected, f"if that is what should be: {COMMAND}"


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, update=request.config.getoption("--update-golden"))


def test_every_pass_has_a_golden_test() -> None:
    assert {p.parent.name for p in CASES} == {*PASSES, "groups"}


def test_what_is_missing_or_differs_names_the_command(tmp_path: Path) -> None:
    new = tmp_path / "new.disc"
    new.write_text(CASES[0].read_text(encoding="utf-8").partition(CUT)[0])
    with pytest.raises(
        AssertionError, match=r"expects nothing yet; write it with: pytest .* --update-golden"
    ):
        check(new, update=False)
    check(new, update=True)
    check(new, update=False)
    new.write_text(new.read_text() + "more\n")
    with pytest.raises(
        AssertionError, match=r"if that is what should be: pytest .* --update-golden"
    ):
        check(new, update=False)
