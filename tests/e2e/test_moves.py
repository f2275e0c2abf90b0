"""Padding, repetition, picks, running sums and scatters in the real runtime, with counts that come with the call."""

import numpy as np
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted

RNG = np.random.default_rng(5)
NUMBER = tf.TensorSpec([], tf.int32)
MATRIX = tf.TensorSpec([None, None], tf.float32)


def drawn(*shape):
    return tf.constant(RNG.normal(size=shape).astype("f4"))


class MovesTest(tf.test.TestCase):
    def compiled(self, fn, signature, calls, compiles=1):
        """Every call gives what TensorFlow's ops give one by one, from kernels of so many compiles."""
        function = tf.function(fn, input_signature=signature)
        with tf_disc.options(mode="sync", never_slower=False), counted() as counts:
            for args in calls:
                found, expected = function(*args), fn(*args)
                for f, e in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
                    np.testing.assert_array_equal(f, e)
        self.assertGreaterEqual(counts["kernel_runs"], len(calls))
        self.assertEqual((counts["fallbacks"], counts["compiles"]), (0, compiles))

    def test_paddings_are_read_in_the_call(self):
        def fn(x, paddings):
            return tf.pad(tf.nn.relu(x) * 2, paddings), tf.pad(x, paddings, constant_values=1.5) + 1

        calls = [
            (drawn(*shape), tf.constant(pairs))
            for shape, pairs in (
                ((3, 5), [[1, 2], [0, 3]]),
                ((7, 33), [[0, 0], [40, 1]]),
                ((1, 1), [[3, 0], [0, 0]]),
                ((0, 4), [[0, 2], [1, 0]]),
            )
        ]
        # Two clusters: the results share an input alone.
        self.compiled(fn, [MATRIX, tf.TensorSpec([2, 2], tf.int32)], calls, compiles=2)

    def test_to_a_length_that_is_computed(self):
        def fn(x, length):
            missing = length - tf.shape(x)[0]
            return tf.pad(x * 2, [[0, missing], [0, 0]]) + 1

        calls = [(drawn(n, 6), tf.constant(m)) for n, m in ((3, 10), (10, 10), (1, 130), (0, 2))]
        self.compiled(fn, [MATRIX, NUMBER], calls)

    def test_repetition_and_classes(self):
        def fn(x, times, depth):
            classes = tf.cast(tf.abs(x) * 3, tf.int32)
            return tf.tile(x + 1, [times, 2]), tf.one_hot(classes, depth) * 2

        calls = [
            (drawn(*s), tf.constant(t), tf.constant(d))
            for s, t, d in (((3, 5), 2, 4), ((1, 33), 1, 1), ((2, 130), 5, 9), ((4, 7), 3, 2))
        ]
        self.compiled(fn, [MATRIX, NUMBER, NUMBER], calls, compiles=2)

    def test_rows_of_a_variable_by_tuples(self):
        table = tf.Variable(drawn(20, 3, 8))

        def fn(x, at):
            return tf.gather_nd(table, at) * 2 + x

        calls = [(drawn(n, 8), np.stack([RNG.integers(0, 20, n), RNG.integers(0, 3, n)], 1).astype("i4"))
                 for n in (5, 1, 64)]  # fmt: skip
        self.compiled(fn, [MATRIX, tf.TensorSpec([None, 2], tf.int32)], calls)

    def test_running_sums_and_segments(self):
        def fn(x, ids, count):
            y = tf.cumsum(x * 2, axis=0, exclusive=True) + tf.cumsum(x, axis=1, reverse=True)
            return y, tf.math.unsorted_segment_sum(x + 1, ids, count)

        calls = [
            (drawn(n, m), tf.constant(RNG.integers(-1, 4, n).astype("i4")), tf.constant(4))
            for n, m in ((7, 3), (1, 1), (130, 33), (0, 5))
        ]
        self.compiled(fn, [MATRIX, tf.TensorSpec([None], tf.int32), NUMBER], calls, compiles=2)

    def test_an_index_out_of_range_is_tensorflows_error(self):
        @tf.function(input_signature=[MATRIX, tf.TensorSpec([None, 1], tf.int32)])
        def fn(x, at):
            return tf.tensor_scatter_nd_add(tf.tanh(x), at, tf.gather_nd(x * 2, at)) + 1

        x = drawn(5, 3)
        with tf_disc.options(mode="sync"):
            fn(x, tf.constant([[1], [4], [1]]))
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "does not index into"):
                fn(x, tf.constant([[1], [5]]))


IDS = tf.constant([0, 3, 1, 3, 0, 2])
MOVES = {
    "prod": lambda x: tf.reduce_prod(x, 0),
    "prod of all": lambda x: tf.reduce_prod(x, [0, 1]),
    "tile": lambda x: tf.tile(x, [2, 3]),
    "gather": lambda x: tf.gather(tf.tanh(x), IDS, axis=1),
    "pick": lambda x: tf.gather_nd(tf.tanh(x), IDS[:, None]),
    "pad": lambda x: tf.pad(x, [[1, 2], [0, 3]]),
    "mirror": lambda x: tf.pad(x, [[1, 1], [0, 1]], mode="REFLECT"),
    "concat": lambda x: tf.concat([x, 2 * x, x[:, :2]], 1),
    "split": lambda x: tf.split(x, [1, -1], 1)[1],
    "strides": lambda x: x[1:, ::2],
    "slice": lambda x: tf.slice(x, [1, 0], [-1, 2]),
    "roll": lambda x: tf.roll(x, [1], [0]),
    "products so far": lambda x: tf.math.cumprod(x, 1),
    "segments": lambda x: tf.math.unsorted_segment_sum(x, IDS, 4),
    "largest of segments": lambda x: tf.math.unsorted_segment_max(x, IDS, 4),
    "scatter": lambda x: tf.tensor_scatter_nd_add(x, IDS[:, None], tf.gather(x, IDS) * 2),
}


class GradientsTest(tf.test.TestCase):
    def test_gradients_of_moves_run_in_kernels(self):
        for name, move in MOVES.items():

            def gradient(x, move=move):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = tf.reduce_sum(tf.square(move(x)))
                return tf.convert_to_tensor(tape.gradient(y, x))

            with self.subTest(name), tf_disc.options(mode="sync"), counted() as counts:
                function = tf.function(gradient, input_signature=[MATRIX])
                x = drawn(6, 4)
                np.testing.assert_allclose(function(x), gradient(x), rtol=1e-4, atol=1e-5)
            self.assertGreaterEqual(counts["kernel_runs"], 1, name)
            self.assertEqual(counts["fallbacks"], 0, name)


if __name__ == "__main__":
    tf.test.main()
