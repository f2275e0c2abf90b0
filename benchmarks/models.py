"""The models that speed is measured on: random weights from a fixed seed, and the real MiniLM.

`python -m benchmarks.models FOLDER [NAME...]` writes SavedModels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from examples import bert_layers


class Weights:
    """Makes variables, equal in every run."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(0)

    def normal(self, *shape: int) -> tf.Variable:
        return tf.Variable(self._generator.normal(0, 0.02, shape).astype(np.float32))

    def dense(self, num_inputs: int, num_outputs: int) -> bert_layers.Pair:
        return self.normal(num_inputs, num_outputs), self.normal(num_outputs)

    def norm(self, width: int) -> bert_layers.Pair:
        return tf.Variable(tf.ones(width)), self.normal(width)


class Encoder(tf.Module):
    """BERT: i32[batch, tokens] ids and mask to hidden states and the pooled first token."""

    def __init__(self, num_layers: int, width: int, num_heads: int, hidden: int) -> None:
        super().__init__()
        weights = Weights()
        self._num_heads = num_heads
        self.words = weights.normal(30522, width)
        self.positions = weights.normal(512, width)
        self.types = weights.normal(2, width)
        self.embedding_norm = weights.norm(width)
        sizes = {"intermediate": (width, hidden), "output": (hidden, width)}
        self.layers = [
            {
                **{
                    name: weights.dense(*sizes.get(name, (width, width)))
                    for name in bert_layers.DENSE_NAMES
                },
                **{name: weights.norm(width) for name in bert_layers.NORM_NAMES},
            }
            for _ in range(num_layers)
        ]
        self.pooler = weights.dense(width, width)

    @tf.function(input_signature=bert_layers.ids_signature())
    def serve(self, input_ids: tf.Tensor, attention_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `last_hidden_state` f32[batch, tokens, width], `pooled` f32[batch, width]."""
        x = bert_layers.embed(
            input_ids, self.words, self.positions, self.types, self.embedding_norm
        )
        penalty = bert_layers.mask_penalty(tf.cast(attention_mask, tf.float32))
        for layer in self.layers:
            x = bert_layers.encoder_layer(x, penalty, layer, self._num_heads)
        pooled = tf.tanh(tf.matmul(x[:, 0], self.pooler[0]) + self.pooler[1])
        return {"last_hidden_state": x, "pooled": pooled}


class Decoder(tf.Module):
    """One block of a decoder: every token attends to those in front of it. f32[batch, tokens, width]."""

    num_heads, width, hidden = 12, 768, 3072

    def __init__(self) -> None:
        super().__init__()
        weights = Weights()
        sizes = {"intermediate": (self.width, self.hidden), "output": (self.hidden, self.width)}
        self.layer = {
            **{
                name: weights.dense(*sizes.get(name, (self.width, self.width)))
                for name in bert_layers.DENSE_NAMES
            },
            **{name: weights.norm(self.width) for name in bert_layers.NORM_NAMES},
        }

    def _attention(self, x: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(x)

        def heads(name: str) -> tf.Tensor:
            y = bert_layers.dense(x, *self.layer[name])
            y = tf.reshape(y, [shape[0], shape[1], self.num_heads, self.width // self.num_heads])
            return tf.transpose(y, [0, 2, 1, 3])

        scores = tf.matmul(heads("query"), heads("key"), transpose_b=True)
        scores = scores / np.float32(np.sqrt(self.width // self.num_heads))
        places = tf.range(shape[1])
        scores = tf.where(places[:, None] >= places, scores, -1e9)
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads("value")), [0, 2, 1, 3])
        return tf.reshape(mixed, [shape[0], shape[1], self.width])

    @tf.function(input_signature=[tf.TensorSpec([None, None, width], tf.float32, "x")])
    def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `y`, of x's shape."""
        layer = self.layer
        normal = bert_layers.layer_norm(x, *layer["attention_norm"])
        x = x + bert_layers.dense(self._attention(normal), *layer["attention_output"])
        normal = bert_layers.layer_norm(x, *layer["output_norm"])
        hidden = tf.nn.gelu(bert_layers.dense(normal, *layer["intermediate"]))
        return {"y": x + bert_layers.dense(hidden, *layer["output"])}


class DeepFm(tf.Module):
    """Ranking: 26 categories and 13 numbers a row, embeddings of 16, a tower of 400-400-400."""

    num_fields, num_numbers, width, vocabulary = 26, 13, 16, 10000

    def __init__(self) -> None:
        super().__init__()
        weights = Weights()
        fields = range(self.num_fields)
        self.embeddings = [weights.normal(self.vocabulary, self.width) for _ in fields]
        self.linear = [weights.normal(self.vocabulary, 1) for _ in fields]
        sizes = [self.num_fields * self.width + self.num_numbers, 400, 400, 400, 1]
        self.tower = [weights.dense(a, b) for a, b in zip(sizes, sizes[1:])]

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, num_fields], tf.int32, "cat"),
            tf.TensorSpec([None, num_numbers], tf.float32, "dense"),
        ]
    )
    def serve(self, cat: tf.Tensor, dense: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `prob` f32[batch, 1]."""
        columns = [cat[:, i] for i in range(self.num_fields)]
        rows = tf.stack([tf.gather(t, c) for t, c in zip(self.embeddings, columns)], 1)
        linear = tf.add_n([tf.gather(t, c) for t, c in zip(self.linear, columns)])
        # Sum of all pairwise products, as half the square of sums less the sum of squares.
        square_of_sum = tf.square(tf.reduce_sum(rows, 1))
        sum_of_squares = tf.reduce_sum(tf.square(rows), 1)
        pairs = 0.5 * tf.reduce_sum(square_of_sum - sum_of_squares, 1, keepdims=True)
        numbers = tf.math.log1p(tf.nn.relu(dense))
        x = tf.concat([tf.reshape(rows, [-1, self.num_fields * self.width]), numbers], 1)
        for weight, bias in self.tower[:-1]:
            x = tf.nn.relu(tf.matmul(x, weight) + bias)
        deep = tf.matmul(x, self.tower[-1][0]) + self.tower[-1][1]
        return {"prob": tf.sigmoid(linear + pairs + deep)}


class Memory(tf.Module):
    """A chain that only moves memory: norm, gate, softmax, log, norm over rows of 512."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 512], tf.float32, "x"),
            tf.TensorSpec([512], tf.float32, "g"),
            tf.TensorSpec([512], tf.float32, "b"),
        ]
    )
    def serve(self, x: tf.Tensor, g: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `y`, of x's shape."""
        y = bert_layers.layer_norm(x, g, b)
        y = y * tf.sigmoid(1.702 * y) + 0.5 * x
        y = tf.math.log(tf.nn.softmax(y * 0.125) + 1e-6) * g
        return {"y": tf.tanh(bert_layers.layer_norm(y + x, g, b))}


class KerasModel(tf.Module):
    """A Keras model in inference: `y`, of whatever shape it has."""

    def __init__(self, build: Callable[[], Any], shape: list[int | None]) -> None:
        super().__init__()
        tf.keras.utils.set_random_seed(0)
        self.model = build()
        self.serve = tf.function(
            lambda x: {"y": self.model(x, training=False)},
            input_signature=[tf.TensorSpec([None, *shape], tf.float32, "x")],
        )


def _recurrent() -> Any:
    """A bidirectional LSTM, a GRU and a softmax over sequences of 64 numbers."""
    layers = tf.keras.layers
    given = tf.keras.Input((None, 64))
    x = layers.Bidirectional(layers.LSTM(128, return_sequences=True))(given)
    return tf.keras.Model(given, layers.Dense(10, "softmax")(layers.GRU(128)(x)))


def _application(name: str) -> Callable[[], tf.Module]:
    # Keras is imported when it is asked for, and not before.
    def build() -> Any:
        return getattr(tf.keras.applications, name)(weights=None)

    return lambda: KerasModel(build, [224, 224, 3])


#: The demo's model, with its real weights; the others' are random.
REAL_MINILM = "minilm_l6_v2"

MODELS: dict[str, Callable[[], tf.Module]] = {
    "memory": Memory,
    "deepfm": DeepFm,
    "minilm": lambda: Encoder(6, 384, 12, 1536),
    "bert_base": lambda: Encoder(12, 768, 12, 3072),
    "decoder": Decoder,
    "resnet50": _application("ResNet50"),
    "mobilenet_v2": _application("MobileNetV2"),
    "efficientnet_b0": _application("EfficientNetB0"),
    "lstm": lambda: KerasModel(_recurrent, [None, 64]),
}


def _real_minilm(folder: Path) -> None:
    # The weights and the tokenizer's package are asked for only here.
    from examples import minilm

    minilm.save(folder)


def convolution_flops(model: Any) -> int:
    """Twice the multiply-adds of a Keras model's convolutions and dense layers, for one image."""
    total = 0
    for layer in model.layers:
        kernel = getattr(layer, "kernel", None)
        if kernel is None:
            continue
        # Each element of the kernel is used once for each place; a depthwise one, too.
        places = layer.output.shape[1:-1]
        total += 2 * int(np.prod(kernel.shape)) * int(np.prod(places, dtype=np.int64))
    return total


def save(name: str, root: Path) -> Path:
    """Writes a model under root/name unless it is there. Returns its folder.

    Beside it, `work.json` has the `flops_a_row` of convolutional models, null for others.
    """
    folder = root / name
    work = folder / "work.json"
    if work.exists():
        return folder
    flops = None
    if name == REAL_MINILM:
        _real_minilm(folder)
    else:
        model: Any = MODELS[name]()
        tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})
        if isinstance(model, KerasModel) and name != "lstm":
            flops = convolution_flops(model.model)
    work.write_text(json.dumps({"flops_a_row": flops}), encoding="utf-8")
    return folder


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m benchmarks.models FOLDER [NAME...]")
    for model_name in sys.argv[2:] or [*MODELS, REAL_MINILM]:
        print(save(model_name, Path(sys.argv[1])))
