"""A product by a weight with its epilogue runs by tiles of rows, or with few rows by columns: the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter, gelu, layer_norm
from tests.compiler.execute import NUMPY, RUNS_BF16, Program, host_target
from tf_disc.compiler.codegen.kernel import MIN_SHARE_ROWS
from tf_disc.compiler.pipeline import compile_cluster

RNG = np.random.default_rng(5)
INNER, COLUMNS = 40, 200
#: Of clusters.layer_norm.
EPSILON = 1e-5


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def epilogue(kind: str) -> tuple[dict[str, Any], list[Any]]:
    """A cluster of a product and what follows it, and its inputs but for x."""
    w = ClusterWriter(kind)
    x = w.tensor("x", normal(8, INNER))
    arrays = [normal(INNER, COLUMNS), normal(COLUMNS)]
    product = w.node("MatMul", x, w.weight("w", arrays[0]))
    y = w.node("BiasAdd", product, w.tensor("bias", arrays[1], known=[COLUMNS]))
    if kind == "gelu":
        return w.cluster(gelu(w, y)), arrays
    if kind == "layer_norm":
        arrays += [normal(COLUMNS), normal(COLUMNS)]
        scale, shift = (
            w.tensor(n, a, known=[COLUMNS]) for n, a in zip("gb", arrays[2:], strict=True)
        )
        return w.cluster(layer_norm(w, y, scale, shift)), arrays
    arrays.append(normal(INNER, COLUMNS))
    gate = w.node("MatMul", x, w.weight("gate", arrays[2]))
    return w.cluster(w.node("Mul", y, w.node("Sigmoid", gate))), arrays


@pytest.mark.parametrize("kind", ["gelu", "layer_norm", "gate"])
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_rows_around_the_border(kind: str, slots: int) -> None:
    cluster, arrays = epilogue(kind)
    program = Program(compile_cluster(cluster, target=host_target()), slots=slots)
    border = slots * MIN_SHARE_ROWS
    for rows in (0, 1, 3, border - 1, border, border + 1, 3 * border + 5):
        x = normal(rows, INNER)
        program.tasks_run.clear()
        (together,) = program([x, *arrays])
        # Few rows: the products first. With many, one loop does it all.
        products = len(program.gemms)
        assert len(program.tasks_run) == (1 if rows >= border else 1 + products)
        if rows > border:
            # Any of the rows, alone, go the other way.
            (alone,) = program([x[:3], *arrays])
            np.testing.assert_allclose(alone, together[:3], rtol=1e-5, atol=1e-5)
        expected = reference(kind, x, arrays)
        np.testing.assert_allclose(together, expected, rtol=1e-4, atol=1e-4)


def reference(kind: str, x: Any, arrays: list[Any]) -> Any:
    """In f64."""
    weights = [a.astype(np.float64) for a in arrays]
    y = x.astype(np.float64) @ weights[0] + weights[1]
    if kind == "gelu":
        return y * 0.5 * (1 + np.vectorize(math.erf)(y * np.sqrt(0.5))) if y.size else y
    if kind == "layer_norm":
        centred = y - y.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / deviation * weights[2] + weights[3]
    return y / (1 + np.exp(-(x @ weights[2])))


@pytest.mark.parametrize("precision", ["f32", *["bf16"] * RUNS_BF16])
def test_rows_that_are_parts_of_longer_ones(precision: str) -> None:
    """A slice is multiplied where it lies: the first token of each sentence, a part of the columns."""
    x, weight = normal(7, 6, INNER + 3), normal(INNER, COLUMNS)
    w = ClusterWriter("parts")
    part = w.node("Slice", w.tensor("x", x), w.constant([0, 2, 1]), w.constant([-1, 1, INNER]))
    flat = w.node("Reshape", part, w.constant([-1, INNER]))
    cluster = w.cluster(w.node("Relu", w.node("MatMul", flat, w.weight("w", weight))))
    artifact = compile_cluster(
        cluster,
        target=host_target(),
        features="+avx512bf16" if precision == "bf16" else "",
        precision=precision,
    )
    program = Program(artifact)
    assert len(program.gemms) == 1
    for rows in (0, 1, 5, 70):
        x = normal(rows, 6, INNER + 3)
        left, right = x[:, 2, 1 : 1 + INNER], weight
        if precision == "bf16":
            left, right = (a.astype(NUMPY["bf16"]).astype(np.float32) for a in (left, right))
        (found,) = program([x, weight])
        np.testing.assert_allclose(found, np.maximum(left @ right, 0), rtol=1e-5, atol=1e-5)
    if precision == "f32":
        names = [f[2] for f in program.facts if f[0] == "task"]
        assert not any("copy" in name for name in names)
