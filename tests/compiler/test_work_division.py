"""How kernels cut their work: sums down columns, and products without a batch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen.kernel import Kernel
from tf_disc.compiler.ir.graph import Graph
from tf_disc.compiler.pipeline import kernel_text

F32 = np.float32


def column_sum(*shape: int) -> Kernel:
    """A sum over all axes but the last, too short to be cut into chunks."""
    w = ClusterWriter("column_sum")
    x = w.tensor("x", np.zeros(shape, F32), list(shape))
    axes = list(range(len(shape) - 1))
    total = w.node("Sum", w.node("Square", x), w.constant(axes), keep_dims=False)
    (kernel,) = grouped(optimized(w.cluster(total)))[2]
    return kernel


def product(m: int, k: int, n: int) -> tuple[Graph, Kernel]:
    w = ClusterWriter("product")
    a = w.tensor("a", np.zeros((m, k), F32), [None, None])
    b = w.tensor("b", np.zeros((k, n), F32), [None, None])
    graph = optimized(w.cluster(w.node("MatMul", a, b, transpose_a=False, transpose_b=False)))
    (kernel,) = grouped(graph)[2]
    return graph, kernel


def sizes_of(graph: Graph, shapes: list[tuple[int, ...]]) -> dict[str, int]:
    return {name: shapes[s.input][s.index] for name, s in graph.symbols.items()}


def test_a_few_columns_are_work_for_several_threads() -> None:
    assert column_sum(48, 2048).count == 4
    assert column_sum(48, 64).count == 1
    # Over several axes at once there are no strips, but cache lines.
    assert column_sum(6, 8, 64).count == 4


def test_the_cost_of_a_sum_grows_with_the_columns_length() -> None:
    short, long = (column_sum(rows, 64).item_cost.value for rows in (2, 48))
    assert short is not None and long is not None and long > 2 * short


def test_sums_down_columns_divide_no_positions() -> None:
    text = kernel_text(column_sum(2, 3, 4, 64))
    assert "idiv" not in text and "imod" not in text


def test_a_sum_of_everything_divides_no_positions() -> None:
    """Chunks of all elements cut rows anywhere, which matters to nobody: x * x is read from dense memory."""
    w = ClusterWriter("sum")
    x = w.tensor("x", np.zeros((700, 500), F32), [None, None])
    total = w.node("Sum", w.node("Square", x), w.constant([0, 1]), keep_dims=False)
    chunks, _ = grouped(optimized(w.cluster(total)))[2]
    assert "idiv" not in kernel_text(chunks) and "imod" not in kernel_text(chunks)


@pytest.mark.parametrize(
    ("m", "k", "n", "items"),
    [
        (16, 1024, 1024, 8),  # few rows: columns are cut
        (1, 10, 10, 1),  # too little to cut
        (64, 768, 768, 6),  # no fewer than 128 columns
        (200, 512, 512, 4 * 2),  # rows and columns
        (1024, 512, 512, 16),  # rows are enough
        (0, 5, 7, 0),
    ],
)
def test_products_of_few_rows_are_cut_by_columns(m: int, k: int, n: int, items: int) -> None:
    graph, kernel = product(m, k, n)
    assert kernel.count.evaluate(sizes_of(graph, [(m, k), (k, n)])) == items
