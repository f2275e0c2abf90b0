"""Every example of every op rule against TensorFlow: values, dtypes, shapes, NaN and inf places, refusals.

Each runs twice: with all sizes unknown to the compiler, for this CPU; and with all known, for AVX2. Where operands say
sizes, a third time with these as constants, as most graphs state them. A case is one artifact, run by the harness in
execute.py, so this holds the compiler alone to TensorFlow.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tests.compiler.execute import NUMPY, TARGETS, GuardFailed, Program, cluster_input
from tf_disc.compiler.errors import UnsupportedError
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.record import Arg, Example, OpRule
from tf_disc.compiler.pipeline import compile_cluster

#: Relative; of the short floats about one unit in the last place, as TensorFlow rounds after each op, too.
TOLERANCE: dict[Any, float] = {
    np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12,
    np.dtype(np.float16): 2.0**-10, np.dtype(NUMPY["bf16"]): 2.0**-7,
}  # fmt: skip
#: Ops whose result depends on the order of a sum.
SUMS = {
    "Sum", "Mean", "Prod", "L2Loss", "Softmax", "LogSoftmax", "BiasAddGrad", "FusedBatchNorm", "FusedBatchNormV2",
    "FusedBatchNormV3", "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3",
    "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "AvgPool", "AvgPool3D",
}  # fmt: skip
#: Ops that compute one element after another, as TensorFlow does: they round alike.
IN_ORDER = ("Cum", "UnsortedSegment", "ScatterNd", "TensorScatter")
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 88.9, -104.0, 1e-30, 3e38]


def make(arg: Arg, rng: np.random.Generator) -> Any:
    """An array for an operand of an example."""
    dtype = NUMPY[arg.dtype]
    if arg.values is not None:
        return np.array(arg.values, dtype).reshape(arg.dims)
    size = int(np.prod(arg.dims))
    if arg.dtype == "bool":
        return (rng.random(size) < 0.5).reshape(arg.dims)
    if arg.high:
        return rng.integers(0, arg.high, size).astype(dtype).reshape(arg.dims)
    if np.issubdtype(dtype, np.integer):
        whole = rng.integers(1 if arg.kind == "unit" else -50, 50, size)
        if arg.kind == "nonzero":
            whole[whole == 0] = 7
        return whole.astype(dtype).reshape(arg.dims)
    values = (rng.normal(size=size) * 2).astype(dtype)
    if arg.kind == "unit":
        values = (np.abs(values) + dtype(0.1)).astype(dtype)
    if arg.kind == "any" and size:
        at = rng.integers(0, size, max(1, size // 4))
        with np.errstate(over="ignore"):  # what a short type does not reach is infinite in it
            values[at] = rng.choice(np.array(SPECIALS, dtype), at.size)
    return values.reshape(arg.dims)


def attr_json(value: Any) -> Any:
    """An attribute as the cluster file has it."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"type": value} if value in NUMPY else {"s": value}
    if isinstance(value, list):
        return {"shape": value}
    if value and isinstance(value[0], str):
        return {"strings": list(value)}
    return {"ints": list(value)}


def flat_args(example: Example) -> list[Arg]:
    """Operands one by one; a tuple among them is a list operand."""
    result: list[Arg] = []
    for arg in example.args:
        result += list(arg) if isinstance(arg, tuple) else [arg]
    return result


def run_tensorflow(rule: OpRule, example: Example, arrays: list[Any]) -> list[Any]:
    """The op in TensorFlow, eagerly, with denormals as in its own threads."""
    rest = iter(arrays)
    if rule.op == "_UnaryOpsComposition":
        value = tf.constant(arrays[0])
        for name in example.attrs["op_names"]:
            value = getattr(tf.raw_ops, name)(**{_first_name(name): value})
        return [value.numpy()]
    if rule.op.startswith("_"):
        return run_hidden(rule.op, example, arrays)
    names = list(inspect.signature(getattr(tf.raw_ops, rule.op)).parameters)
    kwargs: dict[str, Any] = {}
    for name, arg in zip(names, example.args, strict=False):
        if isinstance(arg, tuple):
            kwargs[name] = [tf.constant(next(rest)) for _ in arg]
        else:
            kwargs[name] = tf.constant(next(rest))
    for name, value in example.attrs.items():
        is_type = isinstance(value, str) and value in NUMPY
        kwargs[name] = tf.dtypes.as_dtype(NUMPY[value]) if is_type else value
    result = getattr(tf.raw_ops, rule.op)(**kwargs)
    results = result if isinstance(result, (list, tuple)) else [result]
    return [r.numpy() for r in results]


def run_hidden(op: str, example: Example, arrays: list[Any]) -> list[Any]:
    """An op of one result that tf.raw_ops hides, as a node of a graph. The last operand may be a list."""
    graph = tf.Graph()
    with graph.as_default():
        operands = [tf.compat.v1.placeholder(a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
        definition = graph.as_graph_def()
        node = definition.node.add(op=op, name="node", input=[v.op.name for v in operands])
        node.attr["T"].type = operands[0].dtype.as_datatype_enum
        if isinstance(example.args[-1], tuple):
            node.attr["num_args"].i = len(example.args[-1])
        for name, value in example.attrs.items():
            if isinstance(value, tuple):
                node.attr[name].list.s.extend(text.encode() for text in value)
            elif isinstance(value, bool):
                node.attr[name].b = value
            else:
                node.attr[name].f = value
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        feeds = {f"x{i}:0": array for i, array in enumerate(arrays)}
        return [session.run("node:0", feeds)]


def _first_name(op: str) -> str:
    return "features" if op in ("Relu", "Relu6", "Elu", "Selu") else "x"


def cases() -> Iterator[Any]:
    """All examples of all rules, with a name each."""
    for op, rule in sorted(RULES.items()):
        for i, example in enumerate(rule.examples):
            modes = ("any", "known", "stated") if _lengths(rule, example) else ("any", "known")
            for mode in modes:
                yield pytest.param(rule, example, mode, id=f"{op}-{i}-{mode}")


def _lengths(rule: OpRule, example: Example) -> Sequence[int]:
    """Positions of the operands that say sizes."""
    # A list of shapes has no positions to name in the record; their length is the rank, which is always known.
    return range(len(flat_args(example))) if rule.op == "ConcatOffset" else rule.by_length


def compile_example(rule: OpRule, example: Example, arrays: list[Any], mode: str) -> Program:
    """A cluster of the one node, compiled."""
    known = mode != "any"
    args = flat_args(example)
    inputs, names = [], []
    by_value = {p % len(args) for p in rule.by_value}
    lengths = _lengths(rule, example)
    for i, array in enumerate(arrays):
        constant = i in by_value or (mode == "stated" and i in lengths)
        kind = "const" if constant else "weight" if i in rule.weights and known else "tensor"
        sizes = array.shape if known or (i in lengths and array.ndim) else None
        inputs.append(cluster_input(f"x{i}", array, kind, sizes, i in lengths))
        names.append(f"x{i}")
    attrs = {k: attr_json(v) for k, v in example.attrs.items()}
    if rule.op == "Squeeze":
        attrs["squeeze_dims"] = attrs.pop("axis")
    # An op that tf.raw_ops hides has one result.
    definition = op_def_registry.get(rule.op)
    count = len(definition.output_arg) if definition is not None else 1
    if rule.op in ("Unpack", "Split", "SplitV"):
        count = int(example.attrs.get("num", example.attrs.get("num_split", 0)))
    if rule.op in ("ShapeN", "IdentityN"):
        count = len(args)
    if rule.op == "ConcatOffset":
        count = len(args) - 1
    node = {"name": "node", "op": rule.op, "inputs": names, "attrs": attrs}
    outputs = [f"node:{k}" for k in range(count)]
    cluster = {
        "version": 1,
        "name": "example",
        "inputs": inputs,
        "nodes": [node],
        "outputs": outputs,
    }
    return Program(compile_cluster(cluster, target=_target(rule, example, mode)))


def _target(rule: OpRule, example: Example, mode: str) -> str:
    """The widest for unknown sizes; for known ones the others in turn, so that each rule has all."""
    others = TARGETS[:-1]
    if mode == "any" or not others:
        return TARGETS[-1]
    number = next(i for i, other in enumerate(rule.examples) if other is example)
    return others[(number + (mode == "stated")) % len(others)]


def assert_same_bits(found: Any, expected: Any) -> None:
    """Equal, with NaN in the same places and zeros of the same sign."""
    if found.dtype in TOLERANCE:
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("rule", "example", "mode"), list(cases()))
def test_example_agrees_with_tensorflow(rule: OpRule, example: Example, mode: str) -> None:
    rng = np.random.default_rng(7)
    arrays = [make(a, rng) for a in flat_args(example)]
    if example.error:
        with pytest.raises(getattr(tf.errors, f"{example.error}Error")):
            run_tensorflow(rule, example, arrays)
        with pytest.raises((UnsupportedError, GuardFailed)):
            compile_example(rule, example, arrays, mode)(arrays)
        return
    expected = run_tensorflow(rule, example, arrays)
    found = compile_example(rule, example, arrays, mode)(arrays)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype and f.shape == e.shape
        if rule.cost in ("move", "free", "shape") or rule.op.startswith(IN_ORDER):
            assert_same_bits(f, e)
        elif f.dtype in TOLERANCE:
            tolerance = TOLERANCE[f.dtype]
            sums = rule.cost == "heavy" or rule.op in SUMS
            if sums and tolerance > 1e-4:  # TensorFlow rounds what it sums, we do not
                tolerance *= 16 if rule.cost == "heavy" else 4
            f, e = f.astype(np.float64), e.astype(np.float64)
            near = tolerance * 0.1
            if sums:  # where they cancel out, sums keep the errors of their terms
                largest = np.abs(e[np.isfinite(e)]).max(initial=0)
                near = tolerance * max(1.0, 0.1 * largest)
            np.testing.assert_allclose(f, e, rtol=tolerance, atol=near)
            zero = e == 0
            if not sums:  # the order of a sum decides the sign of its zero
                np.testing.assert_array_equal(np.signbit(f[zero]), np.signbit(e[zero]))
        else:
            np.testing.assert_array_equal(f, e)
