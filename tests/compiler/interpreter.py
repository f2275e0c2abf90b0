"""Tensor IR in numpy, op by op: what passes and code generation must not change.

Written for plainness. Integers wrap as numpy's do; floats are computed in the op's own dtype, math
functions through float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from tests.compiler.execute import NUMPY, GuardFailed
from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import SHORT_FLOATS

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _quantile_of(p: float) -> float:
    """Of the standard normal distribution."""
    if 0.0 < p < 1.0:
        return NormalDist().inv_cdf(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


def _log_gamma(x: float) -> float:
    if math.isfinite(x) and x <= 0.0 and x == math.floor(x):
        return math.inf
    return math.lgamma(x)


_lgamma = np.vectorize(_log_gamma, otypes=[np.float64])
_ndtri = np.vectorize(_quantile_of, otypes=[np.float64])

#: Through float64 and back, so that one rounding is all the error.
_MATH: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "expm1": np.expm1,
    "pow": np.power,
    "softplus": lambda x: np.logaddexp(x, 0),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "erfc": _erfc,
    "ndtri": _ndtri,
    "lgamma": _lgamma,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "max": np.maximum, "min": np.minimum, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "select": np.where,
    "copy": lambda x: x, "sign": lambda x: np.sign(x) + 0, "floor": np.floor, "ceil": np.ceil, "rint": np.rint,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "fmod": np.fmod,
}  # fmt: skip


def _truncated(a: Any, b: Any) -> Any:
    quotient = a // b
    return quotient + ((a - quotient * b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _shift(shift: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: shift(x, np.clip(y, 0, 8 * x.dtype.itemsize - 1))


#: Of integers only, or where integers differ.
_INTEGER: dict[str, Callable[..., Any]] = {
    "truncdiv": _truncated, "truncmod": lambda a, b: a - b * _truncated(a, b),
    "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a - b * (a // b),
    "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "pow": np.power,
}  # fmt: skip
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "all": np.all, "any": np.any,
}  # fmt: skip


class Interpreter:
    """Runs a graph on arrays."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sizes: dict[str, int] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs. Raises GuardFailed (a guard does not hold) or IndexError (a gather's index)."""
        for name, source in self.graph.symbols.items():
            array = arrays[source.input]
            self.sizes[name] = (
                array.shape[source.index]
                if source.kind == "dim"
                else int(array.ravel()[source.index])
            )
        for guard in self.graph.guards:
            if not guard.holds(self.sizes):
                raise GuardFailed(str(guard))
        values: dict[Value, Any] = {
            item.value: array for item, array in zip(self.graph.inputs, arrays, strict=True)
        }
        with np.errstate(all="ignore"):
            for op in self.graph.ops:
                result = np.asarray(self._run(op, [values[v] for v in op.operands]))
                expected = self._shape(op.result.dims)
                assert result.shape == expected, (op.name, op.source, result.shape, expected)
                values[op.result] = result.astype(NUMPY[op.result.dtype], copy=False)
        return [values[v] for v in self.graph.outputs]

    def _shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(d.evaluate(self.sizes) for d in dims)

    def _run(self, op: Op, args: list[Any]) -> Any:
        name, attrs = op.name, op.attrs
        dtype = NUMPY[op.result.dtype]
        shape = self._shape(op.result.dims)
        if name in ("truncdiv", "truncmod", "floordiv", "floormod") and not np.all(args[1]):
            raise GuardFailed("division by zero")
        if name in _INTEGER and args[0].dtype.kind in "iub":
            return _INTEGER[name](*args)
        if name in _PLAIN:
            if op.operands[-1].dtype in SHORT_FLOATS:
                args = [a if a.dtype == np.bool_ else a.astype(np.float32) for a in args]
            return _PLAIN[name](*args)
        if name in _MATH:
            return _MATH[name](*(a.astype(np.float64) for a in args))
        if name == "cast":
            return args[0].astype(dtype)
        if name.startswith("reduce_"):
            return self._reduce(name.removeprefix("reduce_"), args[0], attrs["axes"], dtype)
        if name == "const":
            values = np.array(attrs["values"], dtype)
            return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape)
        if name == "sizes":
            return np.array([d.evaluate(self.sizes) for d in attrs["values"]], dtype).reshape(shape)
        if name == "iota":
            return np.arange(shape[0], dtype=dtype)
        if name == "broadcast":
            return np.broadcast_to(args[0], shape)
        if name == "reshape":
            return args[0].reshape(shape)
        if name == "transpose":
            return args[0].transpose(attrs["perm"])
        if name == "slice":
            return self._slice(args[0], self._shape(attrs["begin"]), shape, attrs["strides"])
        if name == "pad":
            padded = np.full(shape, args[1], dtype)
            steps = zip(self._shape(attrs["begin"]), args[0].shape, attrs["strides"], strict=True)
            padded[tuple(slice(b, b + (n - 1) * s + 1 if n else b, s) for b, n, s in steps)] = args[
                0
            ]
            return padded
        if name == "window":
            return self._window(*args, attrs, shape)
        if name == "concat":
            return np.concatenate(args, attrs["axis"])
        if name == "scan":
            return self._scan(args[0], attrs, dtype)
        if name == "scatter":
            return self._scatter(*args, attrs)
        if name == "gather":
            if attrs["batch_dims"] and 0 in shape:
                return np.zeros(shape)
            return self._gather(*args, attrs["axis"], attrs["batch_dims"])
        if name == "matmul":
            if attrs.get("packed"):
                args[1] = args[1].astype(NUMPY[attrs["packed"]])
            product = self._matmul(*args, attrs["transpose_a"], attrs["transpose_b"])
            return product.transpose(attrs["out_perm"]) if "out_perm" in attrs else product
        raise AssertionError(f"the interpreter has no {name}")

    @staticmethod
    def _reduce(kind: str, x: Any, axes: Sequence[int], dtype: Any) -> Any:
        if kind in ("all", "any"):
            return _REDUCE[kind](x, axis=tuple(axes))
        if kind in ("max", "min"):
            if x.dtype.kind not in "iub":
                start = -np.inf if kind == "max" else np.inf
            else:
                limits = np.iinfo(x.dtype)
                start = limits.min if kind == "max" else limits.max
            return _REDUCE[kind](x, axis=tuple(axes), initial=start)
        if x.dtype.kind == "f":
            return _REDUCE[kind](x.astype(np.float64), axis=tuple(axes))
        return _REDUCE[kind](x, axis=tuple(axes), dtype=dtype)

    @staticmethod
    def _scan(x: Any, attrs: Any, dtype: Any) -> Any:
        x = np.flip(x, 1) if attrs["reverse"] else x
        join = np.add if attrs["kind"] == "sum" else np.multiply
        total = np.full_like(x[:, 0] if x.shape[1] else x.sum(1), attrs["kind"] == "prod")
        rows = []
        for i in range(x.shape[1]):
            before, total = total, join(total, x[:, i]).astype(dtype)
            rows.append(before if attrs["exclusive"] else total)
        result = np.stack(rows, 1) if rows else x
        return np.flip(result, 1) if attrs["reverse"] else result

    @staticmethod
    def _scatter(start: Any, indices: Any, updates: Any, attrs: Any) -> Any:
        result = start.copy()
        join: dict[str, Callable[[Any, Any], Any]] = {
            "sum": np.add, "sub": np.subtract, "prod": np.multiply, "set": lambda a, b: b,
            "max": lambda a, b: np.where(b < a, a, b), "max_kept": lambda a, b: np.where(a < b, b, a),
            "min": lambda a, b: np.where(a < b, a, b), "min_kept": lambda a, b: np.where(b < a, b, a),
        }  # fmt: skip
        for i, row in zip(indices, updates, strict=True):
            if i < 0 and attrs["drop_negative"]:
                continue
            if not 0 <= i < len(result):
                raise IndexError(f"{i} of {len(result)}")
            result[i] = join[attrs["kind"]](result[i], row)
        return result

    def _window(self, x: Any, fill: Any, attrs: Any, shape: Sequence[int]) -> Any:
        begins = self._shape(attrs["begin"])
        for axis, size in enumerate(attrs["size"]):
            # Axis by axis: the places, then the elements of the window, which go behind those of earlier axes.
            at = 1 + 2 * axis
            count, length = shape[1 + axis], x.shape[at]
            places = np.arange(count)[:, None] * attrs["strides"][axis] - begins[axis]
            read = places + np.arange(size)[None] * attrs["dilations"][axis]
            known = (read >= 0) & (read < length)
            assert known.all() or not attrs["inside"], "a window leaves its operand"
            taken = np.take(x, np.where(known, read, 0), at) if length else None
            if taken is None:
                taken = np.full((*x.shape[:at], *read.shape, *x.shape[at + 1 :]), fill, x.dtype)
            mask = known.reshape(*(1,) * at, *read.shape, *(1,) * (x.ndim - at - 1))
            x = np.where(mask, taken, fill)
        spatial = len(attrs["size"])
        order = [0, *(1 + 2 * i for i in range(spatial)), *(2 + 2 * i for i in range(spatial))]
        return x.transpose(*order, 1 + 2 * spatial)

    @staticmethod
    def _slice(x: Any, begin: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> Any:
        for axis, (b, n, s) in enumerate(zip(begin, shape, strides, strict=True)):
            at = b + np.arange(n) * s
            assert not n or 0 <= at.min() <= at.max() < x.shape[axis], "a slice leaves its operand"
            x = np.take(x, at, axis)
        return x

    @staticmethod
    def _gather(params: Any, indices: Any, axis: int, batch: int) -> Any:
        if indices.size and not 0 <= indices.min() <= indices.max() < params.shape[axis]:
            raise IndexError(f"{indices.min()} to {indices.max()} of {params.shape[axis]}")
        if batch == 0:
            return np.take(params, indices, axis)
        return np.stack(
            [
                Interpreter._gather(p, i, axis - 1, batch - 1)
                for p, i in zip(params, indices, strict=True)
            ]
        )

    @staticmethod
    def _matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
        if a.dtype.kind != "i":
            a, b = a.astype(np.float64), b.astype(np.float64)
        a = np.swapaxes(a, -1, -2) if transpose_a else a
        b = np.swapaxes(b, -1, -2) if transpose_b else b
        return a @ b
