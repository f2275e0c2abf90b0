"""TensorFlow: plain, with its own BF16, through XLA, with tf_disc, or with a plugin of its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.engines import Arrays, Call


class TensorFlowEngine:
    """`way`: plain, xla, xla-graph or tf_disc; other options are tf_disc's.

    A function with jit_compile that Python calls is one kernel on the caller's thread: TensorFlow's executor, which
    hands graphs to its thread pool, never sees it. `xla-graph` calls the same function from a graph, as a
    SavedModel's signature or a larger model would.
    """

    def __init__(self, precision: str, options: Mapping[str, str]) -> None:
        given = dict(options)
        self._way = given.pop("way", "plain")
        self._disc: Any = None
        if self._way == "tf_disc":
            import tf_disc

            tf_disc.enable(precision=precision, **given)
            self._disc = tf_disc
        elif precision == "bf16":
            tf.config.optimizer.set_experimental_options(
                {"auto_mixed_precision_onednn_bfloat16": True}
            )
        self._kept: Any = None
        self._case: Any = None
        self._function: Any = None
        self._signature: list[tf.TensorSpec] = []
        self._by_name = False

    def load(self, kind: str, path: str) -> None:
        if kind == "micro":
            from benchmarks.micro_suite import case_named

            self._case = case_named(path)
            traced = self._case.traced(jit_compile=self._jit)
            if self._way == "xla-graph":
                traced = _from_graph(traced, self._case.signature())
            # A concrete function: tf.function's own dispatch is Python's cost, not the graph's.
            self._function = traced.get_concrete_function()
            self._signature = list(self._case.signature())
            return
        # A signature does not keep its model's variables alive.
        self._kept = tf.saved_model.load(path)
        serve = self._kept.signatures["serving_default"]
        self._signature = list(serve.structured_input_signature[1].values())
        self._by_name = True
        self._function = serve
        if self._jit:
            jitted = tf.function(
                lambda **inputs: serve(**inputs), jit_compile=True, reduce_retracing=False
            )
            self._function = jitted
            if self._way == "xla-graph":
                traced = tf.function(lambda **inputs: jitted(**inputs))
                self._function = traced.get_concrete_function(**_specs(self._signature))

    def prepare(self, arrays: Arrays, client: int) -> Call:
        return _call(self._function, _tensors(arrays), self._by_name)

    def prepare_case(self, size: int) -> tuple[Call, int]:
        arrays = dict(self._case.inputs(size))
        num_bytes = sum(array.nbytes for array in arrays.values())
        return _call(self._function, _tensors(arrays), self._by_name), num_bytes

    def outputs(self, result: Any) -> Arrays:
        named = result if isinstance(result, dict) else {"y": result}
        return {name: np.array(value.numpy()) for name, value in named.items()}

    def empty(self) -> Call:
        # The same inputs, none of them used: what is left is the cost of a call.
        tensors = {
            spec.name: tf.zeros([dim or 1 for dim in spec.shape], spec.dtype)
            for spec in self._signature
        }
        in_graph = self._way == "xla-graph"
        if self._by_name:
            traced = tf.function(lambda **inputs: {"y": tf.constant(0.0)}, jit_compile=self._jit)
            if in_graph:
                jitted = traced
                traced = tf.function(lambda **inputs: jitted(**inputs))
            plain = self._way == "xla"
            function = traced if plain else traced.get_concrete_function(**_specs(self._signature))
        else:
            traced = tf.function(
                lambda *inputs: tf.constant(0.0),
                input_signature=self._signature,
                jit_compile=self._jit,
            )
            traced = _from_graph(traced, self._signature) if in_graph else traced
            function = traced.get_concrete_function()
        return _call(function, tensors, self._by_name)

    @property
    def _jit(self) -> bool | None:
        return True if self._way in ("xla", "xla-graph") else None

    def version(self) -> str:
        if self._disc is not None:
            return f"tf_disc {self._disc.__version__}, TensorFlow {tf.__version__}"
        return f"TensorFlow {tf.__version__}"

    def settle(self) -> None:
        if self._disc is not None and not self._disc.wait_for_compiles():
            raise TimeoutError("kernels are still being compiled")

    def report(self) -> dict[str, Any]:
        return self._disc.report().as_dict() if self._disc is not None else {}


def _from_graph(function: Any, signature: list[tf.TensorSpec]) -> Any:
    return tf.function(lambda *inputs: function(*inputs), input_signature=list(signature))


def _tensors(arrays: Arrays) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in arrays.items()}


def _specs(signature: list[tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {spec.name: spec for spec in signature}


def _call(function: Any, tensors: dict[str, tf.Tensor], by_name: bool) -> Call:
    if by_name:
        return lambda: function(**tensors)
    values = list(tensors.values())
    return lambda: function(*values)


def make(precision: str, options: Mapping[str, str]) -> TensorFlowEngine:
    return TensorFlowEngine(precision, options)
