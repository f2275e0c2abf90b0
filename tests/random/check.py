"""Runs one recipe in plain TensorFlow and in tf_disc, and says whether they agree and whether a kernel ran."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

import tf_disc
from tests.random import compare, disturb
from tests.random.arrays import make_inputs, make_variables
from tests.random.graph import make_function
from tests.random.recipe import Recipe, ops_of
from tf_disc.ops.library import require_library

#: Ops of which the kernel leaves a call to TensorFlow where an operand is huge: a graph with one may fall back.
FAR = ("Sin", "Cos", "Tan", "Mod", "FloorMod", "TruncateMod")
#: Fallbacks that are known to be wanting, by what their reasons say. Values are right; the list only shrinks.
KNOWN_LIMITS = {
    "is computed from data of": "an operand that says sizes is computed from data within the cluster",
    "has a size in dim": "TensorFlow's shape rule of a cross entropy denies that its labels broadcast",
}
#: Disturbed runs at first, and where those leave a doubt.
_FEW, _MANY = 8, 64


@dataclass
class Verdict:
    """What became of a recipe. `failure` is empty if all is well; its first word is its kind."""

    failure: str = ""
    kernel_runs: int = 0
    launches: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    #: Calls that TensorFlow refused, of how many.
    errors: int = 0
    calls: int = 0
    #: Whether calls fell back for known limits alone.
    limited: bool = False
    #: Calls of which the right values depend on roundings.
    unjudged: int = 0
    #: Why TensorFlow itself could not build the graph.
    unbuildable: str = ""

    @property
    def kind(self) -> str:
        """The failure's first word: a smaller recipe must fail in the same way."""
        return self.failure.split(" ", 1)[0]


@dataclass
class Outcome:
    """One call: outputs and the variables after it, or the error."""

    outputs: list[Any]
    error: str = ""


class UnsteadyError(Exception):
    """A disturbed run fails where the undisturbed one does not: its call cannot be judged."""


def check(recipe: Recipe) -> Verdict:
    """Builds the graph twice and makes the recipe's calls with each. tf_disc must have been enabled."""
    verdict = Verdict(calls=len(recipe.calls))
    with plain_tensorflow():
        try:
            plain = Side(recipe)
        except (ValueError, TypeError, LookupError, NotImplementedError) as error:
            # Some gradients of loops and raw Switches: TensorFlow cannot build the graph at all.
            return Verdict(unbuildable=f"{type(error).__name__}: {str(error)[:200]}")
        expected = [plain.call(i) for i in range(len(recipe.calls))]
    native = require_library()
    native.reset_launch_statistics()
    native.reset_pass_statistics()
    with tf_disc.options(mode="sync", **recipe.options):
        compiled = Side(recipe)
        found = [compiled.call(i) for i in range(len(recipe.calls))]
    _count(verdict, native)
    verdict.errors = sum(bool(e.error) for e in expected)
    for i, (want, have) in enumerate(zip(expected, found, strict=True)):
        try:
            problem = _agree(plain, i, want, have)
        except UnsteadyError:
            verdict.unjudged += 1
            continue
        if problem:
            verdict.failure = f"{problem[0]} call {i} ({_words(recipe, i)}): {problem[1]}"
            return verdict
    far = any(op in FAR for op in ops_of(recipe.body))
    verdict.limited = bool(verdict.reasons) and all(
        any(text in reason for text in KNOWN_LIMITS) for reason in verdict.reasons
    )
    left = far and all("an element is outside" in reason for reason in verdict.reasons)
    asked = recipe.fallback or verdict.limited or left
    if verdict.reasons and not verdict.errors and not asked:
        verdict.failure = f"fallback {json.dumps(verdict.reasons)}"
    return verdict


def _words(recipe: Recipe, i: int) -> str:
    sizes = {s: n for s, n in recipe.calls[i].sizes.items() if not s.endswith("_")}
    return ", ".join(f"{s}={n}" for s, n in sizes.items()) + (
        " special" if recipe.calls[i].special else ""
    )


class Side:
    """A recipe built once, with variables of its own."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.variables = [tf.Variable(v) for v in make_variables(recipe, 0)]
        self.function = make_function(recipe, self.variables)
        self.function.get_concrete_function()
        self.before: list[list[Any]] = []

    def call(self, i: int) -> Outcome:
        """One call; errors of TensorFlow are outcomes."""
        call = self.recipe.calls[i]
        if call.assign:
            for variable, value in zip(self.variables, make_variables(self.recipe, call.seed)):
                variable.assign(value)
        self.before.append([v.numpy() for v in self.variables])
        try:
            outputs = self.function(*map(tf.constant, make_inputs(self.recipe, call)))
        except tf.errors.OpError as error:
            return Outcome([], f"{type(error).__name__}: {first_words(error.message)}")
        return Outcome([o.numpy() for o in outputs] + [v.numpy() for v in self.variables])

    def disturbed(self, i: int, seeds: range, scale: float = 1.0) -> list[list[Any]]:
        """Outputs and variables of disturbed runs of a call of this side's graph.

        Raises UnsteadyError where one takes a way that TensorFlow refuses: a predicate may go either way.
        """
        concrete = self.function.get_concrete_function()
        inputs = [tf.constant(a) for a in make_inputs(self.recipe, self.recipe.calls[i])]
        found = []
        for seed in seeds:
            fresh = [tf.Variable(v) for v in self.before[i]]
            handles = {id(old.handle): new.handle for old, new in zip(self.variables, fresh)}
            captured = [handles.get(id(c), c) for c in concrete.captured_inputs]
            hook = disturb.Disturbance(seed, scale)
            try:
                outputs = disturb.run_graph(concrete.graph, [*inputs, *captured], hook)
            except tf.errors.OpError as error:
                raise UnsteadyError from error
            found.append([o.numpy() for o in outputs] + [v.numpy() for v in fresh])
        return found

    def is_inexact(self) -> bool:
        """Whether any op of the graph may differ in its last places."""
        graph = self.function.get_concrete_function().graph
        definition = graph.as_graph_def()
        nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
        return any(disturb.inexact(n.op) for n in nodes)


def first_words(message: str) -> str:
    """An error's text without the names of nodes and functions, which differ."""
    # TensorFlow puts where a node was made before what went wrong.
    lines = [
        x
        for x in message.split("\n")
        if x.strip()
        and not x.startswith((" ", "\t", "Graph execution", "Detected at", "node ", "<stack"))
    ]
    text = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]", "", lines[0] if lines else message)
    text = re.sub(r"[Ff]unction_node \S+|\b[\w/]*cluster_[0-9a-f]{16}[\w/]*", "", text)
    return " ".join(text.split())[:100]


def _agree(side: Side, i: int, want: Outcome, have: Outcome) -> tuple[str, str] | None:
    if want.error or have.error:
        same = want.error.split(":")[0] == have.error.split(":")[0]
        return (
            None
            if same
            else ("error", f"{have.error or 'a value'}; TensorFlow: {want.error or 'a value'}")
        )
    inexact: bool | None = None
    runs: list[list[Any]] = []
    for k, (a, b) in enumerate(zip(want.outputs, have.outputs, strict=True)):
        try:
            mask = compare.suspects(a, b, False)
        except ValueError as error:
            return "type", f"output {k}: {error}"
        if not mask.any():
            continue
        inexact = side.is_inexact() if inexact is None else inexact
        if inexact:
            mask = compare.suspects(a, b, True)
            for seeds in (range(_FEW), range(_FEW, _MANY)):
                if not mask.any():
                    break
                # The undisturbed run is the first of them.
                runs += side.disturbed(i, range(1), 0.0) if not runs else []
                if len(runs) <= seeds.stop:
                    runs += side.disturbed(i, range(len(runs) - 1, seeds.stop))
                mask &= compare.outside(a, b, [r[k] for r in runs])
        if mask.any():
            return "value", f"output {k}: {compare.describe(a, b, mask)}"
    return None


def _count(verdict: Verdict, native: Any) -> None:
    """What the pass and the launches did since the last reset."""
    launches = json.loads(native.launch_statistics())
    for cluster in launches["clusters"]:
        verdict.kernel_runs += cluster["kernel_runs"]
        verdict.launches += cluster["calls"]
        for reason, count in cluster["fallbacks"].items():
            verdict.reasons[reason] = verdict.reasons.get(reason, 0) + count
    for graph in json.loads(native.pass_statistics())["graphs"]:
        for left in graph["left"]:
            key = f"{left['op']}: {left['reason']}"
            verdict.left[key] = verdict.left.get(key, 0) + left["count"]


@contextlib.contextmanager
def plain_tensorflow() -> Iterator[None]:
    """No plugin, and none of TensorFlow's own pattern fusions, which are wrong in places."""
    names = ("use_plugin_optimizers", "remapping")
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(dict.fromkeys(names, False))
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({n: before.get(n, True) for n in names})


__all__ = ["Side", "Verdict", "check", "np"]
