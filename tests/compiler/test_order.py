"""Running sums and scatters round as a loop over the elements does, bit for bit, whatever the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import TARGETS, Program
from tests.compiler.interpreter import Interpreter
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.pipeline import compile_cluster

F32 = np.float32
SIZES = [(1, 1), (7, 33), (1000, 3), (3, 1000), (130, 521)]


def bits(value: Any) -> Any:
    """Floats as integers, so that nothing is rounded away by the comparison."""
    return np.asarray(value, F32).view(np.int32)


def check(cluster: dict[str, Any], calls: list[list[Any]], target: str) -> None:
    """One compile; each call gives what the interpreter gives, exactly."""
    program = Program(compile_cluster(cluster, target=target))
    for arrays in calls:
        expected = Interpreter(import_cluster(cluster))(arrays)
        for found, wanted in zip(program(arrays), expected, strict=True):
            np.testing.assert_array_equal(bits(found), bits(wanted))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_go_element_by_element(op: str, axis: int, target: str) -> None:
    rng = np.random.default_rng(3)
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((4, 5), F32))
    results = [
        w.node(op, x, w.constant(axis), exclusive=exclusive, reverse=reverse)
        for exclusive in (False, True)
        for reverse in (False, True)
    ]
    calls = [[(1 + rng.normal(size=s) / 8).astype(F32)] for s in SIZES]
    check(w.cluster(*results), calls, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "op", ["UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"]
)
def test_segments_go_row_by_row(op: str, target: str) -> None:
    rng = np.random.default_rng(3)
    w = ClusterWriter()
    x, ids = w.tensor("x", np.zeros((4, 5), F32)), w.tensor("ids", np.zeros(4, np.int32))
    cluster = w.cluster(w.node(op, x, ids, w.constant(5)))
    calls = []
    for rows, columns in SIZES:
        values = (1 + rng.normal(size=(rows, columns)) / 8).astype(F32)
        values[rng.random(values.shape) < 0.02] = np.nan
        calls.append([values, rng.integers(-1, 5, rows).astype(np.int32)])
    check(cluster, calls, target)
