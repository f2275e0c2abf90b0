"""What is kept in a row buffer, and what is computed again: it depends on the work and on the row's size."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.codegen.costs import FAR_BYTES, is_worth_keeping
from tf_disc.compiler.ir.dims import Dim, as_dim


def test_the_decision_changes_with_cost_and_size() -> None:
    near, far, unknown = as_dim(FAR_BYTES), as_dim(FAR_BYTES + 4), Dim.symbol("columns")
    assert [is_worth_keeping(cost, near) for cost in (6, 7, 12, 13)] == [False, True, True, True]
    assert [is_worth_keeping(cost, far) for cost in (6, 7, 12, 13)] == [False, False, False, True]
    assert is_worth_keeping(7, unknown)


@pytest.mark.parametrize(
    ("op", "columns", "kept"),
    [
        # exp is kept wherever the buffer is, a negation nowhere.
        ("Exp", 1000, True),
        ("Exp", FAR_BYTES, True),
        ("Neg", 1000, False),
    ],
)
def test_a_normalised_function_of_the_input(op: str, columns: int, kept: bool) -> None:
    w = ClusterWriter("normalised")
    value = w.node(op, w.tensor("x", np.zeros((2, columns), np.float32), known=[None, columns]))
    total = w.node("Sum", value, w.constant([1]), keep_dims=True)
    _, _, (kernel,) = grouped(optimized(w.cluster(w.node("RealDiv", value, total))))
    buffer_bytes = columns * 4
    assert (kernel.scratch_bytes.value or 0) >= buffer_bytes or not kept
    assert (kernel.scratch_bytes.value or 0) < buffer_bytes or kept
