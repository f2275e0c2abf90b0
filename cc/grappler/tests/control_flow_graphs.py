"""Writes graphs of conds for deadness_test.cc: control_flow_graphs.py FOLDER COUNT."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_DISC"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tensorflow as tf

from tests.grappler.random_graph import random_graph


def without_identities_of_predicates(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Each Switch decides by the predicate itself: TensorFlow's analysis does not look through."""
    source = {n.name: n.input[0] for n in graph.node if n.name.endswith("pred_id")}
    for node in graph.node:
        for i, name in enumerate(node.input):
            while name in source:
                name = source[name]
            node.input[i] = name
    return graph


def main(folder: Path, count: int) -> None:
    """One serialised GraphDef a seed."""
    tf.compat.v1.disable_control_flow_v2()
    for seed in range(count):
        with tf.Graph().as_default() as graph:
            random_graph(seed, loops=False)
        graph_def = without_identities_of_predicates(graph.as_graph_def())
        (folder / f"{seed}.pb").write_bytes(graph_def.SerializeToString())


main(Path(sys.argv[1]), int(sys.argv[2]))
