"""Convolution networks of Keras at many image sizes and batches: one compile, and TensorFlow's values."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tf_disc
from tests.e2e.counting import counted

RNG = np.random.default_rng(5)


def _inverted_residuals():
    return keras.applications.MobileNetV2(
        input_shape=(None, None, 3), include_top=False, weights=None, alpha=0.35, pooling="avg"
    )


def _bottlenecks():
    """What a ResNet is made of, with a pool in front and a strided shortcut."""
    image = layers.Input((None, None, 3))
    x = layers.ZeroPadding2D(3)(image)
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(24, 7, strides=2)(x)))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for filters, stride in ((16, 1), (32, 2)):
        shortcut = layers.Conv2D(4 * filters, 1, strides=stride)(x)
        y = layers.Conv2D(filters, 1, strides=stride, activation="relu")(x)
        y = layers.Conv2D(filters, 3, padding="same", activation="relu")(y)
        y = layers.BatchNormalization()(layers.Conv2D(4 * filters, 1)(y))
        x = layers.ReLU()(layers.Add()([shortcut, y]))
    return keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def _squeezed():
    """Depthwise convolutions with swish, scaled by what is squeezed out of all places; pools, groups and dilations."""
    image = layers.Input((None, None, 3))
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="swish")(image)
    x = layers.DepthwiseConv2D(5, padding="same", activation="swish")(x)
    scale = layers.GlobalAveragePooling2D(keepdims=True)(x)
    scale = layers.Conv2D(32, 1, activation="sigmoid")(
        layers.Conv2D(8, 1, activation="swish")(scale)
    )
    x = layers.AveragePooling2D(2, padding="same")(layers.Multiply()([x, scale]))
    x = layers.Conv2D(24, 3, padding="same", groups=4)(x)
    x = layers.Conv2D(16, 3, padding="same", dilation_rate=2)(x)
    return keras.Model(image, layers.Conv2D(7, 1)(x))


# Keras has XLA compile a convolution in groups, which parts what stands in front of it from what follows.
@pytest.mark.parametrize(
    ("build", "clusters"), [(_inverted_residuals, 1), (_bottlenecks, 1), (_squeezed, 2)]
)
def test_sizes_and_batches_without_another_compile(build, clusters):
    model = build()
    for weight in model.weights:
        noise = RNG.normal(0, 0.3, weight.shape) * np.abs(weight).mean().clip(0.05)
        spread = 0.05 if "variance" in weight.path else 0.0
        weight.assign(np.abs(weight + noise) + spread if spread else weight + noise)
    signature = [tf.TensorSpec([None, None, None, 3])]

    def function():
        return tf.function(lambda x: model(x, training=False), input_signature=signature)

    compiled, plain = function(), function()  # the pass sees each at its first call
    sizes = [(1 + i % 10, 33 + 7 * i, 97 - 3 * i) for i in range(20)]
    images = [tf.constant(RNG.normal(size=(*s, 3)).astype(np.float32)) for s in sizes]
    with counted() as counts:
        found = [compiled(x).numpy() for x in images]
    assert counts["compiles"] == counts["clusters"] == clusters
    assert counts["fallbacks"] == 0
    for x, value in zip(images, found, strict=True):
        with tf_disc.options(enabled=False):
            wanted = plain(x).numpy()
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
