"""precision="bf16" in TensorFlow: what is rounded, what is not, and what it does to results people look at."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_disc
from examples.minilm import MiniLm, SentenceTokenizer, package_folder
from examples.sentences import all_texts
from tests.e2e.counting import counted

RNG = np.random.default_rng(7)

#: Without the hardware precision=bf16 has no effect, as the report says; the results are then f32's, and tests of
#: their bits have nothing to look at.
HAS_BF16 = "+avx512bf16" in tf_disc.ops.library.load_library().host_target()[1].split(",")
needs_bf16 = pytest.mark.skipif(not HAS_BF16, reason="this CPU has no AVX512-BF16")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def short(x: np.ndarray) -> np.ndarray:
    return tf.cast(tf.cast(x, tf.bfloat16), tf.float32).numpy()


def dense(weight: tf.Variable, number: float):
    """A fresh function: what is traced keeps its options."""
    return tf.function(lambda x: tf.nn.relu(tf.matmul(x, weight)) + number)


@needs_bf16
def test_variables_constants_and_activations_are_rounded():
    x, weight, other = normal(33, 96), normal(96, 80), normal(33, 96)
    exact = short(x) @ short(weight)
    variable = tf.Variable(weight)
    with tf_disc.options(precision="bf16"), counted() as counts:
        fn = dense(variable, 0.5)
        # Unpacked at first, then from the packed copy: the same rounding.
        results = [fn(tf.constant(x)).numpy() for _ in range(5)]
        gram = tf.function(lambda a, b: tf.tanh(tf.matmul(a, b, transpose_b=True)) * 0.5 + 1.0)
        scores = gram(tf.constant(x * 0.1), tf.constant(other * 0.1)).numpy()
    assert counts["kernel_runs"] == 6 and counts["fallbacks"] == 0
    for result in results:
        np.testing.assert_allclose(result, np.maximum(exact, 0) + 0.5, rtol=1e-5, atol=1e-5)
    expected = np.tanh(short(x * 0.1) @ short(other * 0.1).T) * 0.5 + 1
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    # And rounding is not what f32 gives.
    assert np.abs(np.maximum(x @ weight, 0) + 0.5 - results[0]).max() > 1e-3


@pytest.mark.parametrize("option", [{"f32_ops": ["MatMul"]}, {"f32_nodes": ["*kept*"]}])
def test_denied_ops_and_nodes_keep_f32(option):
    x, weight = normal(9, 96), normal(96, 80)
    variable = tf.Variable(weight)

    @tf.function
    def fn(x):
        return tf.nn.relu(tf.matmul(x, variable, name="kept")) + 0.25 * len(option)

    with tf_disc.options(precision="bf16", **option), counted() as counts:
        result = fn(tf.constant(x)).numpy()
    assert counts["kernel_runs"] == 1
    np.testing.assert_allclose(result, np.maximum(x @ weight, 0) + 0.25, rtol=1e-5, atol=1e-5)


def test_a_variable_that_is_assigned_gives_the_new_product():
    x, weight = normal(5, 64), normal(64, 48)
    variable = tf.Variable(weight)
    with tf_disc.options(precision="bf16"):
        fn = dense(variable, 0.75)
        for step in range(8):
            rounded = short if HAS_BF16 else np.asarray
            expected = np.maximum(rounded(x) @ rounded(variable.numpy()), 0) + 0.75
            for _ in range(step):
                found = fn(tf.constant(x)).numpy()
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
            variable.assign_add(tf.ones_like(variable) * 3.0)


def test_mixed_bfloat16_models_run_and_agree_with_tensorflow():
    policy = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        tf.keras.utils.set_random_seed(3)
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input((40,)),
                tf.keras.layers.Dense(64, activation="gelu"),
                tf.keras.layers.LayerNormalization(),
                tf.keras.layers.Dense(32, activation="relu"),
                tf.keras.layers.Dense(10, dtype="float32", activation="softmax"),
            ]
        )
    finally:
        tf.keras.mixed_precision.set_global_policy(policy)
    x = tf.constant(normal(23, 40))
    with tf_disc.options(enabled=False):
        expected = tf.function(lambda x: model(x))(x).numpy()
    with counted() as counts:
        fn = tf.function(lambda x: model(x))
        found = [fn(x).numpy() for _ in range(5)]
    assert counts["kernel_runs"] > 0 and counts["fallbacks"] == 0
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-3)


def test_embeddings_of_the_demo_agree_and_rank_alike():
    texts = all_texts()[:48]
    model = MiniLm(package_folder())
    ids, mask = SentenceTokenizer(package_folder())(texts)
    embeddings = {}
    for precision in ("f32", "bf16"):
        with tf_disc.options(precision=precision), counted() as counts:
            # The Python function, so that each precision traces its own.
            serve = tf.function(model.serve.python_function, reduce_retracing=True)
            embeddings[precision] = serve(tf.constant(ids), tf.constant(mask))["embedding"].numpy()
        assert counts["kernel_runs"] > 0 and counts["fallbacks"] == 0
    cosines = (embeddings["f32"] * embeddings["bf16"]).sum(-1)
    assert cosines.min() >= 0.9995
    nearest = {}
    for precision, found in embeddings.items():
        similarity = found @ found.T
        np.fill_diagonal(similarity, -1)
        nearest[precision] = similarity.argmax(1)
    np.testing.assert_array_equal(nearest["f32"], nearest["bf16"])
