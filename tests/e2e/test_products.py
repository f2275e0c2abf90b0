"""Products in the real runtime: their element types, weights of more than two axes, and what is built on them."""

import numpy as np
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted
from tf_disc.testing import assert_compiled

RNG = np.random.default_rng(5)


def drawn(dtype, *shape):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return tf.constant(RNG.integers(info.min, info.max, shape, dtype))
    return tf.constant(RNG.normal(size=shape).astype(dtype))


class ProductTest(tf.test.TestCase):
    def test_element_types(self):
        for dtype in (np.float64, np.int32, np.int64):
            for m, k, n in ((65, 130, 33), (1, 300, 7), (200, 3, 50)):
                a, b = drawn(dtype, m, k), drawn(dtype, n, k)
                assert_compiled(
                    lambda a, b: tf.matmul(a, b, transpose_b=True) * 2 - 1, a, b, rtol=1e-12
                )

    def test_batches(self):
        for dtype in (np.float64, np.int32, np.int64):
            a, b = drawn(dtype, 3, 1, 19, 8), drawn(dtype, 4, 8, 21)
            assert_compiled(lambda a, b: tf.matmul(a, b) + 1, a, b, rtol=1e-12)

    def test_nothing_to_sum_gives_zeros(self):
        for dtype in (np.float32, np.float64, np.int64):
            a, b = drawn(dtype, 5, 0), drawn(dtype, 0, 7)
            assert_compiled(lambda a, b: tf.matmul(a, b) + 3, a, b)

    def test_short_floats(self):
        for dtype, tolerance in ((tf.float16, 2e-3), (tf.bfloat16, 2e-2)):
            a = tf.cast(drawn(np.float32, 17, 40), dtype)
            b = tf.cast(drawn(np.float32, 40, 9), dtype)
            assert_compiled(
                lambda a, b: tf.nn.relu(tf.matmul(a, b)), a, b, rtol=tolerance, atol=tolerance
            )

    def test_einsum_with_a_weight_of_three_axes(self):
        heads = tf.Variable(drawn(np.float32, 48, 4, 12))

        def fn(x):
            q = tf.einsum("abc,cde->abde", x, heads)
            scores = tf.nn.softmax(tf.einsum("aecd,abcd->acbe", q, q))
            return tf.einsum("acbe,aecd->abcd", scores, q)

        for batch, words in ((2, 7), (1, 33)):
            x = tf.constant(RNG.normal(size=(batch, words, 48)).astype(np.float32) * 0.1)
            assert_compiled(fn, x, rtol=1e-4, atol=1e-5)


class TrainingTest(tf.test.TestCase):
    def test_a_step_runs_in_kernels_at_every_size(self):
        first, second = (
            tf.Variable(drawn(np.float32, 20, 32) * 0.2),
            tf.Variable(drawn(np.float32, 32, 5) * 0.2),
        )
        bias = tf.Variable(tf.zeros(32))

        def step(x, labels):
            with tf.GradientTape() as tape:
                hidden = tf.nn.relu(tf.matmul(x, first) + bias)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, tf.matmul(hidden, second)
                )
                loss = tf.reduce_mean(losses)
            return [loss, *tape.gradient(loss, [first, bias, second])]

        signature = [tf.TensorSpec([None, 20]), tf.TensorSpec([None], tf.int32)]
        compiled = tf.function(step, input_signature=signature)
        with tf_disc.options(mode="sync"), counted() as counts:
            for rows in (32, 7, 1, 19):
                x = drawn(np.float32, rows, 20)
                labels = tf.constant(RNG.integers(0, 5, rows, np.int32))
                expected = step(x, labels)
                found = compiled(x, labels)
                for f, e in zip(found, expected, strict=True):
                    np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5)
        self.assertGreaterEqual(counts["kernel_runs"], 4)
        self.assertEqual(counts["fallbacks"], 0)

    def test_a_label_that_is_no_class_is_tensorflows_error(self):
        @tf.function
        def fn(x, labels):
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.tanh(x) * 2 + 1)

        x = drawn(np.float32, 4, 3)
        with tf_disc.options(mode="sync"):
            fn(x, tf.constant([0, 1, 2, 0]))
            with self.assertRaisesRegex(
                tf.errors.InvalidArgumentError, "label value of 3 which is outside the valid range"
            ):
                fn(x, tf.constant([0, 1, 2, 3]))
