"""Reductions down columns run in strips; what they give depends on neither strips nor passes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen.evaluation import UNROLLED
from tf_disc.compiler.codegen.strip_kernel import (
    FEW_ROWS,
    NARROW,
    ROWS,
    STRIP,
    WIDEST,
    strip_reductions,
)
from tf_disc.compiler.passes.split_reductions import ROWS as CHUNK
from tf_disc.compiler.pipeline import compile_cluster

TARGETS = sorted({"x86-64-v3", host_target()})
#: Around a pass's rows and a chunk's, and the columns of a vector and a strip.
ROW_COUNTS = [0, 1, FEW_ROWS, FEW_ROWS + 1, ROWS - 1, ROWS, ROWS + 1, CHUNK, 2 * CHUNK + 1, 300]
COLUMN_COUNTS = [0, 1, 3, 16, 17, STRIP - 1, STRIP, STRIP + 1, 2 * STRIP + 5, WIDEST + 1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i8", "f16"])
def test_sums_and_maxima_down_columns(dtype: str, target: str) -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((5, 60), NUMPY[dtype]))
    bias = w.tensor("bias", np.zeros(60, NUMPY[dtype]))
    shifted = w.node("AddV2", x, bias)
    axis = w.constant([0])
    total = w.node("Sum", shifted, axis, keep_dims=False)
    most = w.node("Max", x, axis, keep_dims=False)
    program = Program(compile_cluster(w.cluster(total, most), target=target))
    generator = np.random.default_rng(0)
    for rows in ROW_COUNTS:
        for columns in COLUMN_COUNTS:
            # Sums of whole numbers up to 2 * 300 are exact in every type but i8, where they wrap.
            x = generator.integers(0, 2, (rows, columns)).astype(NUMPY[dtype])
            bias = generator.integers(0, 2, columns).astype(NUMPY[dtype])
            total, most = program([x, bias])
            expected = (x + bias).astype(np.int64).sum(0).astype(NUMPY[dtype])
            np.testing.assert_array_equal(total, expected, strict=True)
            if rows:
                np.testing.assert_array_equal(most, x.max(0), strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_the_middle_axis_with_what_follows(target: str) -> None:
    """A mean over time under a mask: two reductions of one group, and what is made of them."""
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 5, 40), np.float32), [None, None, 40])
    mask = w.tensor("mask", np.zeros((2, 5, 1), np.float32), [None, None, 1])
    axis = w.constant([1])
    total = w.node("Sum", w.node("Mul", x, mask), axis, keep_dims=False)
    square = w.node("Sum", w.node("Mul", x, x), axis, keep_dims=False)
    program = Program(
        compile_cluster(w.cluster(w.node("Sub", square, total), square), target=target)
    )
    for batch in (0, 1, 3):
        for time in (0, 1, 4, 7, 70, 200):
            x = np.random.default_rng(time).integers(0, 4, (batch, time, 40)).astype(np.float32)
            mask = (x[:, :, :1] > 1).astype(np.float32)
            difference, square = program([x, mask])
            np.testing.assert_array_equal(square, (x * x).sum(1), strict=True)
            np.testing.assert_array_equal(difference, square - (x * mask).sum(1), strict=True)


def test_narrow_columns_stay_in_lanes_of_several_rows() -> None:
    """What a strip would leave idle is left to the flat form."""

    def strips(columns: int | None, rows: int = 90) -> list[bool]:
        w = ClusterWriter()
        x = w.tensor("x", np.zeros((rows, columns or 50), np.float32), [rows, columns])
        total = w.node("Sum", x, w.constant([0]), keep_dims=False)
        return [bool(strip_reductions(g)) for g in grouped(optimized(w.cluster(total)))[0]]

    assert strips(NARROW - 1) == [False]
    assert strips(NARROW) == strips(None) == [True]
    # So few rows that a column's sum is one expression.
    assert strips(None, rows=UNROLLED) == [False]
    assert strips(None, rows=UNROLLED + 1) == [True]
