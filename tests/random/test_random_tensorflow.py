"""Random TensorFlow graphs against tf_disc: values, types, errors, and that kernels run.

`DISC_RANDOM_TF_GRAPHS` says how many graphs are drawn (the same ones each time); `python -m tests.random.run` draws
more, goes on after a failure, and cuts what fails. Its recipes, once mended, stay in `cases/` and are run here.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.random.check import check
from tests.random.generate import draw_recipe, recipes
from tests.random.ops import BUILDERS, EXEMPT
from tests.random.recipe import Recipe, ops_of
from tests.random.run import enough, examine, summary
from tests.random.source import from_seed
from tf_disc.compiler.op_rules import RULES

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
#: About a minute and a half of two cores.
GRAPHS = int(os.environ.get("DISC_RANDOM_TF_GRAPHS", "100"))


def test_random_graphs_agree_with_tensorflow(tmp_path, capsys):
    """All are drawn before one failure is told, so that one bug does not hide the share that ran a kernel."""
    totals: Counter[str] = Counter()
    failures: list[str] = []

    @seed(3)
    @settings(
        max_examples=GRAPHS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(recipes())
    def run(recipe: Recipe) -> None:
        path = tmp_path / f"graph-{totals['graphs']}"
        counts, failure = examine(recipe, path)
        totals.update(counts)
        if failure:
            smaller = path.with_suffix(".json").read_text()
            failures.append(f"{failure}\n{smaller}")

    run()
    with capsys.disabled():
        print(f"\n{summary(totals, len(failures), 0)}")
    assert not failures, "\n".join([f"{len(failures)} graphs failed; the first:", failures[0]])
    assert enough(totals), "too few graphs ran a kernel, or too many could not be built"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_what_once_failed(path):
    recipe = Recipe.from_json(path.read_text())
    assert not check(recipe).failure


@pytest.mark.parametrize("op", sorted(RULES))
def test_every_op_of_the_table_is_drawn(op):
    """By a builder of its own, by its kind or from its examples; or it is said why not."""
    assert (op in BUILDERS) != (op in EXEMPT), (
        f"{op}: give its record examples, or tests/random/ops a builder"
    )
    if op in EXEMPT:
        return
    found = [r for i in range(12) if op in ops_of((r := draw_recipe(from_seed(i), op)).body)]
    assert found, f"{op}: its builder never finds operands"


def test_exempt_ops_are_in_the_table():
    assert set(EXEMPT) <= set(RULES)
