"""A recipe as a tf.function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.random.arrays import NUMPY, fill
from tests.random.recipe import Body, Node, Operand, Recipe, Type


class _Builder:
    """Builds nodes in the graph that is being traced."""

    def __init__(self, variables: Sequence[tf.Variable], tape: tf.GradientTape | None) -> None:
        self.variables, self.tape = variables, tape

    def body(self, body: Body, params: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The outputs."""
        values = list(params)
        for node in body.nodes:
            with tf.control_dependencies([values[v] for v in node.after]):
                values += self.node(node, values)
        return [values[v] for v in body.outputs]

    def node(self, node: Node, values: list[tf.Tensor]) -> list[tf.Tensor]:
        special = getattr(self, f"_{node.op[1:]}", None) if node.op.startswith("@") else None
        inputs = [self.operand(o, values) for o in node.inputs]
        if special is not None:
            return special(node, inputs)
        return raw(node.op, inputs, node.attrs)[: len(node.outs)]

    def operand(self, operand: Operand, values: list[tf.Tensor]) -> Any:
        if isinstance(operand, int):
            return values[operand]
        if isinstance(operand, list):
            return [self.operand(o, values) for o in operand]
        if "var" in operand:
            return self.variables[operand["var"]].handle
        dtype = NUMPY[operand["dtype"]]
        if "const" in operand:
            return tf.constant(np.array(operand["const"], dtype).reshape(operand["dims"]))
        if "random" in operand:
            type_ = Type(operand["dtype"], tuple(operand["dims"]))
            rng = np.random.default_rng(operand["random"])
            return tf.constant(fill(type_, tuple(operand["dims"]), "finite", rng, False))
        return self._sizes(operand, values, tf.dtypes.as_dtype(dtype))

    def _sizes(
        self, operand: dict[str, Any], values: list[tf.Tensor], dtype: tf.DType
    ) -> tf.Tensor:
        parts = [
            tf.constant(s, dtype)
            if isinstance(s, int)
            else tf.shape(values[s[0]], out_type=dtype)[s[1]]
            for s in operand["sizes"]
        ]
        if operand.get("scalar"):
            return parts[0]
        return tf.stack(parts) if parts else tf.zeros([0], dtype)

    def _read(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        dtype = NUMPY[node.outs[0].dtype]
        return [tf.raw_ops.ReadVariableOp(resource=inputs[0], dtype=dtype)]

    def _assign(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        getattr(self.variables[node.inputs[0]["var"]], node.attrs["how"])(inputs[1])
        return []

    def _cond(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        predicate, *values = inputs
        arms = [lambda b=node.bodies[n]: self.body(b, values) for n in ("then", "else")]  # type: ignore[misc]
        return list(tf.cond(predicate, *arms))

    def _switch(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        predicate, *values = inputs
        both = [tf.raw_ops.Switch(data=v, pred=predicate) for v in values]
        yes = self.body(node.bodies["then"], [b.output_true for b in both])
        no = self.body(node.bodies["else"], [b.output_false for b in both])
        # Through Identity: a Merge may not see an output of the Switch itself twice.
        return [
            tf.raw_ops.Merge(inputs=[tf.identity(n), tf.identity(y)]).output
            for n, y in zip(no, yes)
        ]

    def _while(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        count, *rest = inputs
        loop, extra = rest[: node.attrs["vars"]], rest[node.attrs["vars"] :]
        shapes = [tf.TensorShape([None] * len(t.dims)) for t in node.outs]

        def step(i: tf.Tensor, *values: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return (i + 1, *self.body(node.bodies["body"], [*values, *extra]))

        loop = [tf.identity(v) for v in loop]
        results = tf.while_loop(
            lambda i, *_: i < count,
            step,
            (tf.constant(0), *loop),
            shape_invariants=(tf.TensorShape([]), *shapes),
        )
        return list(results[1:])

    def _grad(self, node: Node, inputs: list[Any]) -> list[tf.Tensor]:
        ys, xs = inputs
        try:
            if node.attrs["way"] == "tape" and self.tape is not None:
                with self.tape.stop_recording():
                    found = self.tape.gradient(
                        ys, xs, unconnected_gradients=tf.UnconnectedGradients.ZERO
                    )
            else:
                found = tf.gradients(ys, xs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        except (LookupError, TypeError, ValueError, NotImplementedError):
            # An op on the way has no gradient, or none for these attributes: TensorFlow's business.
            found = [tf.zeros_like(x) for x in xs]
        return [tf.convert_to_tensor(g) for g in found]


def raw(op: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[tf.Tensor]:
    """One op by its name; its operands in its own order, then attributes by name."""
    function = getattr(tf.raw_ops, op)
    names = list(inspect.signature(function).parameters)
    kwargs = dict(zip(names, inputs))
    for name, value in attrs.items():
        kwargs[name] = NUMPY[value] if isinstance(value, str) and value in NUMPY else value
    result = function(**kwargs)
    if isinstance(result, tf.Operation):
        return []
    return list(result) if isinstance(result, (list, tuple)) else [result]


def needs_tape(recipe: Recipe) -> bool:
    """Whether a gradient is taken by a tape."""
    return any(n.op == "@grad" and n.attrs["way"] == "tape" for n in recipe.body.nodes)


def make_function(
    recipe: Recipe, variables: Sequence[tf.Variable]
) -> Callable[..., list[tf.Tensor]]:
    """The graph as a tf.function of the recipe's inputs, with the sizes in its signature that the inputs state."""
    signature = [
        tf.TensorSpec([d if k else None for d, k in zip(i.type.dims, i.known)], NUMPY[i.type.dtype])
        for i in recipe.inputs
    ]

    def run(*args: tf.Tensor) -> list[tf.Tensor]:
        if not needs_tape(recipe):
            return _Builder(variables, None).body(recipe.body, args)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([a for a in args if a.dtype.is_floating])
            return _Builder(variables, tape).body(recipe.body, args)

    return tf.function(run, input_signature=signature, autograph=False)
