"""Groups of a few elements are a part of the host program: no loop, no task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import GuardFailed, Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.pipeline import compile_cluster, kernel_text

F32 = np.float32


def chain(shape: tuple[int, ...], known: list[int | None]) -> dict[str, Any]:
    """(n * 3 + 1) // k, for integers that come as data: of rank 2, since those of lower rank may be sizes."""
    w = ClusterWriter("chain")
    n = w.tensor("n", np.zeros(shape, np.int32), known)
    k = w.tensor("k", np.ones((1, 1), np.int32), [1, 1])
    product = w.node("AddV2", w.node("Mul", n, w.constant(3)), w.constant(1))
    return w.cluster(w.node("FloorDiv", product, k))


def program(cluster: dict[str, Any], dump: str = "") -> Program:
    return Program(compile_cluster(cluster, target=host_target(), dump=dump))


@pytest.mark.parametrize("shape", [(1, 1), (2, 8), (16, 1)])
@pytest.mark.parametrize("k", [2, -3])
def test_a_few_elements_are_no_task(shape: tuple[int, ...], k: int) -> None:
    run = program(chain(shape, list(shape)))
    n = (np.arange(-5, 11, dtype=np.int32)[: int(np.prod(shape))]).reshape(shape)
    (result,) = run([n, np.full((1, 1), k, np.int32)])
    np.testing.assert_array_equal(result, (n * 3 + 1) // k)
    assert run.tasks_run == []


@pytest.mark.parametrize(
    ("shape", "known"), [((17, 1), [17, 1]), ((3, 1), [None, 1])], ids=["more", "unknown"]
)
def test_others_are_tasks(shape: tuple[int, ...], known: list[int | None]) -> None:
    run = program(chain(shape, known))
    n = np.arange(shape[0], dtype=np.int32).reshape(shape)
    (result,) = run([n, np.full((1, 1), 2, np.int32)])
    np.testing.assert_array_equal(result, (n * 3 + 1) // 2)
    assert run.tasks_run == [0]


def test_of_no_elements_nothing_runs() -> None:
    """Not even the division's check, as TensorFlow has none to divide."""
    run = program(chain((0, 1), [0, 1]))
    (result,) = run([np.zeros((0, 1), np.int32), np.zeros((1, 1), np.int32)])
    assert result.shape == (0, 1) and run.tasks_run == []


def test_what_is_checked_leaves_the_call() -> None:
    run = program(chain((1, 1), [1, 1]))
    seven = np.full((1, 1), 7, np.int32)
    with pytest.raises(GuardFailed):
        run([seven, np.zeros((1, 1), np.int32)])
    (result,) = run([seven, np.full((1, 1), 5, np.int32)])
    assert result == [[4]]


def test_a_row_of_a_table_is_taken_without_a_task() -> None:
    """An index of one element, computed from data, and the elements it names."""
    w = ClusterWriter("row")
    table = w.tensor("table", np.zeros((10, 4), F32), [None, 4])
    at = w.node("Sub", w.tensor("at", np.zeros(1, np.int32), [1]), w.constant(2))
    rows = w.node("GatherV2", table, at, w.constant(0), batch_dims=0)
    run = program(w.cluster(w.node("Tanh", rows), at))
    values = np.linspace(-1, 1, 40, dtype=F32).reshape(10, 4)
    result, index = run([values, np.array([9], np.int32)])
    np.testing.assert_allclose(result, np.tanh(values[[7]]), rtol=1e-6)
    assert index == [7] and run.tasks_run == []
    with pytest.raises(GuardFailed):
        run([values, np.array([1], np.int32)])


def test_reductions_count_what_they_read() -> None:
    """A sum of many elements is one number, and no small work."""
    runs = {}
    for length in (8, 64):
        w = ClusterWriter("sum")
        x = w.tensor("x", np.zeros(length, F32), [length])
        runs[length] = program(w.cluster(w.node("Sum", w.node("Square", x), w.constant([0]))))
        (result,) = runs[length]([np.arange(length, dtype=F32)])
        assert result == float(np.sum(np.arange(length) ** 2))
    assert runs[8].tasks_run == [] and runs[64].tasks_run != []


def test_between_loops() -> None:
    """Small groups and loops in one program read each other's results."""
    w = ClusterWriter("between")
    x = w.tensor("x", np.zeros((5, 40), F32), [None, 40])
    total = w.node("Sum", w.node("Square", x), w.constant([0, 1]), keep_dims=False)
    scale = w.node("Rsqrt", w.node("AddV2", total, w.constant(1.0, "f32")))
    run = program(w.cluster(w.node("Mul", x, scale)))
    values = np.random.default_rng(1).normal(size=(5, 40)).astype(F32)
    (result,) = run([values])
    expected = values / np.sqrt(np.sum(values.astype(np.float64) ** 2) + 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_one_element_is_scalar_code(tmp_path: Path) -> None:
    """And LLVM makes it a part of the entry: no function of a task is left."""
    cluster = chain((1, 1), [1, 1])
    (kernel,) = grouped(optimized(cluster))[2]
    text = kernel_text(kernel)
    assert "vfor" not in text and "v.i32" not in text
    program(cluster, str(tmp_path))
    (optimized_text,) = (p.read_text() for p in tmp_path.glob("*_optimize.ll"))
    assert "@task_0" not in optimized_text and "alloca" not in optimized_text
