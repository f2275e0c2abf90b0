"""Attention as Keras and people write it, in the real runtime: one group, TensorFlow's values at every size."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import tf_disc
from tf_disc.testing import assert_compiled

RNG = np.random.default_rng(7)
LENGTHS = (1, 2, 17, 64, 130)


def drawn(*shape):
    return tf.constant(RNG.normal(size=shape).astype(np.float32))


def multi_head(**kwargs):
    """A Keras layer of 4 heads over 32 numbers, built."""
    tf.keras.utils.set_random_seed(3)
    layer = tf.keras.layers.MultiHeadAttention(4, 8, **kwargs)
    layer(drawn(1, 3, 32), drawn(1, 3, 32))
    return layer


def heads(x, count):
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1], count, -1])


class AttentionTest(tf.test.TestCase):
    def groups(self, fn, *args):
        """The kinds of the groups that a function's clusters become."""
        with tempfile.TemporaryDirectory() as folder:
            with tf_disc.options(mode="sync", dump=folder):
                tf.function(fn)(*args)
            files = Path(folder).glob("*/*_groups.disc")
            lines = [line.split() for file in files for line in file.read_text().splitlines()]
        return [words[2] for words in lines if words and words[0] == "group"]

    def check(self, fn, *shapes, rtol=1e-4, atol=1e-5):
        """One attention group; equal values at all lengths."""
        arrays = [drawn(2, *shape) for shape in shapes]
        kinds = self.groups(fn, *arrays)
        assert kinds.count("attention") == 1, kinds
        signature = [tf.TensorSpec([None, None, *shape[1:]]) for shape in shapes]
        compiled = tf.function(fn, input_signature=signature)
        for length in LENGTHS:
            args = [drawn(2, length, *shape[1:]) for shape in shapes]
            assert_compiled(compiled, *args, rtol=rtol, atol=atol)

    def test_keras(self):
        layer = multi_head()
        self.check(lambda x: layer(x, x), (9, 32))

    def test_keras_causal(self):
        layer = multi_head()
        self.check(lambda x: layer(x, x, use_causal_mask=True), (40, 32))

    def test_keras_with_its_own_softmax(self):
        """With a dropout the layer takes its Softmax, which masks before and after."""
        layer = multi_head(dropout=0.1)
        self.check(lambda x: layer(x, x, use_causal_mask=True), (40, 32))
        layer = multi_head()
        self.check(
            lambda x: layer(x, x, use_causal_mask=True, return_attention_scores=True), (9, 32)
        )

    def test_keras_grouped_queries(self):
        tf.keras.utils.set_random_seed(3)
        layer = tf.keras.layers.GroupQueryAttention(8, 4, 2)
        layer(drawn(1, 3, 32), drawn(1, 3, 32))
        self.check(lambda x: layer(x, x), (9, 32))

    def test_equations(self):
        def fn(q, k, v):
            scores = tf.einsum("bshd,bthd->bhst", heads(q, 4), heads(k, 4)) * 0.35
            mixed = tf.einsum("bhst,bthd->bshd", tf.nn.softmax(scores), heads(v, 4))
            return tf.reshape(mixed, tf.shape(q))

        self.check(fn, (9, 32), (9, 32), (9, 32))

    def test_heads_repeated_by_hand(self):
        def fn(q, k, v):
            k, v = (tf.transpose(tf.repeat(heads(x, 2), 2, 2), [0, 2, 1, 3]) for x in (k, v))
            q = tf.transpose(heads(q, 4), [0, 2, 1, 3])
            scores = tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(8))
            length = tf.shape(scores)[-1]
            causal = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
            p = tf.nn.softmax(tf.where(causal > 0, scores, -np.inf))
            return tf.transpose(tf.matmul(p, v), [0, 2, 1, 3])

        self.check(fn, (9, 32), (9, 16), (9, 16))

    def test_rows_without_any_key(self):
        """TensorFlow gives NaN for a row of -inf."""

        def fn(q, k, v):
            scores = tf.matmul(q, k, transpose_b=True)
            first = tf.range(tf.shape(q)[1])[:, None] > tf.range(tf.shape(k)[1])[None]
            return tf.matmul(tf.nn.softmax(tf.where(first, scores, -np.inf)), v)

        self.check(fn, (40, 8), (40, 8), (40, 8))


if __name__ == "__main__":
    tf.test.main()
