"""Sizes that each model is measured at, its inputs there, and the arithmetic that it has to do.

Names and shapes are those of ../shared/bench, so that figures can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.comparison import Arrays

Dims = tuple[int, ...]
#: Rows, k and n of products by weights, in the order of the graph.
Products = list[tuple[int, int, int]]


def _ids(dims: Dims, generator: np.random.Generator) -> Arrays:
    return {
        "input_ids": generator.integers(0, 30000, dims).astype(np.int32),
        "attention_mask": np.ones(dims, np.int32),
    }


def _memory(dims: Dims, generator: np.random.Generator) -> Arrays:
    x = generator.normal(size=(*dims, 512)).astype(np.float32)
    return {"x": x, "g": np.ones(512, np.float32), "b": np.zeros(512, np.float32)}


def _deepfm(dims: Dims, generator: np.random.Generator) -> Arrays:
    (rows,) = dims
    return {
        "cat": generator.integers(0, 10000, (rows, 26)).astype(np.int32),
        "dense": generator.random((rows, 13)).astype(np.float32),
    }


def _states(dims: Dims, generator: np.random.Generator) -> Arrays:
    return {"x": generator.normal(size=(*dims, 768)).astype(np.float32)}


def _image(dims: Dims, generator: np.random.Generator) -> Arrays:
    return {"x": generator.random((*dims, 224, 224, 3)).astype(np.float32)}


def _series(dims: Dims, generator: np.random.Generator) -> Arrays:
    return {"x": generator.normal(size=(*dims, 64)).astype(np.float32)}


def _encoder_flops(layers: int, width: int, hidden: int) -> Callable[[Dims], int]:
    def flops(dims: Dims) -> int:
        batch, tokens = dims
        products = 2 * batch * tokens * (4 * width * width + 2 * width * hidden)
        attention = 4 * batch * tokens * tokens * width
        return layers * (products + attention)

    return flops


def _decoder_flops(dims: Dims) -> int:
    """Products of what a causal mask leaves alone: half of the scores and one diagonal."""
    batch, tokens = dims
    products = 2 * batch * tokens * (4 * 768 * 768 + 2 * 768 * 3072)
    return products + 4 * batch * (tokens * (tokens + 1) // 2) * 768


def _encoder_products(
    layers: int, width: int, hidden: int, pooler: bool = True
) -> Callable[[Sequence[int]], Products]:
    def products(dims: Sequence[int]) -> Products:
        batch, tokens = dims
        rows = batch * tokens
        square = [(rows, width, width)] * 4
        layer = [*square, (rows, width, hidden), (rows, hidden, width)]
        return layer * layers + [(batch, width, width)] * pooler

    return products


def _deepfm_products(dims: Sequence[int]) -> Products:
    return [(dims[0], 429, 400), (dims[0], 400, 400), (dims[0], 400, 400), (dims[0], 400, 1)]


def _deepfm_flops(dims: Dims) -> int:
    return 2 * dims[0] * (429 * 400 + 400 * 400 * 2 + 400)


def _lstm_flops(dims: Dims) -> int:
    batch, steps = dims
    both_ways = 2 * 4 * 128 * (64 + 128)
    gated = 3 * 128 * (256 + 128)
    return 2 * batch * (steps * (both_ways + gated) + 128 * 10)


def _none(dims: Dims) -> int:
    return 0


@dataclass(frozen=True)
class Workload:
    """A model: its sizes (the dims that are unknown to the graph), and what to measure it with.

    `products` lists its products by weights, None where nobody did. `flops` counts multiply-adds of
    products twice; None: counted from the model's layers when it is
    saved (benchmarks.models). `arrivals` bounds the dims of random arrivals. `length` is the place
    of the dim that latency is drawn over, None if the model has no length.
    """

    name: str
    dims: tuple[Dims, ...]
    make: Callable[[Dims, np.random.Generator], Arrays]
    flops: Callable[[Dims], int] | None
    arrivals: Dims
    trailing: Dims = ()
    length: int | None = None
    products: Callable[[Sequence[int]], Products] | None = None

    def inputs(self, dims: Dims) -> Arrays:
        """Equal in every run."""
        return self.make(dims, np.random.default_rng(1))

    def label(self, dims: Dims) -> str:
        """How the shape is called in tables."""
        return "x".join(map(str, dims + self.trailing))

    def random_dims(self, generator: np.random.Generator) -> Dims:
        return tuple(int(generator.integers(1, most + 1)) for most in self.arrivals)


_TEXT = ((1, 16), (1, 128), (8, 64), (1, 512))
_IMAGES = ((1,), (4,))

_ALL = (
    Workload(
        "memory",
        ((1, 16), (1, 128), (8, 128), (16, 333)),
        _memory,
        _none,
        (8, 256),
        trailing=(512,),
        length=1,
    ),
    Workload(
        "deepfm",
        ((1,), (16,), (128,), (1024,)),
        _deepfm,
        _deepfm_flops,
        (512,),
        (26,),
        length=0,
        products=_deepfm_products,
    ),
    Workload(
        "minilm",
        _TEXT,
        _ids,
        _encoder_flops(6, 384, 1536),
        (4, 64),
        length=1,
        products=_encoder_products(6, 384, 1536),
    ),
    Workload(
        "minilm_l6_v2",
        _TEXT,
        _ids,
        _encoder_flops(6, 384, 1536),
        (4, 64),
        length=1,
        products=_encoder_products(6, 384, 1536, pooler=False),
    ),
    Workload(
        "bert_base",
        ((1, 16), (1, 128), (4, 77), (1, 512)),
        _ids,
        _encoder_flops(12, 768, 3072),
        (2, 64),
        length=1,
        products=_encoder_products(12, 768, 3072),
    ),
    Workload(
        "decoder",
        ((1, 128), (1, 1024)),
        _states,
        _decoder_flops,
        (2, 128),
        trailing=(768,),
        length=1,
        products=_encoder_products(1, 768, 3072, pooler=False),
    ),
    Workload("resnet50", _IMAGES, _image, None, (8,)),
    Workload("mobilenet_v2", _IMAGES, _image, None, (8,)),
    Workload("efficientnet_b0", _IMAGES, _image, None, (8,)),
    Workload("lstm", ((1, 20), (8, 50)), _series, _lstm_flops, (4, 30), trailing=(64,), length=1),
)
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
