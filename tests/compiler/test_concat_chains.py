"""What follows a concat is computed piece by piece as it is stored, with the values that plain numpy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, TARGETS, Program
from tf_disc.compiler.pipeline import compile_cluster

RNG = np.random.default_rng(2)


def drawn(*shape: int) -> Any:
    x = RNG.standard_normal(shape).astype(np.float32)
    # A few that are special, where there is room.
    special = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    flat = x.reshape(-1)
    places = RNG.permutation(flat.size)[: min(4, flat.size // 8)]
    flat[places] = special[: places.size]
    return x


def tasks(program: Program) -> list[str]:
    return [" ".join(f[2:]) for f in program.facts if f[0] == "task"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("known", [False, True])
def test_a_rotary_embedding_is_one_loop(target: str, known: bool) -> None:
    half = 16
    dims = [None, None, 3, 2 * half] if known else None
    w = ClusterWriter("rotary")
    x = w.tensor("x", drawn(2, 5, 3, 2 * half), known=dims)
    tables = [drawn(5, 2 * half) for _ in range(2)]
    sine, cosine = (
        w.node("Reshape", w.tensor(n, t, known=[None, 2 * half] if known else None), w.constant([1, -1, 1, 2 * half]))
        for n, t in zip(("sine", "cosine"), tables, strict=True)
    )  # fmt: skip
    size = w.constant([-1, -1, -1, half])
    first = w.node("Slice", x, w.constant([0, 0, 0, 0]), size)
    second = w.node("Slice", x, w.constant([0, 0, 0, half]), size)
    turned = w.node("ConcatV2", w.node("Neg", second), first, w.constant(-1), N=2)
    y = w.node("AddV2", w.node("Mul", x, cosine), w.node("Mul", turned, sine))
    program = Program(compile_cluster(w.cluster(y), target=target))
    assert len(tasks(program)) == 1
    for batch, length in ((1, 1), (2, 5), (0, 3), (3, 33)):
        array = drawn(batch, length, 3, 2 * half)
        s, c = (drawn(length, 2 * half) for _ in range(2))
        swapped = np.concatenate([-array[..., half:], array[..., :half]], -1)
        with np.errstate(invalid="ignore"):
            expected = array * c[None, :, None] + swapped * s[None, :, None]
        (found,) = program([array, s, c])
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i32"])
def test_operands_of_other_shapes_are_cut_where_the_pieces_meet(axis: int, dtype: str) -> None:
    kind = NUMPY[dtype]

    def array(*shape: int) -> Any:
        return RNG.integers(-9, 10, shape).astype(kind)

    w = ClusterWriter("pieces")
    shapes = [(3, 4, 5), (3, 4, 5), (3, 4, 5)]
    parts = [w.tensor(f"part{i}", array(*shape)) for i, shape in enumerate(shapes)]
    joined = w.node("ConcatV2", *parts, w.constant(axis), N=3)
    whole = [3, 4, 5]
    whole[axis] *= 3
    full, row, one = array(*whole), array(whole[-1]), array(whole[0], 1, 1)
    y = w.node("Mul", joined, w.tensor("row", row))
    y = w.node("Sub", w.tensor("full", full), y)
    y = w.node("Maximum", y, w.tensor("one", one))
    program = Program(compile_cluster(w.cluster(y), target=TARGETS[-1]))
    assert len(tasks(program)) == 1
    for sizes in ((2, 3, 1), (0, 1, 17), (1, 0, 0), (0, 0, 0)):
        arrays = []
        for size in sizes:
            shape = [2, 3, 7]
            shape[axis] = size
            arrays.append(array(*shape))
        whole = [2, 3, 7]
        whole[axis] = sum(sizes)
        full, row, one = array(*whole), array(whole[-1]), array(whole[0], 1, 1)
        value = np.concatenate(arrays, axis).astype(kind)
        expected = np.maximum((full - (value * row).astype(kind)).astype(kind), one)
        (found,) = program([*arrays, row, full, one])
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


def test_a_product_keeps_its_epilogue() -> None:
    """The sum of a product and a concat is the product's, or its tiles would lie in memory first."""
    x, weight = drawn(4, 8), drawn(8, 32)
    w = ClusterWriter("epilogue")
    product = w.node("MatMul", w.tensor("x", x), w.weight("w", weight))
    left, right = (w.tensor(n, drawn(4, 16), known=[None, 16]) for n in ("left", "right"))
    joined = w.node("ConcatV2", left, right, w.constant(1), N=2)
    program = Program(
        compile_cluster(w.cluster(w.node("AddV2", product, joined)), target=TARGETS[-1])
    )
    assert any(name.startswith("matmul_add") for name in tasks(program))
