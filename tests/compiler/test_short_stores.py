"""Rows whose last vector holds one lane, of elements narrower than a register's: nothing is written past them.

LLVM makes a whole wide store of a masked one when it sees such a mask; the harness fences the outputs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, TARGETS, Program
from tf_disc.compiler.pipeline import compile_cluster


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 9, 15, 17, 33])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "u8", "i16", "bool", "i32"])
def test_nothing_is_written_past_a_row(dtype: str, columns: int, target: str) -> None:
    w = ClusterWriter()
    x = (
        np.random.default_rng(0)
        .integers(0, 9, (5, columns))
        .astype(np.int64 if dtype == "i32" else np.float32)
    )
    value = w.tensor("x", x, [None, columns])
    peak = w.node("Max", value, w.constant([1]), keep_dims=True)
    short = w.node(
        "Cast", w.node("Sub", peak, value), SrcT="i64" if dtype == "i32" else "f32", DstT=dtype
    )
    program = Program(compile_cluster(w.cluster(short), target=target))
    np.testing.assert_array_equal(
        program([x])[0], (x.max(1, keepdims=True) - x).astype(NUMPY[dtype])
    )
