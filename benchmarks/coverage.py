"""How much of real models is compiled, and why the rest is not: `python -m benchmarks.coverage [NAME...]`.

A node counts as the report counts it (docs/report.md): those that do work. Covered are those in clusters. Nodes that are
left are listed with TensorFlow's name of the op, their number and the pass's reason. Convolution and pooling are counted
apart, and so are the nodes that steer loops and conds, which move no data. Nothing is compiled or timed.

`--basic-pitch FOLDER` adds the model of that name from the PyPI package basic-pitch: the folder of its SavedModel, in an
installed package `basic_pitch/saved_models/icassp_2022/nmp`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tf_disc
from benchmarks.models import MODELS
from tf_disc.ops.library import require_library

#: Left to TensorFlow for now, as a whole family.
SPATIAL = ("Conv", "Pool", "_FusedConv", "DepthwiseConv", "_FusedDepthwise")
STEERING = ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch")
#: What a loop's body is called in the name of a node: keras' and TensorFlow's own.
_BODY = "while/body"


@dataclass
class Coverage:
    """Numbers of nodes of one model, and the groups that are left: op and reason to their number."""

    nodes: int = 0
    covered: int = 0
    spatial: int = 0
    steering: int = 0
    in_bodies: int = 0
    left: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """Covered nodes over those that are neither convolution nor pooling."""
        return self.covered / max(1, self.nodes - self.spatial)

    @property
    def share_of_work(self) -> float:
        """The same without the nodes that steer loops and conds."""
        return self.covered / max(1, self.nodes - self.spatial - self.steering)


def _ids(shape: tuple[int, ...], high: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).integers(0, high, shape), tf.int32)


def _floats(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)


_INPUTS: dict[str, Callable[[], list[tf.Tensor]]] = {
    "memory": lambda: [_floats(2, 3, 512), _floats(512), _floats(512)],
    "deepfm": lambda: [_ids((3, 26), 10000), _floats(3, 13)],
    "minilm": lambda: [_ids((1, 8), 30000), _ids((1, 8), 2)],
    "bert_base": lambda: [_ids((1, 8), 30000), _ids((1, 8), 2)],
    "resnet50": lambda: [_floats(1, 224, 224, 3)],
    "mobilenet_v2": lambda: [_floats(1, 224, 224, 3)],
    "efficientnet_b0": lambda: [_floats(1, 224, 224, 3)],
    "lstm": lambda: [_floats(2, 5, 64)],
}


@contextlib.contextmanager
def our_model(name: str) -> Iterator[Callable[[], Any]]:
    """Gives a call of a model of ours."""
    model: Any = MODELS[name]()  # kept here: its functions refer to it weakly
    inputs = _INPUTS[name]()
    yield lambda: model.serve(*inputs)


@contextlib.contextmanager
def basic_pitch_model(folder: Path) -> Iterator[Callable[[], Any]]:
    """Gives a call of basic-pitch. Its SavedModel names an optimizer that Keras 3 has not: a session loads it without."""
    graph = tf.Graph()
    with tf.compat.v1.Session(graph=graph) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signature = meta.signature_def["serving_default"]
        (given,) = signature.inputs.values()
        sizes = [1 if d.size < 0 else d.size for d in given.tensor_shape.dim]
        audio = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
        results = [o.name for o in signature.outputs.values()]
        yield lambda: session.run(results, {given.name: audio})


def measure(model: contextlib.AbstractContextManager[Callable[[], Any]]) -> Coverage:
    """What the pass says of the graphs that a model's call runs; loading it is not counted."""
    native = require_library()
    # Kernels are not wanted here: the clusters' functions run in TensorFlow.
    with tf_disc.options(mode="aot"), model as run:
        native.reset_pass_statistics()
        run()
    result = Coverage()
    for graph in json.loads(native.pass_statistics())["graphs"]:
        result.nodes += graph["nodes"]
        result.covered += graph["in_clusters"]
        for cluster in graph["clusters"]:
            result.in_bodies += sum(_BODY in node for node in cluster["nodes"])
        for left in graph["left"]:
            result.left[left["op"], left["reason"]] += left["count"]
    for (op, _), count in result.left.items():
        result.spatial += count * any(op.startswith(s) or op.endswith(s) for s in SPATIAL)
        result.steering += count * (op in STEERING)
    return result


def tables(found: dict[str, Coverage]) -> list[Table]:
    """One table of all models, and one of what each leaves."""
    shares = Table(
        "model",
        "nodes",
        "in clusters",
        "share",
        "convolution, pooling",
        "loops, conds",
        "share of the rest",
    )
    for name, c in found.items():
        numbers = (
            c.nodes,
            c.covered,
            f"{c.share:.1%}",
            c.spatial,
            c.steering,
            f"{c.share_of_work:.1%}",
        )
        shares.add_row(name, *map(str, numbers))
    left = Table("model", "op", "nodes", "left to TensorFlow because")
    for name, c in found.items():
        for (op, reason), count in c.left.most_common():
            left.add_row(name, op, str(count), reason)
    return [shares, left]


def markdown(table: Table) -> str:
    """A table as docs/coverage.md has it."""
    columns = [[str(c.header), *map(str, c.cells)] for c in table.columns]
    rows = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in zip(*columns)
    ]
    return "\n".join([rows[0], "|" + "---|" * len(columns), *rows[1:]])


@click.command(help=__doc__.split("\n")[0])
@click.argument("names", nargs=-1)
@click.option(
    "--basic-pitch", type=click.Path(exists=True, path_type=Path), help="folder of its SavedModel"
)
@click.option("--markdown", "as_markdown", is_flag=True, help="as docs/coverage.md has it")
def main(names: tuple[str, ...], basic_pitch: Path | None, as_markdown: bool) -> None:
    tf_disc.enable()
    found: dict[str, Coverage] = {}
    for name in names or tuple(_INPUTS):
        if name not in _INPUTS:
            sys.exit(f"there is no model {name}; the models are {', '.join(_INPUTS)}")
        found[name] = measure(our_model(name))
    if basic_pitch is not None:
        found["basic-pitch"] = measure(basic_pitch_model(basic_pitch))
    for table in tables(found):
        if as_markdown:
            print(markdown(table) + "\n")
        else:
            Console(width=140).print(table)
    bodies: dict[str, Any] = {name: c.in_bodies for name, c in found.items() if c.in_bodies}
    for name, count in bodies.items():
        print(f"{name}: {count} of {found[name].covered} nodes in clusters are in bodies of loops")


if __name__ == "__main__":
    main()
