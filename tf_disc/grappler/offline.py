"""Runs the pass once on a GraphDef: for tests, for tools, for curiosity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_disc.ops.library import load_library

if TYPE_CHECKING:
    import tensorflow as tf


def optimize_graph(
    graph: tf.compat.v1.GraphDef,
    fetches: Sequence[str],
    *,
    feeds: Sequence[str] = (),
    keep_ops: Sequence[str] = (),
    graph_id: str = "offline",
    allow_non_differentiable_rewrites: bool = True,
    remap: bool = True,
) -> tf.compat.v1.GraphDef:
    """The graph as the pass makes it, under the op table and the options of the process.

    `fetches` and `feeds` are names of tensors ("y:0") or nodes; these nodes and `keep_ops` keep
    their names. `graph_id` is the name under which the report has it. `remap`: whether TensorFlow's
    own fusions are run on what is left. A pass that fails returns the graph as it was, and the
    report says why. Raises what `load_library` raises.
    """
    result = type(graph)()
    result.ParseFromString(
        load_library().optimize_graph(
            graph.SerializeToString(),
            list(fetches),
            feeds=list(feeds),
            keep_ops=list(keep_ops),
            graph_id=graph_id,
            allow_non_differentiable_rewrites=allow_non_differentiable_rewrites,
            remap=remap,
        )
    )
    return result
