"""Operands that a kernel's math does not cover: the call is TensorFlow's, and no sooner than stated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import GuardFailed, Program, host_target
from tf_disc.compiler.pipeline import compile_cluster


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("op", "function"), [("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)])
def test_trigonometry_of_large_numbers(op: str, function: np.ufunc, dtype: type) -> None:
    w = ClusterWriter()
    x = np.linspace(-3.0, 3.0, 37).astype(dtype)
    program = Program(
        compile_cluster(w.cluster(w.node(op, w.tensor("x", x))), target=host_target())
    )
    x[5], x[6], x[36] = 2.0**40, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = function(x.astype(np.float64))
    (found,) = program([x])
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0.0)
    for at in (0, 36):
        x[at] = -np.nextafter(dtype(2.0**40), dtype(np.inf))
        with pytest.raises(GuardFailed):
            program([x])
        x[at] = 0.0


@pytest.mark.parametrize("op", ["FloorMod", "FloorDiv", "TruncateDiv", "Mod", "Pow"])
def test_an_error_of_an_op_whose_result_nobody_reads(op: str) -> None:
    """TensorFlow computes the quotient for its shape, and refuses it."""
    w = ClusterWriter()
    x, y = np.arange(1, 38, dtype=np.int32), np.full(37, 3, np.int32)
    quotient = w.node(op, w.tensor("x", x), w.tensor("y", y))
    shape = w.node("Shape", quotient, out_type="i32")
    program = Program(compile_cluster(w.cluster(shape), target=host_target()))
    np.testing.assert_array_equal(program([x, y])[0], [37])
    y[36] = -1 if op == "Pow" else 0
    with pytest.raises(GuardFailed):
        program([x, y])


def test_an_index_out_of_range_of_rows_that_nobody_reads() -> None:
    w = ClusterWriter()
    table, at = np.zeros((5, 3), np.float32), np.array([4, 0, 1], np.int32)
    rows = w.node("GatherV2", w.tensor("table", table), w.tensor("at", at), w.constant(0), batch_dims=0)  # fmt: skip
    shape = w.node("Shape", rows, out_type="i32")
    program = Program(compile_cluster(w.cluster(shape), target=host_target()))
    np.testing.assert_array_equal(program([table, at])[0], [3, 3])
    at[2] = 5
    with pytest.raises(GuardFailed):
        program([table, at])


def test_a_quotient_by_a_constant_that_nobody_reads_is_not_computed() -> None:
    w = ClusterWriter()
    x = np.arange(37, dtype=np.int32)
    quotient = w.node("FloorDiv", w.tensor("x", x), w.constant(3))
    shape = w.node("Shape", quotient, out_type="i32")
    program = Program(compile_cluster(w.cluster(shape), target=host_target()))
    program([x])
    assert program.tasks_run in ([], [0]) and "floordiv" not in " ".join(
        map(" ".join, program.facts)
    )
