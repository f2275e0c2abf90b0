"""tf.function: nested calls, control flow, gradients, sizes, threads, errors."""

import threading

import numpy as np
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted
from tf_disc.testing import assert_compiled

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def chain(x):
    """Enough arithmetic to be worth a cluster."""
    y = tf.tanh(x) * 1.5 + tf.exp(-tf.square(x))
    return tf.nn.softmax(y - tf.reduce_mean(y, -1, keepdims=True))


class FunctionTest(tf.test.TestCase):
    def test_chain(self):
        assert_compiled(chain, tf.constant(normal(7, 33)))

    def test_functions_called_by_functions(self):
        inner = tf.function(chain)
        middle = tf.function(lambda x: inner(x) + inner(x * 2))
        assert_compiled(middle, tf.constant(normal(5, 17)))

    def test_cond_branches(self):
        def fn(x, flag):
            return tf.cond(flag, lambda: chain(x), lambda: chain(-x) * 3)

        x = tf.constant(normal(4, 19))
        assert_compiled(fn, x, tf.constant(True))
        assert_compiled(fn, x, tf.constant(False))

    def test_while_body(self):
        def fn(x):
            return tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, chain(y)), (0, x))[1]

        assert_compiled(fn, tf.constant(normal(3, 21)))

    def test_dense_layer_with_variables(self):
        weight, bias = tf.Variable(normal(40, 24)), tf.Variable(normal(24))

        def fn(x):
            return tf.nn.gelu(tf.nn.bias_add(tf.matmul(x, weight), bias))

        assert_compiled(fn, tf.constant(normal(9, 40)), rtol=1e-4)

    def test_a_const_weight_is_packed_at_the_first_call(self):
        weight = normal(64, 48)
        variable = tf.Variable(weight)
        x = tf.constant(normal(9, 64))
        packs = []
        for value in (lambda: tf.constant(weight), lambda: variable):
            fn = tf.function(lambda x, value=value: tf.nn.gelu(tf.matmul(x, value())) * 1.75)
            before = tf_disc.report().as_dict()["weights"]["packs"]
            fn(x)
            packs.append(tf_disc.report().as_dict()["weights"]["packs"] - before)
        self.assertEqual(packs, [1, 0])

    def test_gradient(self):
        weight = tf.Variable(normal(12, 8))

        def fn(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, weight))))
            return tape.gradient(loss, weight)

        assert_compiled(fn, tf.constant(normal(6, 12)), rtol=1e-4)

    def test_variable_updated_between_calls(self):
        weight = tf.Variable(normal(16, 16))
        fn = tf.function(lambda x: tf.nn.relu(tf.matmul(x, weight)) + 1.0)
        x = normal(5, 16)
        with counted() as counts:
            for step in range(6):
                weight.assign(normal(16, 16) if step % 2 else weight * 0.5)
                expected = np.maximum(x @ weight.numpy(), 0) + 1
                self.assertAllClose(fn(tf.constant(x)), expected, rtol=1e-4, atol=1e-5)
        self.assertGreater(counts["kernel_runs"], 0)

    def test_the_same_variable_or_another(self):
        """A launch's variables change from call to call: which of its inputs are one, and their order in memory."""
        handle = tf.TensorSpec([], tf.resource)

        @tf.function(input_signature=[handle, handle, handle, tf.TensorSpec([None], tf.int32)])
        def fn(a, b, c, ids):
            rows = [
                tf.raw_ops.ResourceGather(resource=h, indices=ids, dtype=tf.float32)
                for h in (a, b, c)
            ]
            return tf.tanh(rows[0]) * 4.0 + tf.tanh(rows[1]) * 2.0 + tf.tanh(rows[2])

        variables = [tf.Variable(normal(9, 5)) for _ in range(3)]
        ids = tf.constant([3, 0, 8])
        values = [np.tanh(v.numpy()[ids.numpy()]) for v in variables]
        orders = np.random.default_rng(5).integers(0, 3, (60, 3))
        with counted() as counts:
            for i, j, k in orders.tolist():
                found = fn(variables[i].handle, variables[j].handle, variables[k].handle, ids)
                self.assertAllClose(
                    found, 4 * values[i] + 2 * values[j] + values[k], rtol=1e-5, atol=1e-5
                )
        self.assertEqual(counts["kernel_runs"], len(orders))

    def test_every_size_one_compile(self):
        # A factor that no other test has: equal clusters share a kernel.
        signature = [tf.TensorSpec([None, None], tf.float32)]
        fn = tf.function(lambda x: chain(x) * 7.0, input_signature=signature)
        with counted() as counts:
            for rows, columns in [(4, 8), (1, 8), (0, 8), (3, 1), (1, 1), (257, 33), (2, 4097)]:
                x = normal(rows, columns)
                expected = reference_chain(x) * 7
                self.assertAllClose(fn(tf.constant(x)), expected, rtol=1e-5, atol=1e-5)
        self.assertEqual(counts["clusters"], 1)
        self.assertEqual(counts["compiles"], 1)
        self.assertEqual(counts["fallbacks"], 0)
        self.assertGreater(counts["kernel_runs"], 0)

    def test_forty_lengths_one_compile(self):
        signature = [tf.TensorSpec([None, 64], tf.float32)]
        fn = tf.function(lambda x: chain(x) * 40.0, input_signature=signature)
        with counted() as counts:
            for length in range(1, 41):
                fn(tf.constant(normal(length, 64)))
        self.assertEqual(counts["clusters"], 1)
        self.assertEqual(counts["compiles"], 1)
        self.assertEqual(counts["kernel_runs"], 40)

    def test_axes_computed_of_the_rank(self):
        """One cluster, compiled once a rank: the axes are constants while it compiles."""

        def fn(x):
            y = chain(x) * 3.5
            turned = tf.transpose(y, tf.rank(y) - 1 - tf.range(tf.rank(y)))
            total = tf.reduce_sum(tf.exp(turned), tf.range(0, tf.rank(turned)))
            return total, tf.tanh(turned)

        compiled = tf.function(fn, input_signature=[tf.TensorSpec(None, tf.float32)])
        with counted() as counts:
            for shape in [(3, 4, 5), (2, 1, 7), (6, 5), (1, 1), (0, 3)]:
                x = normal(*shape)
                y = reference_chain(x) * 3.5
                total, turned = compiled(tf.constant(x))
                self.assertAllClose(total, np.exp(y).sum(), rtol=1e-4, atol=1e-5)
                self.assertAllClose(turned, np.tanh(y).T, rtol=1e-4, atol=1e-5)
        self.assertEqual(counts["clusters"], 1)
        self.assertEqual(counts["compiles"], 2)
        self.assertEqual(counts["fallbacks"], 0)

    def test_training_step_of_any_batch(self):
        """Which axes a bias was repeated along follows from shapes that only the call knows."""
        start = [normal(12, 8) * 0.1, normal(8), normal(8, 1), normal(1)]
        batches = [(normal(n, 12), normal(n, 1)) for n in (32, 7, 1, 32, 100, 7)]

        def train(plain):
            variables = [tf.Variable(value) for value in start]

            def step(x, labels):
                w, b, v, c = variables
                with tf.GradientTape() as tape:
                    y = tf.tanh(tf.matmul(x, w) + b) * 1.25
                    loss = tf.reduce_mean(tf.square(tf.matmul(y, v) + c - labels))
                for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                    variable.assign_sub(0.1 * gradient)
                return loss

            specs = [tf.TensorSpec([None, n], tf.float32) for n in (12, 1)]
            with tf_disc.options(enabled=not plain, mode="sync"):
                fn = tf.function(step, input_signature=specs)
                losses = [float(fn(x, y)) for x, y in batches]
            return losses, [v.numpy() for v in variables]

        expected, weights = train(plain=True)
        known = {cluster["id"] for cluster in tf_disc.report().as_dict()["clusters"]}
        with counted() as counts:
            losses, got = train(plain=False)
        self.assertAllClose(losses, expected, rtol=1e-4, atol=1e-5)
        for left, right in zip(got, weights):
            self.assertAllClose(left, right, rtol=1e-4, atol=1e-5)
        # All of it but the assignments is one cluster, compiled once for every batch.
        self.assertEqual(counts["clusters"], 1)
        self.assertEqual(counts["kernel_runs"], len(batches))
        self.assertEqual(counts["compiles"], 1)
        (new,) = (c for c in tf_disc.report().as_dict()["clusters"] if c["id"] not in known)
        self.assertIn("BroadcastGradientArgs", new["ops"])

    def test_threads_share_a_function(self):
        fn = tf.function(chain, input_signature=[tf.TensorSpec([None, None], tf.float32)])
        inputs = [normal(1 + i % 5, 3 + i) for i in range(32)]
        wrong = []

        def work(part):
            for x in inputs[part::8]:
                for _ in range(20):
                    if not np.allclose(fn(tf.constant(x)), reference_chain(x), atol=1e-5):
                        wrong.append(x.shape)

        threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
        with counted() as counts:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(counts["kernel_runs"], 0)

    def test_error_is_tensorflows_own(self):
        def fn(x, y):
            return chain(x) + chain(y)

        specs = [tf.TensorSpec([None, None], tf.float32)] * 2
        x, y = tf.constant(normal(2, 3)), tf.constant(normal(2, 4))
        tf_disc.disable()
        try:
            with self.assertRaises(tf.errors.InvalidArgumentError) as plain:
                tf.function(fn, input_signature=specs)(x, y)
        finally:
            tf_disc.enable(mode="sync")
        with self.assertRaises(tf.errors.InvalidArgumentError) as ours:
            tf.function(fn, input_signature=specs)(x, y)
        self.assertIn("Incompatible shapes: [2,3] vs. [2,4]", str(plain.exception))
        self.assertIn("Incompatible shapes: [2,3] vs. [2,4]", str(ours.exception))

    def test_nan_and_infinity_stay_where_they_are(self):
        x = normal(4, 16)
        x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -np.inf

        def fn(x):
            return tf.tanh(x) + tf.exp(x) * tf.maximum(x, 0.5)

        assert_compiled(fn, tf.constant(x))

    def test_side_effects_happen_once_and_in_order(self):
        counter = tf.Variable(0)

        @tf.function
        def fn(x):
            counter.assign_add(1)
            y = chain(x)
            counter.assign(counter * 10)
            return y

        fn(tf.constant(normal(3, 9)))
        self.assertEqual(counter.numpy(), 10)


def reference_chain(x):
    """`chain` in float64."""
    x = x.astype(np.float64)
    y = np.tanh(x) * 1.5 + np.exp(-np.square(x))
    if x.size == 0:
        return y
    y = y - y.mean(-1, keepdims=True)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":
    tf.test.main()
