"""Small graphs, each one thing that a model does between its products, with sizes that a model has.

Every case is a function of tensors with unknown sizes, and two sizes: one whose data fit a core's L2
cache, and one far beyond the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Arrays = Mapping[str, npt.NDArray[Any]]
Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class MicroCase:
    """One function and the inputs that it is timed on.

    `arguments` gives each input's dtype and dims, None for a size that no compiler may know. `sizes`
    names what `make` is called with. `bound` says what a perfect kernel waits for at the large size:
    "memory" or "arithmetic".
    """

    name: str
    function: Callable[..., tf.Tensor]
    arguments: Mapping[str, tuple[tf.DType, Dims]]
    make: Callable[[int], Arrays]
    sizes: tuple[int, int]
    bound: str = "memory"

    def signature(self) -> list[tf.TensorSpec]:
        """The types of the inputs, in order."""
        return [tf.TensorSpec(dims, dtype, name) for name, (dtype, dims) in self.arguments.items()]

    def traced(self, jit_compile: bool | None = None) -> Any:
        """The case as a tf.function with that signature; `jit_compile` is tf.function's."""
        return tf.function(self.function, input_signature=self.signature(), jit_compile=jit_compile)

    def inputs(self, size: int) -> Arrays:
        """Inputs of one size, equal in every run."""
        return self.make(size)


def _generator() -> np.random.Generator:
    return np.random.default_rng(1)


def _normal(*shape: int) -> npt.NDArray[np.float32]:
    return _generator().normal(size=shape).astype(np.float32)


def _rows(width: int) -> Callable[[int], Arrays]:
    return lambda rows: {"x": _normal(rows, width)}


def _normalized_rows(width: int) -> Callable[[int], Arrays]:
    return lambda rows: {
        "x": _normal(rows, width),
        "scale": _normal(width),
        "offset": _normal(width),
    }


def _softmax(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(x)


def _layer_norm(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6) * scale + offset


def _rms_norm(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6) * scale


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * x * (1.0 + tf.math.erf(x * 0.70710678))


def _bias_relu(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return tf.nn.relu(tf.nn.bias_add(x, bias))


def _masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    penalty = (1.0 - tf.cast(mask, tf.float32))[:, None, None, :] * -1e9
    return tf.nn.softmax(scores * 0.125 + penalty)


def _mean_over_time(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    weights = tf.cast(mask, tf.float32)[:, :, None]
    return tf.reduce_sum(x * weights, 1) / tf.maximum(tf.reduce_sum(weights, 1), 1e-9)


def _rotary(x: tf.Tensor, sine: tf.Tensor, cosine: tf.Tensor) -> tf.Tensor:
    first, second = tf.split(x, 2, axis=-1)
    turned = tf.concat([-second, first], -1)
    return x * cosine[None, :, None, :] + turned * sine[None, :, None, :]


def _bias_gradient(gradient: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(gradient * 0.5, 0)


def _transpose(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [0, 2, 1, 3]) * 0.125


def _transpose_last(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [0, 2, 1]) + 1.0


NUM_TABLES = 26


def _concat_embeddings(ids: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    rows = [tf.gather(table, ids[:, field]) for field in range(NUM_TABLES)]
    return tf.nn.relu(tf.concat(rows, 1))


def _one_hot_lookup(ids: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.one_hot(ids, 64) * values, -1)


def _integers(ids: tf.Tensor) -> tf.Tensor:
    bucket = tf.math.floormod(ids * 31 + 7, 10007)
    known = tf.logical_and(ids >= 0, ids < 1_000_000)
    return tf.where(known, bucket, tf.zeros_like(bucket))


def _f32(*dims: int | None) -> tuple[tf.DType, Dims]:
    return tf.float32, dims


def _i32(*dims: int | None) -> tuple[tf.DType, Dims]:
    return tf.int32, dims


def _mask(batch: int, length: int) -> npt.NDArray[np.int32]:
    lengths = _generator().integers(1, length + 1, (batch, 1))
    return (np.arange(length)[None] < lengths).astype(np.int32)


def _angles(length: int) -> Arrays:
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(64)[None] / 64)
    return {
        "sine": np.sin(angles).astype(np.float32),
        "cosine": np.cos(angles).astype(np.float32),
    }


CASES: list[MicroCase] = [
    MicroCase(
        "softmax 1000", _softmax, {"x": _f32(None, 1000)}, _rows(1000), (32, 8192), "arithmetic"
    ),
    MicroCase(
        "layer_norm 768",
        _layer_norm,
        {"x": _f32(None, None, 768), "scale": _f32(768), "offset": _f32(768)},
        lambda n: {"x": _normal(1, n, 768), "scale": _normal(768), "offset": _normal(768)},
        (64, 16384),
    ),
    MicroCase(
        "rms_norm 768",
        _rms_norm,
        {"x": _f32(None, None, 768), "scale": _f32(768)},
        lambda n: {"x": _normal(1, n, 768), "scale": _normal(768)},
        (64, 16384),
    ),
    MicroCase(
        "gelu",
        _gelu,
        {"x": _f32(None, None)},
        lambda n: {"x": _normal(n, 3072)},
        (16, 4096),
        "arithmetic",
    ),
    MicroCase(
        "bias_relu",
        _bias_relu,
        {"x": _f32(None, None), "bias": _f32(None)},
        lambda n: {"x": _normal(n, 1536), "bias": _normal(1536)},
        (32, 8192),
    ),
    MicroCase(
        "masked_softmax",
        _masked_softmax,
        {"scores": _f32(None, 12, None, None), "mask": _i32(None, None)},
        lambda n: {"scores": _normal(n, 12, 128, 128), "mask": _mask(n, 128)},
        (1, 64),
        "arithmetic",
    ),
    MicroCase(
        "mean_over_time",
        _mean_over_time,
        {"x": _f32(None, None, 384), "mask": _i32(None, None)},
        lambda n: {"x": _normal(n, 64, 384), "mask": _mask(n, 64)},
        (2, 512),
    ),
    MicroCase(
        "rotary",
        _rotary,
        {"x": _f32(None, None, 12, 64), "sine": _f32(None, 64), "cosine": _f32(None, 64)},
        lambda n: {"x": _normal(1, n, 12, 64), **_angles(n)},
        (64, 16384),
    ),
    MicroCase(
        "bias_gradient",
        _bias_gradient,
        {"gradient": _f32(None, 768)},
        lambda n: {"gradient": _normal(n, 768)},
        (128, 32768),
    ),
    MicroCase(
        "transpose 0213",
        _transpose,
        {"x": _f32(None, None, 12, 64)},
        lambda n: {"x": _normal(n, 128, 12, 64)},
        (1, 128),
    ),
    MicroCase(
        "transpose 021",
        _transpose_last,
        {"x": _f32(None, None, None)},
        lambda n: {"x": _normal(n, 256, 256)},
        (1, 128),
    ),
    MicroCase(
        "concat 26 embeddings",
        _concat_embeddings,
        {"ids": _i32(None, NUM_TABLES), "table": _f32(None, 16)},
        lambda n: {
            "ids": _generator().integers(0, 10000, (n, NUM_TABLES)).astype(np.int32),
            "table": _normal(10000, 16),
        },
        (64, 8192),
    ),
    MicroCase(
        "one_hot lookup",
        _one_hot_lookup,
        {"ids": _i32(None, None), "values": _f32(64)},
        lambda n: {
            "ids": _generator().integers(0, 64, (n, 128)).astype(np.int32),
            "values": _normal(64),
        },
        (16, 1024),
    ),
    MicroCase(
        "integers",
        _integers,
        {"ids": _i32(None, None)},
        lambda n: {"ids": _generator().integers(-1000, 2_000_000, (n, 1024)).astype(np.int32)},
        (32, 8192),
        "arithmetic",
    ),
    *(
        MicroCase(
            f"softmax rows of {width}",
            _softmax,
            {"x": _f32(None, None)},
            _rows(width),
            (16384 // width, 4194304 // width),
            "arithmetic",
        )
        for width in (3, 7, 33)
    ),
    *(
        MicroCase(
            f"layer_norm rows of {width}",
            _layer_norm,
            {"x": _f32(None, None), "scale": _f32(None), "offset": _f32(None)},
            _normalized_rows(width),
            (16384 // width, 4194304 // width),
        )
        for width in (3, 7, 33)
    ),
]


def case_named(name: str) -> MicroCase:
    """Raises KeyError if there is none of that name."""
    return {case.name: case for case in CASES}[name]
