"""Operands that a kernel's math does not cover: the call is TensorFlow's, and no sooner than stated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import GuardFailed, Program, host_target
from tf_disc.compiler.pipeline import compile_cluster


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("op", "function"), [("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)])
def test_trigonometry_of_large_numbers(op: str, function: np.ufunc, dtype: type) -> None:
    w = ClusterWriter()
    x = np.linspace(-3.0, 3.0, 37).astype(dtype)
    program = Program(
        compile_cluster(w.cluster(w.node(op, w.tensor("x", x))), target=host_target())
    )
    x[5], x[6], x[36] = 2.0**40, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = function(x.astype(np.float64))
    (found,) = program([x])
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0.0)
    for at in (0, 36):
        x[at] = -np.nextafter(dtype(2.0**40), dtype(np.inf))
        with pytest.raises(GuardFailed):
            program([x])
        x[at] = 0.0
