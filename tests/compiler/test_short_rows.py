"""Rows of few elements that are reduced: a lane is a row, and blocks of rows are turned on the way in and out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, Program, host_target
from tf_disc.compiler.codegen.evaluation import SHORT_ROW
from tf_disc.compiler.pipeline import compile_cluster

#: On both sides of a tile's columns and of the border between the two forms.
COLUMNS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, SHORT_ROW - 1, SHORT_ROW, SHORT_ROW + 1, 100]
#: On both sides of a vector's lanes.
ROWS = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40]
TARGETS = sorted({"x86-64-v3", host_target()})


def _columns_unknown(dtype: str, target: str) -> Program:
    """(x - its row's maximum) times a number a column, the maxima, and the sums: outputs of both levels."""
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((5, 60), NUMPY[dtype]))
    scale = w.tensor("scale", np.zeros(60, NUMPY[dtype]))
    peak = w.node("Max", x, w.constant([1]), keep_dims=True)
    scaled = w.node("Mul", w.node("Sub", x, peak), scale)
    total = w.node("Sum", scaled, w.constant([1]), keep_dims=False)
    return Program(compile_cluster(w.cluster(scaled, peak, total), target=target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "i16", "i8", "u8"])
def test_one_kernel_for_all_numbers_of_rows_and_columns(dtype: str, target: str) -> None:
    program = _columns_unknown(dtype, target)
    generator = np.random.default_rng(0)
    for columns in COLUMNS:
        for rows in ROWS:
            # Small whole numbers: sums are exact in any order, and wrap in the narrow types as TensorFlow's do.
            x = generator.integers(0, 9, (rows, columns)).astype(NUMPY[dtype])
            scale = generator.integers(0, 5, columns).astype(NUMPY[dtype])
            scaled, peak, total = program([x, scale])
            most = x.max(1, keepdims=True) if rows else np.zeros((0, 1), NUMPY[dtype])
            with np.errstate(over="ignore"):
                expected = (x - most) * scale
            np.testing.assert_array_equal(peak, most, strict=True)
            np.testing.assert_array_equal(scaled, expected, strict=True)
            np.testing.assert_array_equal(total, expected.sum(1, dtype=NUMPY[dtype]), strict=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 3, 8, 33])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_known_columns(dtype: str, columns: int, target: str) -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((5, columns), NUMPY[dtype]), [None, columns])
    low = w.node("Min", x, w.constant([1]), keep_dims=True)
    program = Program(compile_cluster(w.cluster(w.node("Sub", x, low)), target=target))
    for rows in ROWS:
        x = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(NUMPY[dtype])
        low = x.min(1, keepdims=True) if rows else x[:, :1]
        np.testing.assert_array_equal(program([x])[0], x - low, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_flags(target: str) -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((5, 6), np.bool_))
    every = w.node("All", x, w.constant([1]), keep_dims=True)
    program = Program(
        compile_cluster(w.cluster(w.node("LogicalOr", x, every), every), target=target)
    )
    for columns in (1, 3, 7, 48, 50):
        for rows in ROWS:
            x = np.random.default_rng(rows).random((rows, columns)) < 0.8
            either, every = program([x])
            np.testing.assert_array_equal(every, x.all(1, keepdims=True), strict=True)
            np.testing.assert_array_equal(either, x | x.all(1, keepdims=True), strict=True)


@pytest.mark.parametrize("columns", [3, 48, 49])
def test_a_row_with_nan_or_infinity_keeps_it_to_itself(columns: int) -> None:
    w = ClusterWriter()
    program = Program(
        compile_cluster(
            w.cluster(w.node("Softmax", w.tensor("x", np.zeros((9, 60), np.float32)))),
            target=host_target(),
        )
    )
    x = np.random.default_rng(0).normal(size=(19, columns)).astype(np.float32)
    clean = program([x])[0]
    x[4, 1], x[5, 0], x[18, 2] = np.nan, np.inf, -np.inf
    got = program([x])[0]
    hurt = np.zeros(19, bool)
    hurt[[4, 5]] = True
    assert np.isnan(got[hurt]).all()
    assert got[18, 2] == 0 and np.isfinite(got[~hurt]).all()
    hurt[18] = True
    np.testing.assert_array_equal(got[~hurt], clean[~hurt])
