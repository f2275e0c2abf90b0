"""Writes cluster files for tests: a node a call, sizes taken from example arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.compiler.execute import NUMPY, cluster_input


def attribute(value: Any) -> dict[str, Any]:
    """A Python value as an attribute of a cluster file."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"type": value} if value in NUMPY else {"s": value}
    return {"ints": list(value)}


class ClusterWriter:
    """Collects inputs and nodes. Names of values are what the nodes' inputs say: "x" or "node:0"."""

    def __init__(self, name: str = "cluster_test") -> None:
        self.name = name
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def tensor(self, name: str, array: Any, known: Sequence[int | None] | None = None) -> str:
        """An input of unknown sizes, or of those that `known` has; the array gives the hints."""
        self.inputs.append(dict(cluster_input(name, array, "tensor", known)))
        return name

    def weight(self, name: str, array: Any) -> str:
        """A weight."""
        self.inputs.append(dict(cluster_input(name, array, "weight")))
        return name

    def constant(self, values: Any, dtype: str = "i32") -> str:
        """A Const node."""
        array = np.asarray(values, NUMPY[dtype])
        name = f"const_{len(self.nodes)}"
        tensor = {"dtype": dtype, "dims": list(array.shape), "values": array.ravel().tolist()}
        self.nodes.append(
            {"name": name, "op": "Const", "inputs": [], "attrs": {"value": {"tensor": tensor}}}
        )
        return f"{name}:0"

    def node(self, op: str, *inputs: str, name: str = "", **attrs: Any) -> str:
        """A node; gives its first result."""
        name = name or f"{op.lower()}_{len(self.nodes)}"
        texts = {k: attribute(v) for k, v in attrs.items()}
        self.nodes.append({"name": name, "op": op, "inputs": list(inputs), "attrs": texts})
        return f"{name}:0"

    def cluster(self, *outputs: str) -> dict[str, Any]:
        """The cluster file."""
        return {
            "version": 1, "name": self.name, "inputs": self.inputs, "nodes": self.nodes,
            "outputs": list(outputs),
        }  # fmt: skip


def layer_norm(w: ClusterWriter, x: str, scale: str, shift: str) -> str:
    """The nodes that a layer normalisation over the last axis is made of."""
    axis = w.constant([-1])
    mean = w.node("Mean", x, axis, keep_dims=True)
    variance = w.node("Mean", w.node("SquaredDifference", x, mean), axis, keep_dims=True)
    inverse = w.node("Rsqrt", w.node("AddV2", variance, w.constant(1e-5, "f32")))
    normal = w.node("Mul", w.node("Sub", x, mean), inverse)
    return w.node("AddV2", w.node("Mul", normal, scale), shift)


def gelu(w: ClusterWriter, x: str) -> str:
    """The nodes of GELU by erf."""
    erf = w.node("Erf", w.node("Mul", x, w.constant(0.70710678, "f32")))
    half = w.node("Mul", x, w.constant(0.5, "f32"))
    return w.node("Mul", half, w.node("AddV2", erf, w.constant(1.0, "f32")))
