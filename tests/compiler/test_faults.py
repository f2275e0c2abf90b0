"""Clusters that once went wrong, found by the random ones: each says what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import GuardFailed, Program, host_target
from tests.compiler.interpreter import Interpreter
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.pipeline import compile_cluster

RNG = np.random.default_rng(3)


def agree(w: ClusterWriter, *outputs: str, arrays: list[Any]) -> None:
    """Compiled and interpreted give the same."""
    cluster = w.cluster(*outputs)
    expected = Interpreter(import_cluster(cluster))(arrays)
    found = Program(compile_cluster(cluster, target=host_target()))(arrays)
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)


def whole(*shape: int) -> Any:
    """Small whole numbers in f32."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def test_sizes_equal_only_by_a_guard() -> None:
    """[a, b, 8] + [a * b, 8] with a = 1: b == a * b cannot be solved for a symbol, so the types differed."""
    w = ClusterWriter()
    x = whole(1, 3, 8)
    name = w.tensor("x", x, [None, None, 8])
    flat = w.node("Reshape", name, w.constant([-1, 8]))
    agree(w, w.node("AddV2", name, flat), arrays=[x])


def test_join_of_sizes_equal_only_by_a_guard() -> None:
    """The gathered rows of one operand counted as a * b, the other's as b."""
    w = ClusterWriter()
    x, ids = whole(1, 3, 8), np.array([2, 0, 1], np.int32)
    name = w.tensor("x", x, [None, None, 8])
    rows = w.node("GatherV2", name, w.tensor("ids", ids), w.constant(2), batch_dims=0)
    flat = w.node("Reshape", rows, w.constant([-1, 3]))
    line = w.node("Squeeze", rows, squeeze_dims=[0])
    agree(w, w.node("ConcatV2", line, flat, w.constant(1)), arrays=[x, ids])


def test_reduction_of_an_axis_of_size_1_after_the_last() -> None:
    """Axes 0 and 2 of [1, n, m]: the second reduction was taken for one in the row's own order."""
    w = ClusterWriter()
    x = whole(5, 7)
    lifted = w.node("ExpandDims", w.tensor("x", x), w.constant(0))
    agree(w, w.node("Sum", lifted, w.constant([0, 2]), keep_dims=True), arrays=[x])


def test_output_is_a_reshape_of_a_number_computed_of_constants() -> None:
    """The number was computed in its readers; it has none but the caller, who got memory never written."""
    w = ClusterWriter()
    x = whole()
    zero = w.node("ZerosLike", w.tensor("x", x))
    number = w.node("Cast", zero, SrcT="f32", DstT="i32")
    agree(w, w.node("ExpandDims", number, w.constant(0)), arrays=[x])


def test_product_by_a_number_computed_of_sizes() -> None:
    """The number was computed in its reader, but a product reads memory."""
    w = ClusterWriter()
    x = whole(5, 1)
    name = w.tensor("x", x, [None, 1])
    count = w.node("Cast", w.node("Size", name, out_type="i32"), SrcT="i32", DstT="f32")
    square = w.node("Reshape", count, w.constant([1, 1]))
    agree(w, w.node("MatMul", name, square, transpose_a=False, transpose_b=False), arrays=[x])


def test_product_of_reversed_rows() -> None:
    """x[::-1] has a negative leading dimension, which no library takes."""
    w = ClusterWriter()
    x, y = whole(5, 4), whole(4, 3)
    back = w.node(
        "StridedSlice", w.tensor("x", x), w.constant([0]), w.constant([0]), w.constant([-1]),
        begin_mask=1, end_mask=1,
    )  # fmt: skip
    product = w.node("MatMul", back, w.tensor("y", y), transpose_a=False, transpose_b=False)
    agree(w, product, arrays=[x, y])


def test_an_index_that_nobody_reads_is_checked() -> None:
    """The slice read two of three gathered rows, so the third index was never looked at; TensorFlow refuses it."""
    w = ClusterWriter()
    x, ids = whole(5, 8), np.array([2, 0, 1], np.int32)
    table, where = w.tensor("x", x), w.tensor("ids", ids)
    rows = w.node("GatherV2", table, where, w.constant(0), batch_dims=0)
    two = w.node("Slice", rows, w.constant([0, 0]), w.constant([2, -1]))
    program = Program(compile_cluster(w.cluster(two), target=host_target()))
    np.testing.assert_array_equal(program([x, ids])[0], x[[2, 0]])
    with pytest.raises(GuardFailed, match="outside of what the kernel computes"):
        program([x, np.array([2, 0, 5], np.int32)])
