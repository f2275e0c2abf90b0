"""The layers of a BERT encoder as plain functions over variables, for examples and benchmarks."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# A weight f32[inputs, outputs] with its bias, or a norm's scale with its offset.
Pair = tuple[tf.Variable, tf.Variable]
Layer = dict[str, Pair]

DENSE_NAMES = ("query", "key", "value", "attention_output", "intermediate", "output")
NORM_NAMES = ("attention_norm", "output_norm")


def layer_norm(x: tf.Tensor, scale: tf.Variable, offset: tf.Variable) -> tf.Tensor:
    """Normalises the last dim; epsilon 1e-12, as BERT has it."""
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    factor = tf.math.rsqrt(variance + 1e-12) * scale
    return x * factor + (offset - mean * factor)


def dense(x: tf.Tensor, weight: tf.Variable, bias: tf.Variable) -> tf.Tensor:
    """f32[batch, tokens, inputs] to f32[batch, tokens, outputs]."""
    num_inputs, num_outputs = weight.shape
    shape = tf.shape(x)
    y = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, num_inputs]), weight), bias)
    return tf.reshape(y, [shape[0], shape[1], num_outputs])


def attention(x: tf.Tensor, penalty: tf.Tensor, layer: Layer, num_heads: int) -> tf.Tensor:
    """Self-attention before its output layer. penalty: f32[batch, 1, 1, tokens], for scores."""
    shape, width = tf.shape(x), x.shape[2]

    def heads(name: str) -> tf.Tensor:
        y = dense(x, *layer[name])
        y = tf.reshape(y, [shape[0], shape[1], num_heads, width // num_heads])
        return tf.transpose(y, [0, 2, 1, 3])

    scores = tf.matmul(heads("query"), heads("key"), transpose_b=True)
    scores = scores / math.sqrt(width // num_heads) + penalty
    context = tf.matmul(tf.nn.softmax(scores), heads("value"))
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [shape[0], shape[1], width])


def encoder_layer(x: tf.Tensor, penalty: tf.Tensor, layer: Layer, num_heads: int) -> tf.Tensor:
    """One transformer layer, norms after the residuals."""
    attended = dense(attention(x, penalty, layer, num_heads), *layer["attention_output"])
    x = layer_norm(x + attended, *layer["attention_norm"])
    hidden = tf.nn.gelu(dense(x, *layer["intermediate"]))
    return layer_norm(x + dense(hidden, *layer["output"]), *layer["output_norm"])


def embed(
    input_ids: tf.Tensor,
    words: tf.Variable,
    positions: tf.Variable,
    types: tf.Variable,
    norm: Pair,
) -> tf.Tensor:
    """Embeddings of i32[batch, tokens], every token of type 0: f32[batch, tokens, width]."""
    num_tokens = tf.shape(input_ids)[1]
    x = tf.gather(words, input_ids) + tf.gather(positions, tf.range(num_tokens))[None]
    return layer_norm(x + types[0], *norm)


def mask_penalty(mask: tf.Tensor) -> tf.Tensor:
    """f32[batch, tokens] of 0 and 1 to what is added to scores: exp() of it is 0 at a 0."""
    return (1.0 - mask)[:, None, None, :] * -10000.0


def ids_signature() -> list[Any]:
    """The input signature of an encoder: ids and mask, i32[batch, tokens] each."""
    return [
        tf.TensorSpec([None, None], tf.int32, "input_ids"),
        tf.TensorSpec([None, None], tf.int32, "attention_mask"),
    ]
