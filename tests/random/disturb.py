"""How far two right answers may lie apart: the same graph, with every inexact op's result disturbed within its error.

Monte Carlo arithmetic (Parker 1997). IEEE's operations (add, multiply, divide, square root, comparisons, all moves) round
one way only, so TensorFlow and a compiled kernel agree in every bit; an output that only such ops lead to must be equal.
Math functions and sums are right within a bound, and what follows may amplify that: a difference of near equal numbers, a
floor, a comparison. So the graph is run a few more times with each inexact result moved at random within its bound. What the
outputs then do says how well each element is determined: a right kernel's results lie in their range.

- Math functions: `_ULPS` ULP of the result (docs/numerics.md has bounds of at most 5.5; TensorFlow's own are alike).
- Sums of n products or terms: 4 sqrt(n) eps times the sum of magnitudes (Higham and Mary 2019), at least 2 eps of it. Where
  the sum of magnitudes overflows, the order decides between infinity, NaN and a number: then anything goes.
- Normalisations and losses (`_BACKWARD`) are long compositions: their operands are disturbed by 16 eps.
- Results near the smallest normal number: that number, since denormals are flushed at places of each side's choosing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.random.arrays import is_float
from tests.random.interpreter import OPAQUE, execute_op, run_graph
from tf_disc.compiler.op_rules import RULES

_ULPS = 8.0
#: TensorFlow's own error is larger in the tails of these.
_OWN_ULPS = {"Erfc": 64.0}

#: Ops of which every result is the exact one, rounded once, or a fixed sequence of such.
EXACT = frozenset({
    "Abs", "Add", "AddN", "AddV2", "BiasAdd", "BiasAddV1", "Cast", "Ceil", "ClipByValue", "Div",
    "DivNoNan", "EnsureShape", "Floor", "FloorDiv", "FloorMod", "Identity", "LeakyRelu",
    "LeakyReluGrad", "Max", "Maximum", "Min", "Minimum", "Mod", "Mul", "MulNoNan", "Neg",
    "MaxPool", "MaxPool3D", "OnesLike", "PreventGradient", "RealDiv", "Relu", "Relu6", "Relu6Grad",
    "ReluGrad", "Rint", "Round", "Select", "SelectV2", "Sign", "Snapshot", "Softsign", "Sqrt",
    "Square", "SquaredDifference", "StopGradient", "Sub", "TensorScatterMax",
    "TensorScatterMin", "TensorScatterUpdate", "TruncateDiv", "TruncateMod",
    "UnsortedSegmentMax", "UnsortedSegmentMin", "ZerosLike",
})  # fmt: skip
#: Sums: which operands they multiply or add up, all of them by magnitude.
_SUMS = frozenset({
    "AvgPool", "AvgPool3D", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BiasAddGrad", "Conv2D", "Conv3D",
    "Cumsum", "DepthwiseConv2dNative", "Einsum", "L2Loss",
    "MatMul", "Mean", "MirrorPadGrad", "ScatterNd", "SegmentSum", "SparseSegmentSum",
    "Sum", "TensorScatterAdd", "TensorScatterSub", "UnsortedSegmentSum",
})  # fmt: skip
#: Long compositions: what they give for operands a little off, as a backward stable algorithm may.
_BACKWARD = frozenset({
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGrad",
    "FusedBatchNormGradV2", "FusedBatchNormGradV3", "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
})  # fmt: skip


def inexact(op: str) -> bool:
    """Whether tf_disc's result may differ in its last places. Ops without a rule stay with TensorFlow: they may not."""
    rule = RULES.get(op)
    return rule is not None and rule.cost in ("real", "heavy") and op not in EXACT


class Disturbance:
    """A hook of the interpreter that moves inexact results within their bounds; `scale` 0 moves nothing."""

    def __init__(self, seed: int, scale: float) -> None:
        self.rng, self.scale = np.random.default_rng(seed), scale

    def __call__(self, op: tf.Operation, inputs: list[Any], results: list[Any]) -> list[Any]:
        if self.scale == 0 or not inexact(op.type):
            return results
        if op.type in _BACKWARD:
            results = execute_op(op, [self._input(i) for i in inputs])
        return [self._moved(op, inputs, i, r) for i, r in enumerate(results)]

    def _input(self, value: Any) -> Any:
        """An operand moved by a few units of its last place."""
        if not value.dtype.is_floating:
            return value
        x = value.numpy()
        noise = 1 + self.rng.uniform(-1, 1, x.shape) * self.scale * 16 * _eps(x.dtype)
        return tf.constant((x.astype(np.float64) * noise).astype(x.dtype), value.dtype)

    def _moved(self, op: tf.Operation, inputs: list[Any], at: int, result: Any) -> Any:
        if result.dtype.as_datatype_enum in OPAQUE or not result.dtype.is_floating:
            return result
        value = result.numpy()
        dtype = value.dtype
        info = tf.dtypes.as_dtype(dtype)
        eps, tiny = (
            _eps(dtype),
            float(np.finfo(np.float32).tiny if dtype != np.float64 else np.finfo(dtype).tiny),
        )
        wide = value.astype(np.float64)
        with np.errstate(all="ignore"):
            # Infinity and NaN stay what they are, unless the absolute part of the bound overflows.
            size = np.maximum(
                np.abs(np.where(np.isfinite(wide), wide, 0)),
                0 if dtype != np.float16 else np.finfo(dtype).tiny,
            )
            bound = _OWN_ULPS.get(op.type, _ULPS) * eps * size
            bound = bound + _absolute(op, inputs, at, wide, eps)
            bound = np.where(np.abs(wide) < 4 * tiny, bound + tiny, bound)
            if op.type in ("Softmax", "LogSoftmax"):
                bound = bound * (1 + np.sqrt(value.shape[-1]))
            noise = self.rng.uniform(-1, 1, value.shape) * self.scale
            sure = np.isfinite(bound)
            most = float(info.max)
            lost = self.rng.choice([np.nan, np.inf, -np.inf, most, -most], value.shape)
            moved = np.where(sure, wide + noise * np.where(sure, bound, 0), lost)
            # NaN and infinity of the operands stay; an overflow on the way may or may not have been.
            moved = np.where(np.isfinite(wide) | ~sure, moved, wide)
            if op.type in ("Sigmoid", "Softmax", "Tanh", "Erf"):
                moved = np.clip(moved, -1, 1)
            if op.type == "Erf" and dtype == np.float64:
                # TensorFlow's erf of a double of which the square is infinite is NaN; docs/numerics.md has +-1.
                far = np.abs(inputs[0].numpy()) > 1e150
                moved = np.where(far, self.rng.choice([np.nan, 1.0]), moved)
            if op.type == "SqrtGrad":
                # Where 1 / y is a denormal number, TensorFlow's vectors give 0 and its last elements do not.
                far = np.abs(inputs[0].numpy().astype(np.float64)) > 1 / (4 * tiny)
                moved = np.where(far, self.rng.choice([np.nan, 0.0]), moved)
            if op.type == "Softmax":
                moved = np.where(
                    _lost_rows(inputs[0].numpy()), self.rng.choice([np.nan, 0.0]), moved
                )
            return tf.constant(moved.astype(dtype), info)


def _lost_rows(x: Any) -> Any:
    """Rows with NaN or inf: Eigen's Softmax makes all of such a row NaN, oneDNN's, which TensorFlow takes for some
    types, leaves zeros beside the NaN."""
    x = x.astype(np.float64)
    return (np.isnan(x) | np.isposinf(x)).any(-1, keepdims=True)


def _eps(dtype: Any) -> float:
    return float(tf.experimental.numpy.finfo(dtype).eps) if dtype.kind == "f" else 2.0**-7


def _absolute(op: tf.Operation, inputs: list[Any], at: int, result: Any, eps: float) -> Any:
    """The part of the bound that is not relative to the result."""
    if op.type in _SUMS:
        floats = [i.numpy() for i in inputs if i.dtype.is_floating]
        terms = max(1.0, _terms(op, inputs, result))
        sizes = iter([tf.constant(_magnitude(f)) for f in floats])
        if op.type == "TensorScatterSub":
            sizes = iter([next(sizes), -next(sizes)])
        replaced = [next(sizes) if i.dtype.is_floating else i for i in inputs]
        total = execute_op(op, replaced)[at].numpy().astype(np.float64)
        return max(4 * np.sqrt(terms), 2.0) * eps * np.abs(total)
    if op.type in ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"):
        return 8 * eps * (at == 0)  # the logarithm of a sum near 1
    if op.type.startswith("FusedBatchNormGrad"):
        # Differences of terms as large as this, which moved operands leave as they are where a channel has one element.
        dy, x, scale, mean, variance = (
            np.abs(_magnitude(i.numpy()).astype(np.float64)) for i in inputs[:5]
        )
        inverse = 1 / np.sqrt(np.min(variance, initial=1.0) + float(op.get_attr("epsilon")))
        spread = (np.max(x, initial=0) + np.max(mean, initial=0)) * inverse
        largest = np.max(dy, initial=0) * inverse * max(1.0, np.max(scale, initial=0))
        return 8 * eps * largest * (1 + spread) ** 2 * (1 if at == 0 else np.sqrt(x.size))
    if op.type in ("Elu", "Selu"):
        return 4 * eps * np.where(result <= 0, 1.0, 0.0)  # TensorFlow subtracts 1 from exp(x)
    if op.type == "Prod":
        terms = max(1.0, _terms(op, inputs, result))
        x = np.abs(inputs[0].numpy().astype(np.float64))
        axes = tuple(np.asarray(inputs[1].numpy()).reshape(-1) % max(x.ndim, 1))
        high = np.prod(np.maximum(x, 1), axis=axes, keepdims=bool(op.get_attr("keep_dims")))
        low = np.prod(np.minimum(x, 1), axis=axes, keepdims=bool(op.get_attr("keep_dims")))
        # Partial products that overflow or vanish depend on the order.
        lost = (high > 0.1 * float(inputs[0].dtype.max)) | (low < 2.0**-100)
        lost &= np.all(np.isfinite(x), axis=axes, keepdims=bool(op.get_attr("keep_dims")))
        return np.where(
            lost, np.inf, terms * eps * np.where(np.isfinite(result), np.abs(result), 0)
        )
    if op.type in (
        "LogSoftmax",
        "TanhGrad",
        "SigmoidGrad",
        "Expm1",
        "Log",
        "Log1p",
        "Pow",
        "Sin",
        "Cos",
        "Tan",
    ):
        largest = sum(
            np.abs(_magnitude(i.numpy()).astype(np.float64)) for i in inputs if i.dtype.is_floating
        )
        return 2 * eps * (largest if op.type in ("LogSoftmax", "TanhGrad", "SigmoidGrad") else 0)
    return 0.0


def _terms(op: tf.Operation, inputs: list[Any], result: Any) -> float:
    """How many numbers went into one of the result: the most that it can be."""
    elements = max(int(np.prod(i.shape)) for i in inputs)
    if op.type in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"):
        return float(max((int(d) for i in inputs for d in i.shape), default=1))
    return elements / max(1, result.size) if op.type in ("Sum", "Mean", "Prod") else float(elements)


def _magnitude(value: Any) -> Any:
    """Magnitudes; NaN and infinity count nothing, since all orders of adding agree on them."""
    if not is_float(value.dtype):
        return value
    return np.where(np.isfinite(value.astype(np.float64)), np.abs(value), 0).astype(value.dtype)


def runs(concrete: Any, args: list[Any], seeds: range, scale: float = 1.0) -> list[list[Any]]:
    """The graph's outputs, once a seed. `args` makes fresh variables, since a run may assign them."""
    found = []
    for seed in seeds:
        outputs = run_graph(concrete.graph, args[0](), Disturbance(seed, scale))
        found.append([o.numpy() for o in outputs])
    return found
