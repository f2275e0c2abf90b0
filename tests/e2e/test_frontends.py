"""Keras, TensorFlow 1 sessions and SavedModels."""

import numpy as np
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted

RNG = np.random.default_rng(1)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def keras_model():
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((20,)),
            tf.keras.layers.Dense(32, activation="gelu"),
            tf.keras.layers.LayerNormalization(),
            tf.keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "mse", jit_compile=False)
    return model


class KerasTest(tf.test.TestCase):
    def both(self, work):
        """`work(model)` on equal fresh models, in TensorFlow and in tf_disc, with counts."""
        tf_disc.disable()
        try:
            expected = work(keras_model())
        finally:
            tf_disc.enable(mode="sync")
        with counted() as counts:
            got = work(keras_model())
        return expected, got, counts

    def test_predict_in_partial_batches(self):
        x = normal(70, 20)
        expected, got, counts = self.both(lambda m: m.predict(x, batch_size=32, verbose=0))
        self.assertAllClose(expected, got, rtol=1e-4, atol=1e-5)
        self.assertGreater(counts["kernel_runs"], 0)
        self.assertEqual(counts["fallbacks"], 0)

    def test_evaluate(self):
        x, y = normal(50, 20), normal(50, 4)
        expected, got, counts = self.both(lambda m: m.evaluate(x, y, batch_size=16, verbose=0))
        self.assertAllClose(expected, got, rtol=1e-4, atol=1e-5)
        self.assertGreater(counts["kernel_runs"], 0)

    def test_fit(self):
        x, y = normal(64, 20), np.abs(normal(64, 4))

        def work(model):
            history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
            return history.history["loss"]

        expected, got, counts = self.both(work)
        self.assertAllClose(expected, got, rtol=1e-3, atol=1e-4)
        self.assertGreater(counts["kernel_runs"], 0)


class SessionTest(tf.test.TestCase):
    def test_feeds_and_fetches_of_inner_nodes(self):
        v1 = tf.compat.v1
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, [None, 8], "x")
            inner = tf.tanh(x) * 2 + tf.exp(-x)
            middle = tf.square(inner) + inner
            out = tf.nn.softmax(middle - tf.reduce_max(middle, -1, keepdims=True))
            value, other = normal(5, 8), normal(5, 8)
            with v1.Session() as session, counted() as counts:
                got_inner, got_out = session.run([inner, out], {x: value})
                self.assertAllClose(got_inner, np.tanh(value) * 2 + np.exp(-value), rtol=1e-5)
                # A fed node is not computed: what depends on it sees the feed.
                fed = session.run(out, {x: value, inner: other})
                again = session.run(out, {x: value})
        self.assertAllClose(got_out, again)
        want = np.square(other) + other
        e = np.exp(want - want.max(-1, keepdims=True))
        self.assertAllClose(fed, e / e.sum(-1, keepdims=True), rtol=1e-5)
        self.assertGreater(counts["kernel_runs"], 0)

    def test_two_sessions_of_one_graph(self):
        v1 = tf.compat.v1
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, [None, None])
            y = tf.sigmoid(x) * x + tf.exp(-tf.abs(x))
            value = normal(3, 11)
            with counted() as counts, v1.Session() as one, v1.Session() as two:
                self.assertAllEqual(one.run(y, {x: value}), two.run(y, {x: value}))
        self.assertGreater(counts["kernel_runs"], 0)

    def test_disable_reaches_sessions(self):
        v1 = tf.compat.v1
        tf_disc.disable()
        try:
            with tf.Graph().as_default(), counted() as counts:
                x = v1.placeholder(tf.float32, [None])
                y = tf.tanh(x) * 3 + tf.exp(x) - tf.square(x)
                with v1.Session() as session:
                    session.run(y, {x: normal(9)})
        finally:
            tf_disc.enable(mode="sync")
        self.assertEqual(counts["clusters"], 0)


class SavedModelTest(tf.test.TestCase):
    def test_loaded_model(self):
        class Model(tf.Module):
            def __init__(self):
                super().__init__()
                self.weight = tf.Variable(normal(10, 6))

            @tf.function(input_signature=[tf.TensorSpec([None, 10], tf.float32, "x")])
            def serve(self, x):
                return {"y": tf.nn.softmax(tf.tanh(tf.matmul(x, self.weight)) * 2)}

        model = Model()
        folder = self.get_temp_dir()
        tf.saved_model.save(model, folder, signatures={"serving_default": model.serve})
        loaded = tf.saved_model.load(folder)
        x = normal(7, 10)
        with counted() as counts:
            got = loaded.signatures["serving_default"](x=tf.constant(x))["y"]
        z = np.tanh(x @ model.weight.numpy()) * 2
        e = np.exp(z - z.max(-1, keepdims=True))
        self.assertAllClose(got, e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)
        self.assertGreater(counts["kernel_runs"], 0)
        self.assertEqual(counts["fallbacks"], 0)


if __name__ == "__main__":
    tf.test.main()
