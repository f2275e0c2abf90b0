"""Classifiers trained on scikit-learn's handwritten digits lose next to nothing in BF16."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

import tf_disc
from tests.e2e.counting import counted

#: Points of accuracy that BF16 may cost.
MOST_LOST = 0.2


def small_cnn() -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((8, 8)),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def small_transformer() -> tf.keras.Model:
    """The eight rows of a digit are its words."""
    layers = tf.keras.layers
    rows = layers.Input((8, 8))
    x = layers.Dense(32)(rows)
    places = layers.Embedding(8, 32)(tf.range(8))
    x = x + places[None]
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
        x = layers.LayerNormalization()(
            x + layers.Dense(32)(layers.Dense(64, activation="gelu")(x))
        )
    return tf.keras.Model(rows, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


@pytest.mark.parametrize("build", [small_cnn, small_transformer])
def test_accuracy_in_bf16(build):
    tf.keras.utils.set_random_seed(1)
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:900], order[900:]
    model = build()
    with tf_disc.options(enabled=False):
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss=loss)
        model.fit(images[train], digits.target[train], epochs=12, batch_size=32, verbose=0)
    accuracy = {}
    for precision in ("f32", "bf16"):
        with tf_disc.options(precision=precision), counted() as counts:
            predict = tf.function(lambda x: model(x, training=False))
            logits = predict(tf.constant(images[test])).numpy()
        assert counts["kernel_runs"] > 0
        accuracy[precision] = (logits.argmax(1) == digits.target[test]).mean() * 100
    assert accuracy["f32"] > 85, "it learned nothing"
    assert accuracy["f32"] - accuracy["bf16"] <= MOST_LOST
