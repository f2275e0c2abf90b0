"""What only prepares the left operand of a product is computed for each tile, or first where rows are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, RUNS_BF16, GuardFailed, Program, host_target
from tf_disc.compiler.codegen.kernel import MIN_SHARE_ROWS
from tf_disc.compiler.pipeline import compile_cluster

RNG = np.random.default_rng(9)
INNER, COLUMNS, SLOTS = 37, 100, 2
BORDER = SLOTS * MIN_SHARE_ROWS
WEIGHT = RNG.standard_normal((INNER, COLUMNS)).astype(np.float32)
SCALE = RNG.standard_normal(INNER).astype(np.float32)
TABLE = RNG.standard_normal((50, INNER)).astype(np.float32)

Made = tuple[dict[str, Any], Callable[[int], list[Any]], Callable[[list[Any]], Any]]


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def _product(w: ClusterWriter, left: str) -> dict[str, Any]:
    return w.cluster(w.node("Relu", w.node("MatMul", left, w.weight("w", WEIGHT))))


def scaled() -> Made:
    """A scale and a shift."""
    w = ClusterWriter("scaled")
    x = w.node("Mul", w.tensor("x", normal(4, INNER)), w.tensor("s", SCALE, known=[INNER]))
    cluster = _product(w, w.node("AddV2", x, w.constant(0.5, "f32")))
    return cluster, lambda rows: [normal(rows, INNER), SCALE, WEIGHT], lambda a: a[0] * a[1] + 0.5


def turned() -> Made:
    """A transpose."""
    w = ClusterWriter("turned")
    cluster = _product(w, w.node("Transpose", w.tensor("x", normal(INNER, 4)), w.constant([1, 0])))
    return cluster, lambda rows: [normal(INNER, rows), WEIGHT], lambda a: a[0].T


def picked() -> Made:
    """Rows of a table, of a batch of sentences."""
    w = ClusterWriter("picked")
    ids = w.tensor("ids", np.zeros((2, 2), np.int32))
    rows_ = w.node("GatherV2", w.tensor("table", TABLE), ids, w.constant(0))
    flat = w.node("Reshape", w.node("Tanh", rows_), w.constant([-1, INNER]))
    cluster = _product(w, flat)

    def arrays(rows: int) -> list[Any]:
        return [RNG.integers(0, 50, (rows, 1)).astype(np.int32), TABLE, WEIGHT]

    return cluster, arrays, lambda a: np.tanh(a[1][a[0][:, 0]])


def short() -> Made:
    """Rounded to bf16, which is all that there is to do."""
    w = ClusterWriter("short")
    cluster = _product(w, w.tensor("x", normal(4, INNER)))
    return cluster, lambda rows: [normal(rows, INNER), WEIGHT], lambda a: a[0]


@pytest.mark.parametrize("make", [scaled, turned, picked, *[short] * RUNS_BF16])
def test_rows_around_the_border(make: Callable[[], Made]) -> None:
    cluster, arrays_of, prepared = make()
    rounds = make is short
    program = Program(
        compile_cluster(
            cluster,
            target=host_target(),
            features="+avx512bf16" if rounds else "",
            precision="bf16" if rounds else "f32",
        ),
        slots=SLOTS,
    )
    for rows in (0, 1, BORDER - 1, BORDER, 3 * BORDER + 5):
        arrays = arrays_of(rows)
        program.tasks_run.clear()
        (found,) = program(arrays)
        # Few rows: prepared, multiplied, finished. With many, one loop does it all.
        assert len(program.tasks_run) == (1 if rows >= BORDER else 3)
        left, right = prepared(arrays), WEIGHT
        if rounds:
            left, right = (a.astype(NUMPY["bf16"]).astype(np.float32) for a in (left, right))
        np.testing.assert_allclose(found, np.maximum(left @ right, 0), rtol=1e-4, atol=1e-4)


def test_an_index_out_of_range_is_found_in_a_tile() -> None:
    cluster, arrays_of, _ = picked()
    program = Program(compile_cluster(cluster, target=host_target()), slots=SLOTS)
    for rows in (3, 2 * BORDER):
        arrays = arrays_of(rows)
        arrays[0][rows - 1] = 50
        with pytest.raises(GuardFailed):
            program(arrays)


def test_what_others_read_is_stored() -> None:
    w = ClusterWriter("shared")
    x = w.node("Tanh", w.tensor("x", normal(4, INNER)))
    product = w.node("Relu", w.node("MatMul", x, w.weight("w", WEIGHT)))
    program = Program(compile_cluster(w.cluster(product, x), target=host_target()), slots=SLOTS)
    array = normal(2 * BORDER, INNER)
    result, stored = program([array, WEIGHT])
    np.testing.assert_allclose(stored, np.tanh(array), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result, np.maximum(np.tanh(array) @ WEIGHT, 0), rtol=1e-4, atol=1e-4)
    assert len(program.tasks_run) == 2
