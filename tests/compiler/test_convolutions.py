"""Convolutions and pools over random attributes, against TensorFlow; each at two sizes of one compile.

More of them: `DISC_RANDOM_CONVOLUTIONS=2000 pytest tests/compiler/test_convolutions.py`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, RUNS_BF16, TARGETS, Program, host_target
from tests.compiler.samples import grouped, optimized
from tf_disc.compiler.passes.prologues import find_prologues
from tf_disc.compiler.pipeline import compile_cluster

RNG = np.random.default_rng(3)
COUNT = int(os.environ.get("DISC_RANDOM_CONVOLUTIONS", "120"))
KINDS = ("Conv2D", "DepthwiseConv2dNative", "MaxPool", "AvgPool", "Conv3D")


class Case:
    """One node with random attributes, and images of two sizes for it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.kind = str(rng.choice(KINDS, p=(0.45, 0.2, 0.12, 0.12, 0.11)))
        spatial = 3 if self.kind == "Conv3D" else 2
        self.dtype = str(rng.choice(["f32", "f64"], p=(0.8, 0.2)))
        self.first = self.kind == "Conv2D" and rng.random() < 0.25
        pools = self.kind.endswith("Pool")
        size = [int(n) for n in rng.integers(1, 6 - spatial + 1, spatial)]
        stride = [int(n) for n in rng.integers(1, 4, spatial)]
        dilation = [1] * spatial
        if self.kind == "DepthwiseConv2dNative":
            stride = stride[:1] * 2
        # TensorFlow dilates no depthwise convolution of f64.
        dilates = self.kind == "Conv2D" or self.dtype == "f32"
        if not pools and spatial == 2 and max(stride) == 1 and dilates:
            dilation = [int(rng.integers(1, 4))] * 2
        self.padding = str(rng.choice(["SAME", "VALID"]))
        self.channels = int(rng.choice([1, 2, 3, 4, 8, 17, 32]))
        self.attrs: dict[str, Any] = {"strides": [1, *stride, 1], "padding": self.padding}
        if pools:
            self.attrs["ksize"] = [1, *size, 1]
        else:
            self.attrs["dilations"] = [1, *dilation, 1]
        if self.kind == "Conv2D" and rng.random() < 0.25:
            pads = [int(n) for n in rng.integers(0, 3, 4)]
            self.attrs |= {"padding": "EXPLICIT", "explicit_paddings": [0, 0, *pads, 0, 0]}
        self.filter: Any = None
        if not pools:
            depth, filters = self.channels, int(rng.choice([1, 2, 5, 16, 33, 70]))
            if self.kind == "DepthwiseConv2dNative":
                filters = int(rng.integers(1, 3))
            elif self.kind == "Conv2D" and self.channels % 2 == 0 and rng.random() < 0.3:
                depth, filters = self.channels // 2, 2 * filters
            shape = (*size, depth, filters)
            self.filter = rng.normal(size=shape).astype(NUMPY[self.dtype])
        if spatial == 3 and self.dtype == "f64":
            stride = [min(k, s) for k, s in zip(size, stride, strict=True)]
            self.attrs["strides"] = [1, *stride, 1]
        reach = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
        self.sides = [
            [
                max(r, 1) + int(n)
                for r, n in zip(reach, rng.integers(0, limit, spatial), strict=True)
            ]
            for limit in (3, 12)
        ]

    def images(self, sides: list[int]) -> Any:
        batch = int(self.rng.integers(1, 4))
        shape = (batch, *sides, self.channels)
        return self.rng.normal(size=shape).astype(NUMPY[self.dtype])

    def expected(self, x: Any) -> Any:
        names = {"MaxPool": "input", "AvgPool": "value"}
        operands = {names.get(self.kind, "input"): tf.constant(x)}
        if self.filter is not None:
            operands["filter"] = tf.constant(self.filter)
        return getattr(tf.raw_ops, self.kind)(**operands, **self.attrs).numpy()

    def cluster(self, x: Any, weight: bool) -> dict[str, Any]:
        w = ClusterWriter()
        attrs = dict(self.attrs)
        if self.first:
            x = np.moveaxis(x, -1, 1)
            attrs["data_format"] = "NCHW"
            for name in ("strides", "dilations"):
                n, *rest, c = attrs[name]
                attrs[name] = [n, c, *rest]
            if "explicit_paddings" in attrs:
                n, *rest, c = np.reshape(attrs["explicit_paddings"], (-1, 2)).tolist()
                attrs["explicit_paddings"] = np.ravel([n, c, *rest]).tolist()
        known = [None] * x.ndim
        known[1 if self.first else -1] = self.channels
        operands = [w.tensor("x", x, known)]
        if self.filter is not None:
            make = w.weight if weight else w.tensor
            operands.append(make("filter", self.filter))
        return w.cluster(w.node(self.kind, *operands, **attrs))


@pytest.mark.parametrize("seed", range(COUNT))
def test_agrees_with_tensorflow(seed: int) -> None:
    case = Case(seed)
    images = [case.images(sides) for sides in case.sides]
    weight = case.dtype == "f32" and case.kind != "DepthwiseConv2dNative"
    cluster = case.cluster(images[0], weight)
    program = Program(compile_cluster(cluster, target=TARGETS[seed % len(TARGETS)]))
    for x in images:
        expected = case.expected(x)
        given = np.moveaxis(x, -1, 1) if case.first else x
        arrays = [given] if case.filter is None else [given, case.filter]
        (found,) = program(arrays)
        found = np.moveaxis(found, 1, -1) if case.first else found
        near = (2e-6 if case.dtype == "f32" else 1e-13) * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=4 * near)


def _block(channels: int, filters: int, made: str = "") -> tuple[dict[str, Any], Any, Any]:
    """A convolution by a weight, with what often follows it, of images that an op `made`: cluster, weight, scale."""
    weight = RNG.normal(size=(3, 3, channels, filters)).astype(np.float32)
    scale = RNG.normal(size=filters).astype(np.float32)
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((1, 9, 9, channels), np.float32), [None, None, None, channels])
    x = w.node(made, x) if made else x
    y = w.node("Conv2D", x, w.weight("filter", weight), strides=[1, 1, 1, 1], padding="SAME")
    y = w.node("Relu", w.node("Mul", y, w.tensor("scale", scale, [filters])))
    return w.cluster(y), weight, scale


def test_what_follows_is_computed_on_the_tile() -> None:
    """A padded convolution by a weight is one loop: windows, product, scale and activation."""
    cluster, weight, scale = _block(24, 40)
    groups = grouped(optimized(cluster))[0]
    assert [len(g.tiles) for g in groups if g.kind == "loop"] == [0, 1]  # windows; the rest
    program = Program(compile_cluster(cluster, target=host_target()))
    for shape in ((1, 2, 3), (1, 9, 9), (2, 17, 13), (0, 4, 4)):
        x = RNG.normal(size=(*shape, 24)).astype(np.float32)
        expected = np.zeros((*shape, 40))
        if x.size:
            expected = tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME") * scale).numpy()
        (found,) = program([x, weight, scale])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)


def test_windows_of_many_channels_never_lie_in_memory() -> None:
    """9 * 512 elements a place: the arena holds nothing of them where rows are many."""
    cluster, weight, scale = _block(512, 16)
    graph = optimized(cluster)
    groups = grouped(graph)[0]
    assert list(find_prologues(graph, groups).values()) == [groups[0]]
    program = Program(compile_cluster(cluster, target=host_target()))
    for shape in ((1, 2, 2), (1, 9, 8)):
        x = RNG.normal(size=(*shape, 512)).astype(np.float32)
        expected = tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME") * scale).numpy()
        (found,) = program([x, weight, scale])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)


@pytest.mark.skipif(not RUNS_BF16, reason="the CPU has no instructions for products of bf16")
def test_images_are_rounded_where_they_are_made() -> None:
    """With bf16 each element is rounded once, not once a window that sees it."""
    cluster, weight, scale = _block(24, 40, made="Tanh")
    artifact = compile_cluster(
        cluster, target="x86-64-v4", features="+avx512bf16", precision="bf16"
    )
    assert "packed=bf16" in artifact.manifest
    program = Program(artifact)
    for shape in ((1, 2, 3), (2, 17, 13)):
        x = RNG.normal(size=(*shape, 24)).astype(np.float32)
        rounded = tf.cast(tf.cast(tf.tanh(x), tf.bfloat16), tf.float32)
        filters = tf.cast(tf.cast(weight, tf.bfloat16), tf.float32)
        expected = tf.nn.relu(tf.nn.conv2d(rounded, filters, 1, "SAME") * scale).numpy()
        (found,) = program([x, weight, scale])
        # Tanh may round to the neighbour.
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=0.05)
