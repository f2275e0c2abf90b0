"""A whole model at each level of x86-64 that this CPU has."""

import numpy as np
import pytest
import tensorflow as tf

import tf_disc
from tests.compiler.execute import TARGETS
from tf_disc.testing import assert_compiled

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("level", TARGETS)
def test_results_are_tensorflows(level, dtype, tmp_path):
    number = TARGETS.index(level) + 2.0  # a function of its own: what is compiled stays

    def fn(x, weight):
        y = tf.tanh(tf.matmul(x, weight)) * number + tf.exp(-tf.square(x))
        return tf.nn.softmax(y - tf.reduce_mean(y, -1, keepdims=True))

    x, weight = (tf.constant(RNG.normal(size=(n, 37)), dtype) for n in (11, 37))
    with tf_disc.options(max_cpu=level, dump=str(tmp_path)):
        tolerance = 1e-2 if dtype == "float16" else 1e-4
        assert_compiled(fn, x, weight, rtol=tolerance, atol=tolerance)
    manifests = [path.read_text() for path in tmp_path.glob("**/manifest.txt")]
    assert manifests
    assert all(f"target {level}" in manifest for manifest in manifests)
