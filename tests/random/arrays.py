"""What the inputs of a call hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.random.recipe import Call, Input, Recipe, Type, shape_of, size_of

NUMPY: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": tf.bfloat16.as_numpy_dtype,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
_NAMES = {np.dtype(d): name for name, d in NUMPY.items()}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 88.9, -104.0, 1e-30)


def name_of(dtype: Any) -> str:
    """The short name of a numpy type."""
    return _NAMES[np.dtype(dtype)]


def is_float(dtype: Any) -> bool:
    """Whether a numpy type is one of ours with NaN; bfloat16 is none of numpy's own."""
    return np.dtype(dtype).kind == "f" or np.dtype(dtype) == np.dtype(NUMPY["bf16"])


def largest(dtype: Any) -> float:
    """The largest finite number of a floating type."""
    return float(tf.dtypes.as_dtype(dtype).max)


def fill(
    type_: Type, shape: tuple[int, ...], kind: str, rng: np.random.Generator, special: bool
) -> Any:
    """Random contents. `special`: NaN, infinities, zeros of both signs, the ends of ranges among them."""
    dtype = NUMPY[type_.dtype]
    size = int(np.prod(shape))
    if type_.dtype == "bool":
        return (rng.random(size) < 0.5).reshape(shape)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(max(info.min, -50), min(info.max, 50), size).astype(dtype)
        if special and size:
            at = rng.integers(0, size, max(1, size // 5))
            values[at] = rng.choice(np.array([info.min, info.max, 0, 1], dtype), at.size)
        return values.reshape(shape)
    values = (rng.normal(size=size) * rng.choice([0.5, 2.0, 8.0])).astype(dtype)
    if kind == "unit":
        values = np.abs(values) + np.asarray(0.1, dtype)
    elif special and kind == "any" and size:
        at = rng.integers(0, size, max(1, size // 5))
        choices = np.array([*SPECIAL, largest(dtype) * 0.9, -largest(dtype)], np.float64)
        values[at] = rng.choice(choices, at.size).astype(dtype)
    return values.reshape(shape)


def make_input(item: Input, call: Call, rng: np.random.Generator) -> Any:
    """The array of one input of a call."""
    shape = shape_of(item.type.dims, call.sizes)
    dtype = NUMPY[item.type.dtype]
    if item.kind == "values":
        return np.array(item.values, dtype).reshape(shape)
    if item.kind == "index":
        high = max(
            size_of(item.high, call.sizes), 1
        )  # no index is good for nothing: TensorFlow refuses 0
        return rng.integers(0, high, shape).astype(dtype)
    return fill(item.type, shape, item.kind, rng, call.special)


def make_inputs(recipe: Recipe, call: Call) -> list[Any]:
    """The arrays of a call, the same each time."""
    return [
        make_input(item, call, np.random.default_rng((call.seed, item.key)))
        for item in recipe.inputs
    ]


def make_variables(recipe: Recipe, seed: int) -> list[Any]:
    """Contents of the variables: finite."""
    return [
        fill(t, shape_of(t.dims, {}), "finite", np.random.default_rng((seed, 77, i)), False)
        for i, t in enumerate(recipe.variables)
    ]
