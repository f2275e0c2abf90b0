"""DiscLaunch nodes placed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

import tf_disc.ops.library as library


def ops() -> Any:
    """The op wrappers of the library."""
    return tf.load_op_library(str(Path(library.__file__).parents[1] / "lib" / "libtf_disc.so"))


def affine(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """What affine_kernel.c computes."""
    return tf.add(tf.multiply(x, 3.0), v)


X = tf.TensorSpec([None, None], tf.float32)
V = tf.TensorSpec([None], tf.float32)


def launch(
    cluster_id: str,
    body: Callable[..., Any] = affine,
    signature: Sequence[tf.TensorSpec] = (X, V),
    mode: str = "sync",
    **attributes: Any,
) -> Any:
    """A tf.function that is one DiscLaunch node whose outlined function is `body`."""
    concrete = tf.function(body, input_signature=list(signature)).get_concrete_function()
    result_types = [tensor.dtype for tensor in concrete.outputs]
    wrappers = ops()

    @tf.function(input_signature=list(signature), autograph=False)
    def run(*args: Any) -> Any:
        return wrappers.disc_launch(
            args=list(args),
            Tout=result_types,
            cluster=concrete,
            cluster_id=cluster_id,
            options=f"mode={mode}",
            **attributes,
        )[0]

    return run


def example(rows: int, columns: int = 5) -> tuple[Any, Any, Any]:
    """x, v and what `affine` makes of them."""
    rng = np.random.default_rng(rows * 100 + columns)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    v = rng.standard_normal(columns, dtype=np.float32)
    return x, v, (x * np.float32(3) + v).astype(np.float32)


def check(run: Any, rows: int, columns: int = 5) -> None:
    """Calls a launch of `affine` and compares its result."""
    x, v, expected = example(rows, columns)
    np.testing.assert_allclose(run(tf.constant(x), tf.constant(v)).numpy(), expected, rtol=1e-6)


class Statistics:
    """The launch statistics, read once."""

    def __init__(self, native: ModuleType) -> None:
        self.data: dict[str, Any] = json.loads(native.launch_statistics())

    def cluster(self, cluster_id: str) -> dict[str, Any]:
        found: dict[str, Any] = next(c for c in self.data["clusters"] if c["id"] == cluster_id)
        return found

    def reasons(self, cluster_id: str) -> dict[str, int]:
        found: dict[str, int] = self.cluster(cluster_id)["fallbacks"]
        return found

    def signature(self, cluster_id: str) -> dict[str, Any]:
        (only,) = self.cluster(cluster_id)["signatures"]
        result: dict[str, Any] = only
        return result
