"""Small graphs, and questions about graphs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_disc.grappler import optimize_graph
from tf_disc.ops.library import require_library

GraphDef = tf.compat.v1.GraphDef
NodeDef = tf.compat.v1.NodeDef

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def graph_of(build: Callable[[], Any]) -> Any:
    """The GraphDef of what `build` adds to an empty graph."""
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def placeholder(name: str, shape: Sequence[int | None] | None = (None, 8)) -> tf.Tensor:
    """An f32 input."""
    return tf.compat.v1.placeholder(tf.float32, shape, name=name)


def chain(x: tf.Tensor, name: str, length: int = 3) -> tf.Tensor:
    """Enough elementwise ops in a row to be worth a cluster; the last one is called `name`."""
    for i in range(length - 1):
        x = tf.raw_ops.Tanh(x=x, name=f"{name}_{i}")
    return tf.raw_ops.Exp(x=x, name=name)


def node(graph: Any, name: str) -> Any:
    """The node of that name; fails the test if there is none."""
    found = [n for n in graph.node if n.name == name]
    assert found, f"no node {name!r} among {[n.name for n in graph.node]}"
    return found[0]


def names(graph: Any) -> set[str]:
    """Names of all nodes."""
    return {n.name for n in graph.node}


def launches(graph: Any) -> list[Any]:
    """The DiscLaunch nodes."""
    return [n for n in graph.node if n.op == "DiscLaunch"]


def function(graph: Any, launch: Any) -> Any:
    """The function that a launch runs."""
    (found,) = [
        f for f in graph.library.function if f.signature.name == launch.attr["cluster"].func.name
    ]
    return found


def ops_in(graph: Any, launch: Any) -> Counter[str]:
    """How many nodes of each op a launch stands for, copied Consts included."""
    return Counter(n.op for n in function(graph, launch).node_def)


def nodes_in(graph: Any, launch: Any) -> set[str]:
    """Names of the nodes that a launch stands for."""
    return {n.name for n in function(graph, launch).node_def if n.op != "Const"}


def controls(one: Any) -> set[str]:
    """Names of the nodes that a node waits for."""
    return {i[1:] for i in one.input if i.startswith("^")}


def shapes(launch: Any, attr: str) -> list[tuple[int, ...] | None]:
    """A list of shapes; None: the rank is unknown."""
    return [
        None if s.unknown_rank else tuple(d.size for d in s.dim)
        for s in launch.attr[attr].list.shape
    ]


def optimize(build: Callable[[], Any], fetches: Sequence[str], **options: Any) -> Any:
    """The graph that `build` makes, after one call of the pass; TensorFlow can still import it."""
    optimized = optimize_graph(graph_of(build), fetches, **options)
    with tf.Graph().as_default():
        tf.import_graph_def(optimized, name="")
    return optimized


def reasons(op: str | None = None) -> dict[str, str]:
    """By op, why nodes of the last graph that the pass saw were left (one reason an op)."""
    graph = json.loads(require_library().pass_statistics())["graphs"][-1]
    return {g["op"]: g["reason"] for g in graph["left"] if op is None or g["op"] == op}


def run(graph: Any, fetches: Any, feeds: dict[str, Any]) -> Any:
    """What a session without any optimizer gives."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(graph, name="")
        with tf.compat.v1.Session(graph=imported, config=config) as session:
            return session.run(fetches, feeds)
