"""Runs a traced graph node by node, eagerly, and lets each result be changed on its way.

What `disturb.py` needs: the graph as TensorFlow traced it, gradients and the bodies of conds and loops included, without
Grappler and without the cost of a second trace. Raw Switch and Merge are run as TensorFlow does, by dead values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import function_def_to_graph

#: What a node gave, its op and operands, to what is passed on.
Hook = Callable[[tf.Operation, list[Any], list[Any]], list[Any]]

_DEAD = object()
_IF = ("If", "StatelessIf")
_WHILE = ("While", "StatelessWhile")
_CALL = ("PartitionedCall", "StatefulPartitionedCall")


def run_graph(graph: Any, args: Sequence[Any], hook: Hook) -> list[Any]:
    """The outputs of a FuncGraph. `args`: one value an input, captured ones included."""
    values: dict[str, Any] = {t.name: v for t, v in zip(graph.inputs, args, strict=True)}
    for op in _order(graph):
        if op.type == "Placeholder" or (op.outputs and op.outputs[0].name in values):
            continue
        inputs = [values[t.name] for t in op.inputs]
        dead = any(_is_dead(c, values) for c in op.control_inputs)
        results = _run(graph, op, inputs, dead, hook)
        values.update({t.name: r for t, r in zip(op.outputs, results, strict=True)})
    return [values[t.name] for t in graph.outputs]


def _is_dead(op: tf.Operation, values: dict[str, Any]) -> bool:
    """Whether a node did not run. A Switch that ran has one dead output."""
    return bool(op.outputs) and all(values.get(t.name) is _DEAD for t in op.outputs)


def _order(graph: Any) -> list[tf.Operation]:
    """What the outputs and the control outputs depend on, operands first; among equals as they were made."""
    order: list[tf.Operation] = []
    state: dict[tf.Operation, bool] = {}
    left = [t.op for t in graph.outputs] + list(graph.control_outputs)
    left = [*sorted(set(left), key=_made, reverse=True)]
    while left:
        op = left[-1]
        if op in state:
            left.pop()
            if not state[op]:
                state[op] = True
                order.append(op)
            continue
        state[op] = False
        before = {*(t.op for t in op.inputs), *op.control_inputs}
        left += sorted((o for o in before if o not in state), key=_made, reverse=True)
    return order


def _made(op: tf.Operation) -> int:
    return int(op._id)


def _run(graph: Any, op: tf.Operation, inputs: list[Any], dead: bool, hook: Hook) -> list[Any]:
    if op.type == "Merge":  # control edges from dead nodes do not keep it
        live = [i for i, v in enumerate(inputs) if v is not _DEAD]
        return [inputs[live[0]], tf.constant(live[0])] if live else [_DEAD, _DEAD]
    if dead or any(v is _DEAD for v in inputs):
        return [_DEAD] * len(op.outputs)
    if op.type == "Switch":
        return [_DEAD, inputs[0]] if bool(inputs[1]) else [inputs[0], _DEAD]
    if op.type == "Const":
        return [tf.constant(tf.make_ndarray(op.get_attr("value")))]
    if op.type == "NoOp":
        return []
    if op.type in _IF:
        branch = "then_branch" if bool(inputs[0]) else "else_branch"
        return run_graph(_function(graph, op, branch), inputs[1:], hook)
    if op.type in _WHILE:
        condition, body = _function(graph, op, "cond"), _function(graph, op, "body")
        while bool(run_graph(condition, inputs, hook)[0]):
            inputs = run_graph(body, inputs, hook)
        return inputs
    if op.type in _CALL:
        return run_graph(_function(graph, op, "f"), inputs, hook)
    return hook(op, inputs, execute_op(op, inputs))


def _function(graph: Any, op: tf.Operation, attr: str) -> Any:
    """The graph of a function that a node names: traced, or made of its definition (gradients of loops)."""
    name = op.get_attr(attr).name
    around = graph
    while around is not None and hasattr(around, "_get_function"):
        found = around._get_function(name)
        if found is not None and getattr(found, "graph", None) is not None:
            return found.graph
        if found is not None:
            return function_def_to_graph.function_def_to_graph(found.cached_definition)
        around = getattr(around, "outer_graph", None)
    return function_def_to_graph.function_def_to_graph(context.context().get_function_def(name))


def execute_op(op: tf.Operation, inputs: Sequence[Any]) -> list[Any]:
    """One node, eagerly."""
    attrs: list[Any] = []
    flat: list[Any] = []
    at = 0
    definition = op.op_def
    for argument in definition.input_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        flat += inputs[at : at + count]
        at += count
    for attr in definition.attr:
        attrs += [attr.name, _attr(op.get_attr(attr.name), attr.type)]
    result = execute.execute(
        op.type.encode(), len(op.outputs), inputs=flat, attrs=tuple(attrs), ctx=context.context()
    )
    return list(result)


def _attr(value: Any, kind: str) -> Any:
    if kind == "type":
        return tf.dtypes.as_dtype(value).as_datatype_enum
    if kind == "list(type)":
        return [tf.dtypes.as_dtype(v).as_datatype_enum for v in value]
    if kind == "shape":
        return _dims(value)
    if kind == "list(shape)":
        return [_dims(v) for v in value]
    return value


def _dims(shape: Any) -> list[int] | None:
    """A shape as eager execution takes it: -1 for an unknown size, None for an unknown rank."""
    known = tf.TensorShape(shape)
    return None if known.rank is None else [-1 if d is None else d for d in known.as_list()]


#: Types of which a value is a handle or a list of tensors: never disturbed.
OPAQUE = (types_pb2.DT_VARIANT, types_pb2.DT_RESOURCE)
