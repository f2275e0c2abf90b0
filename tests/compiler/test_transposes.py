"""Operands that lie across the loop's order are turned block by block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen import kernel
from tf_disc.compiler.codegen.transpose_kernel import BLOCK
from tf_disc.compiler.ir.graph import walk
from tf_disc.compiler.ir.text import print_block
from tf_disc.compiler.pipeline import compile_cluster

TARGETS = sorted({"x86-64-v2", "x86-64-v3", host_target()})
#: Around a tile's columns, a vector's lanes and a block.
SIZES = [
    (0, 5),
    (1, 1),
    (1, 17),
    (3, 4),
    (5, 3),
    (16, 16),
    (17, 7),
    (9, BLOCK + 1),
    (BLOCK, 33),
    (130, 67),
]


def turns(w: ClusterWriter, *outputs: str) -> list[int]:
    """How many operands each kernel turns."""
    kernels = grouped(optimized(w.cluster(*outputs)))[2]
    return [print_block(k.body).count("rows_to_lanes") for k in kernels]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32", "i64", "i16", "i8", "bool"])
def test_last_axes_exchanged(dtype: str, target: str) -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 20, 30), NUMPY[dtype]))
    y = w.tensor("y", np.zeros((2, 30, 20), NUMPY[dtype]))
    op = "LogicalXor" if dtype == "bool" else "Sub"
    name = {"bool": "LogicalOr"}.get(dtype, op)
    result = w.node(name, y, w.node("Transpose", x, w.constant([0, 2, 1])))
    assert turns(w, result) == [1]
    program = Program(compile_cluster(w.cluster(result), target=target))
    generator = np.random.default_rng(0)
    for a, b in SIZES:
        for batch in (1, 3):
            x = generator.integers(0, 2, (batch, a, b)).astype(NUMPY[dtype])
            y = generator.integers(0, 2, (batch, b, a)).astype(NUMPY[dtype])
            turned = x.transpose(0, 2, 1)
            expected = y | turned if dtype == "bool" else y - turned
            np.testing.assert_array_equal(program([x, y])[0], expected, strict=True)


PERMUTATIONS = [
    (1, 0, 2, 3),
    (0, 2, 3, 1),
    (0, 3, 1, 2),
    (3, 2, 1, 0),
    (3, 0, 1, 2),
    (2, 3, 0, 1),
    (0, 1, 3, 2),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("perm", PERMUTATIONS, ids=str)
def test_other_orders(perm: tuple[int, ...], known: bool) -> None:
    for shape in ((2, 5, 7, 33), (3, 4, 5, 6), (1, 70, 2, 9), (2, 1, 66, 65)):
        w = ClusterWriter()
        x = w.tensor("x", np.zeros(shape, np.float32), list(shape) if known else [None] * 4)
        bias = w.tensor("bias", np.zeros(shape[perm[3]], np.float32))
        moved = w.node("Transpose", x, w.constant(perm))
        result = w.node("Mul", w.node("AddV2", moved, bias), moved)
        program = Program(compile_cluster(w.cluster(result), target=host_target()))
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        bias = np.arange(shape[perm[3]]).astype(np.float32)
        moved = x.transpose(perm)
        np.testing.assert_array_equal(program([x, bias])[0], (moved + bias) * moved, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_past_the_caches(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(kernel, "PAST_CACHES", 1000)
    for dtype in ("f32", "f64"):
        w = ClusterWriter()
        x = w.tensor("x", np.zeros((20, 30), NUMPY[dtype]))
        result = w.node("Neg", w.node("Transpose", x, w.constant([1, 0])))
        program = Program(compile_cluster(w.cluster(result), target=target))
        for shape in ((32, 70), (16, 64), (33, 70), (144, 130)):
            x = np.random.default_rng(1).normal(size=shape).astype(NUMPY[dtype])
            np.testing.assert_array_equal(program([x])[0], -x.T, strict=True)


def test_two_operands_across_the_same_axes() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((20, 30), np.float32))
    y = w.tensor("y", np.zeros((20, 30), np.float32))
    over = w.constant([1, 0])
    result = w.node(
        "Sub", w.node("Transpose", x, over), w.node("Tanh", w.node("Transpose", y, over))
    )
    program = Program(compile_cluster(w.cluster(result), target=host_target()))
    x = np.random.default_rng(1).normal(size=(70, 35)).astype(np.float32)
    np.testing.assert_allclose(program([x, 2 * x])[0], (x - np.tanh(2 * x)).T, rtol=2e-6, atol=1e-6)


def test_what_keeps_its_last_axis_is_not_turned() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3, 4, 64), np.float32), [None, None, 4, 64])
    assert turns(w, w.node("Neg", w.node("Transpose", x, w.constant([0, 2, 1, 3])))) == [0]


@pytest.mark.parametrize("known", [True, False])
def test_rows_in_another_order_are_walked_run_by_run(known: bool) -> None:
    """What is divided out of a row's number stands outside of the loop over a run; tasks begin anywhere in one."""
    shape = [None, None, 5 if known else None, 33]
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3, 5, 33), np.float32), shape)
    bias = w.tensor("bias", np.zeros((3, 33), np.float32), [None, 33])
    result = w.node("AddV2", w.node("Transpose", x, w.constant([0, 2, 1, 3])), bias)
    (built,) = grouped(optimized(w.cluster(result)))[2]
    outer = next(op for op in built.body.ops if op.name == "for")
    (inner,) = [op for op in outer.regions[0].ops if op.name == "for"]
    assert not any(op.name in ("idiv", "imod") for op in walk(inner.regions[0]))
    program = Program(compile_cluster(w.cluster(result), target=host_target()))
    for batch, length in ((0, 3), (1, 1), (1, 7), (3, 1), (3, 4), (2, 131), (7, 0)):
        x = np.random.default_rng(1).normal(size=(batch, length, 5, 33)).astype(np.float32)
        bias = np.random.default_rng(2).normal(size=(length, 33)).astype(np.float32)
        np.testing.assert_array_equal(program([x, bias])[0], x.transpose(0, 2, 1, 3) + bias)
