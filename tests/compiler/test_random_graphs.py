"""Random clusters give what the interpreter of tensor IR gives, at the sizes that were compiled for and at others.

More of them: `DISC_RANDOM_GRAPHS=5000 pytest tests/compiler/test_random_graphs.py`.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.execute import TARGETS, GuardFailed, Program
from tests.compiler.interpreter import Interpreter
from tests.compiler.random_graphs import (
    SIZES,
    Entry,
    RandomCluster,
    clusters,
    make_cluster,
)
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.pipeline import compile_cluster

MORE = os.environ.get("DISC_RANDOM_GRAPHS", "")


def compare(found: Any, expected: Any, entry: Entry) -> None:
    """Exact where the value is; else within the rounding of values as large as its bound."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if entry.exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * max(1, entry.bound))


def check(
    made: RandomCluster, hints: dict[str, int], others: list[dict[str, int]], target: str
) -> None:
    """Compiles once and runs at all sizes."""
    program = Program(compile_cluster(made.cluster, target=target))
    interpreter = Interpreter(import_cluster(made.cluster))
    for i, sizes in enumerate([hints, *others]):
        arrays = made.arrays(sizes, i)
        try:
            expected = interpreter(arrays)
        except GuardFailed:
            assert i > 0, "a guard fails for the call that asked"
            with pytest.raises(GuardFailed):
                program(arrays)
            continue
        except IndexError:
            continue
        for found, wanted, entry in zip(program(arrays), expected, made.outputs, strict=True):
            compare(found, wanted, entry)


other_sizes = st.fixed_dictionaries({d: st.sampled_from(SIZES) for d in "abc"})


@settings(
    max_examples=int(MORE or 20),
    deadline=None,
    derandomize=not MORE,
    suppress_health_check=list(HealthCheck),
)
@given(clusters(), st.lists(other_sizes, min_size=2, max_size=3), st.sampled_from(TARGETS))
def test_compiled_is_interpreted(
    case: tuple[RandomCluster, dict[str, int]], others: list[dict[str, int]], target: str
) -> None:
    made, hints = case
    check(made, hints, others, target)


@pytest.mark.parametrize("seed", range(40))
def test_compiled_is_interpreted_for_even_draws(seed: int) -> None:
    """Hypothesis changes its last example a little; these have nothing to do with each other."""
    draw = random.Random(seed)
    hints, *others = ({d: draw.choice(SIZES) for d in "abc"} for _ in range(4))
    steps = [draw.randbytes(7) for _ in range(draw.randint(6, 14))]
    made = make_cluster(hints, steps, [draw.randrange(20) for _ in range(draw.randint(0, 2))])
    check(made, hints, others, TARGETS[seed % len(TARGETS)])
