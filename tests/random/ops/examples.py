"""Ops without a builder of their own: the calls that their records' examples make.

So a new record is drawn from the day it is written, if only at its examples' sizes.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.random.maker import Maker
from tests.random.recipe import Operand, Type
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.record import Arg, Example, OpRule


def build(m: Maker, rule: OpRule) -> bool:
    """One example's operands and attributes, the operands new inputs or values of just their types."""
    good = [i for i, e in enumerate(rule.examples) if not e.error]
    if not good:
        return False
    at = m.src.of(good)
    example = rule.examples[at]
    types = result_types(rule.op, at)
    if not types:
        return False
    count = sum(len(a) if isinstance(a, tuple) else 1 for a in example.args)
    by_value = {p % count for p in rule.by_value}
    position = 0

    def operand(arg: Arg) -> Operand:
        nonlocal position
        mine, position = position, position + 1
        if mine in by_value:
            return {"const": _plain(arg), "dtype": arg.dtype, "dims": list(arg.dims)}
        type_ = Type(arg.dtype, tuple(arg.dims))
        if arg.values is not None:
            return m.new_input(type_, "values", values=_plain(arg))
        if arg.high:
            return m.new_input(type_, "index", arg.high)
        return m.same(type_) if arg.kind == "any" else m.new_input(type_, arg.kind)

    inputs = [
        [operand(a) for a in arg] if isinstance(arg, tuple) else operand(arg)
        for arg in example.args
    ]
    attrs = {k: list(v) if isinstance(v, tuple) else v for k, v in example.attrs.items()}
    m.add(rule.op, inputs, types, attrs)
    return True


def _plain(arg: Arg) -> Any:
    return (
        np.asarray(arg.values).reshape(-1).tolist() if arg.dims else np.asarray(arg.values).item()
    )


@functools.cache
def result_types(op: str, at: int) -> list[Type]:
    """What TensorFlow gives for an example: results up to the first of which its shape rule says otherwise.

    (Reserved results of batch normalisation are of another size than they are said to be.)
    """
    import tensorflow as tf

    from tests.compiler.test_op_examples import flat_args, make, run_tensorflow
    from tests.random.arrays import name_of

    rule = RULES[op]
    example = rule.examples[at]
    rng = np.random.default_rng(0)
    arrays = [make(a, rng) for a in flat_args(example)]
    results = run_tensorflow(rule, example, arrays)
    try:
        with tf.Graph().as_default():
            stated = graph_types(rule, example, arrays)
    except ValueError:
        return []  # an eager call may be what no graph can hold
    types = []
    for result, shape in zip(results, stated):
        if not shape.is_compatible_with(result.shape):
            break
        types.append(Type(name_of(result.dtype), tuple(result.shape)))
    return types


def graph_types(rule: OpRule, example: Example, arrays: list[Any]) -> list[Any]:
    """The shapes that TensorFlow's shape rule gives for an example."""
    from tests.random.graph import raw

    rest = iter(arrays)
    inputs = [[next(rest) for _ in a] if isinstance(a, tuple) else next(rest) for a in example.args]
    return [t.shape for t in raw(rule.op, inputs, dict(example.attrs))]
