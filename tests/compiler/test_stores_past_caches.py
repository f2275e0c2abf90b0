"""Large outputs are written past the caches: the same values, and nothing of it where lines would be cut."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen import kernel
from tf_disc.compiler.ir.text import print_block
from tf_disc.compiler.pipeline import compile_cluster

TARGETS = sorted({"x86-64-v3", host_target()})


def _scaled(dtype: str, columns: int | None) -> ClusterWriter:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((5, columns or 64), NUMPY[dtype]), [None, columns])
    scale = w.tensor("scale", np.zeros(columns or 64, NUMPY[dtype]), [columns])
    w.node("Mul", x, scale, name="scaled")
    w.node("Neg", x, name="negated")
    return w


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("known", [True, False])
def test_values_do_not_change(
    monkeypatch: pytest.MonkeyPatch, known: bool, dtype: str, target: str
) -> None:
    monkeypatch.setattr(kernel, "PAST_CACHES", 1000)
    for columns in (16, 48, 50, 64, 128, 131, 150, 257):
        cluster = _scaled(dtype, columns if known else None).cluster("scaled:0", "negated:0")
        program = Program(compile_cluster(cluster, target=target))
        for rows in (0, 1, 3, 40):
            x = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(NUMPY[dtype])
            scale = np.arange(columns).astype(NUMPY[dtype])
            scaled, negated = program([x, scale])
            np.testing.assert_array_equal(scaled, x * scale, strict=True)
            np.testing.assert_array_equal(negated, -x, strict=True)


def test_only_where_rows_are_whole_lines_and_elements_are_not_narrow() -> None:
    def stores(dtype: str, columns: int | None) -> int:
        cluster = _scaled(dtype, columns).cluster("scaled:0")
        (built,) = grouped(optimized(cluster))[2]
        text = print_block(built.body)
        assert text.count("fence()") == text.count("store_past_caches(")
        return text.count("store_past_caches(")

    assert stores("f32", 64) == stores("f32", None) == 1
    assert stores("f32", 50) == stores("i16", 64) == 0
    assert stores("f32", 150) == 1


@pytest.mark.parametrize("known", [True, False])
def test_long_rows_that_begin_anywhere(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """Softmax, whose last phase alone is cut, with an output of wider elements beside it, for which rows begin elsewhere."""
    monkeypatch.setattr(kernel, "PAST_CACHES", 1000)
    for columns in (49, 128, 130, 150, 1000):
        w = ClusterWriter()
        x = w.tensor("x", np.zeros((5, columns), np.float32), [None, columns if known else None])
        w.node("Softmax", x, name="soft")
        w.node("Cast", w.node("Neg", x), name="wide", SrcT="f32", DstT="f64")
        for outputs in (("soft:0",), ("soft:0", "wide:0")):
            cluster = w.cluster(*outputs)
            built = [print_block(k.body) for k in grouped(optimized(cluster))[2]]
            assert not known or any("store_past" in t for t in built) == (columns >= 128)
            program = Program(compile_cluster(cluster, target=host_target()))
            for rows in (1, 2, 17):
                values = np.random.default_rng(rows).normal(size=(rows, columns))
                given = values.astype(np.float32)
                found = program([given])
                exponentials = np.exp(given.astype(np.float64))
                wanted = exponentials / exponentials.sum(-1, keepdims=True)
                np.testing.assert_allclose(found[0], wanted, rtol=1e-5)
                if len(outputs) == 2:
                    np.testing.assert_array_equal(found[1], -given.astype(np.float64))
