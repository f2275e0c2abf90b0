"""Clusters that several tests look at, each small enough to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.compiler.clusters import ClusterWriter, gelu, layer_norm
from tf_disc.compiler.codegen.kernel import Kernel
from tf_disc.compiler.codegen.memory import Memory, plan_memory
from tf_disc.compiler.codegen.product_kernel import build_kernel
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.graph import Graph
from tf_disc.compiler.ir.verifier import verify_graph
from tf_disc.compiler.passes.groups import Group, form_groups
from tf_disc.compiler.pipeline import PASSES

F32 = np.float32


def _norm() -> dict[str, Any]:
    w = ClusterWriter("layer_norm")
    x = w.tensor("x", np.zeros((2, 3, 64), F32), [None, None, 64])
    scale, shift = w.tensor("scale", np.zeros(64, F32)), w.tensor("shift", np.zeros(64, F32))
    return w.cluster(layer_norm(w, x, scale, shift))


def _dense() -> dict[str, Any]:
    """A product by a weight with bias, GELU and a residual."""
    w = ClusterWriter("dense_gelu")
    x = w.tensor("x", np.zeros((5, 32), F32), [None, 32])
    y = w.node("MatMul", x, w.weight("w", np.zeros((32, 48), F32)), name="dense/MatMul")
    biased = w.node("BiasAdd", y, w.tensor("bias", np.zeros(48, F32), [48]), name="dense/BiasAdd")
    return w.cluster(w.node("AddV2", gelu(w, biased), w.tensor("residual", np.zeros((5, 48), F32))))


def _attention() -> dict[str, Any]:
    """Scores of heads: transposes around two products, a mask and a softmax."""
    w = ClusterWriter("attention")
    parts = []
    for name in ("q", "k", "v"):
        x = w.tensor(name, np.zeros((2, 6, 4, 8), F32), [None, None, 4, 8])
        parts.append(w.node("Transpose", x, w.constant([0, 2, 1, 3])))
    scores = w.node("BatchMatMulV2", parts[0], parts[1], adj_x=False, adj_y=True, name="scores")
    scaled = w.node("Mul", scores, w.constant(0.35, "f32"))
    masked = w.node(
        "AddV2", scaled, w.tensor("mask", np.zeros((2, 1, 1, 6), F32), [None, 1, 1, None])
    )
    mixed = w.node("BatchMatMulV2", w.node("Softmax", masked), parts[2], name="mix")
    return w.cluster(w.node("Transpose", mixed, w.constant([0, 2, 1, 3])))


def _moves() -> dict[str, Any]:
    """Gather, slices, a join, a column reduction, an iota, sizes, comparisons, two outputs."""
    w = ClusterWriter("moves")
    table = w.tensor("table", np.zeros((10, 7), F32), [None, 7])
    ids = w.tensor("ids", np.zeros((3, 5), np.int32))
    rows = w.node("GatherV2", table, ids, w.constant(0), batch_dims=0, name='odd } { | "name" @ x')
    back = w.node(
        "StridedSlice",
        rows,
        w.constant([0, 0]),
        w.constant([0, 0]),
        w.constant([1, -2]),
        begin_mask=3,
        end_mask=3,
    )
    joined = w.node("ConcatV2", back, w.node("Tanh", rows), w.constant(1))
    total = w.node("Sum", joined, w.constant([1]), keep_dims=False)
    size = w.node(
        "StridedSlice",
        w.node("Shape", ids, out_type="i32"),
        w.constant([1]),
        w.constant([2]),
        w.constant([1]),
        shrink_axis_mask=1,
    )
    steps = w.node("Range", w.constant(0), size, w.constant(1))
    mask = w.node("Less", steps, ids)
    return w.cluster(total, mask)


def _infinity() -> dict[str, Any]:
    """Constants that JSON lacks, a bool and a select."""
    w = ClusterWriter("constants")
    x = w.tensor("x", np.zeros((4, 3), F32))
    keep = w.tensor("keep", np.zeros((4, 3), np.bool_))
    low = w.node("SelectV2", keep, x, w.constant(-np.inf, "f32"))
    scaled = w.node("Mul", low, w.constant([-0.0, np.nan, 1e-30], "f32"))
    return w.cluster(w.node("Max", scaled, w.constant([0]), keep_dims=True))


SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "layer_norm": _norm,
    "dense_gelu": _dense,
    "attention": _attention,
    "moves": _moves,
    "constants": _infinity,
}


def optimized(cluster: dict[str, Any]) -> Graph:
    """The graph after all passes."""
    graph = import_cluster(cluster)
    for run in PASSES.values():
        run(graph)
    verify_graph(graph)
    return graph


def grouped(graph: Graph) -> tuple[list[Group], Memory, list[Kernel]]:
    """Groups, memory and kernels of a graph."""
    groups, inlined = form_groups(graph)
    memory = plan_memory(graph, groups, inlined)
    weights = {i.value for i in graph.inputs if i.kind == "weight"}
    kernels = [
        build_kernel(group, inlined, memory.stores[i], weights) for i, group in enumerate(groups)
    ]
    return groups, memory, kernels
