"""Pools: the largest element that a window sees, or the mean of those that exist."""

from __future__ import annotations

import math

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import FLOATING
from tf_disc.compiler.op_rules.padding import zero_of
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    Lowering,
    OpRule,
    RuleContext,
    ShapeRule,
)
from tf_disc.compiler.op_rules.reductions import narrow, wide
from tf_disc.compiler.op_rules.windows import (
    Windows,
    channels_last,
    from_channels_last,
    in_data_format,
    spatial_numbers,
    to_channels_last,
    windows,
)


def _windows(c: RuleContext, rank: int) -> tuple[Windows, Dims]:
    """The node's windows, and the result's shape, channels last."""
    if len(c[0].dims) != rank:
        raise c.unsupported(f"takes an operand of rank {rank}")
    dims = channels_last(c, c[0].dims)
    size, strides = (spatial_numbers(c, attr, rank) for attr in ("ksize", "strides"))
    found = windows(c, dims[1:-1], size, strides, [1] * (rank - 2))
    return found, (dims[0], *found.out, dims[-1])


def _shape(rank: int) -> ShapeRule:
    return lambda c: [in_data_format(c, _windows(c, rank)[1])]


def _seen(c: RuleContext, rank: int, x: Value, fill: Value) -> Value:
    """[n, out…, elements of the window, channels]."""
    found, dims = _windows(c, rank)
    count = math.prod(found.size)
    return c.b.reshape(found.over(c, x, fill), [*dims[:-1], count, dims[-1]])


def _max_pool(rank: int) -> Lowering:
    def lower(c: RuleContext) -> Value:
        x = to_channels_last(c, c[0])
        seen = _seen(c, rank, x, c.b.scalar(-math.inf, x.dtype))
        return from_channels_last(c, c.b.reduce("max", seen, [rank - 1]))

    return lower


def _avg_pool(rank: int) -> Lowering:
    def lower(c: RuleContext) -> Value:
        x = wide(c, to_channels_last(c, c[0]))
        total = c.b.reduce("sum", _seen(c, rank, x, zero_of(c, x.dtype)), [rank - 1])
        result = c.b.elementwise("div", total, _counts(c, rank, x.dtype))
        return from_channels_last(c, narrow(c, result))

    return lower


def _counts(c: RuleContext, rank: int, dtype: str) -> Value:
    """How many elements each window sees: of the padding none."""
    found, _ = _windows(c, rank)
    if found.inside:
        return c.b.scalar(math.prod(found.size), dtype)
    spatial = channels_last(c, c[0].dims)[1:-1]
    total: Value | None = None
    for axis, n in enumerate(spatial):
        count = _axis_counts(c, found, axis, n)
        shape: list[Dim | int] = [1] * rank
        shape[1 + axis] = found.out[axis]
        spread = c.b.reshape(count, shape)
        total = spread if total is None else c.b.elementwise("mul", total, spread)
    assert total is not None
    return c.b.elementwise("cast", total, dtype=dtype)


def _axis_counts(c: RuleContext, found: Windows, axis: int, n: Dim) -> Value:
    """i64[out]: the end of each window within the axis, less its begin."""
    out = found.out[axis]

    def number(dim: Dim) -> Value:
        return c.b.broadcast(c.b.sizes([dim], "i64", rank=0), [out])

    step = number(as_dim(found.strides[axis]))
    first = c.b.elementwise(
        "sub", c.b.elementwise("mul", c.b.iota(out, "i64"), step), number(found.begin[axis])
    )
    past = c.b.elementwise("add", first, number(as_dim(found.size[axis])))
    past = c.b.elementwise("min", past, number(n))
    return c.b.elementwise("sub", past, c.b.elementwise("max", first, number(as_dim(0))))


def _pool(
    x: tuple[int, ...], size: int | tuple[int, ...], stride: int | tuple[int, ...], padding: str = "SAME",
    dtype: str = "f32", kind: str = "finite", pads: tuple[int, ...] = (), error: str = "",
) -> Example:  # fmt: skip
    spatial = len(x) - 2

    def of(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
        return (1, *((numbers,) * spatial if isinstance(numbers, int) else numbers), 1)

    attrs: dict[str, object] = {"ksize": of(size), "strides": of(stride), "padding": padding}
    if pads:
        attrs["explicit_paddings"] = (0, 0, *pads, 0, 0)
    return Example((Arg(dtype, x, kind),), attrs, error)


_COMMON = (
    _pool((2, 7, 9, 5), 3, 2),
    _pool((2, 7, 9, 5), 2, 2, "VALID"),
    _pool((1, 8, 8, 33), 3, 1),
    _pool((1, 8, 8, 16), (3, 1), (1, 2)),
    _pool((1, 2, 3, 70), 5, 3),
    _pool((1, 5, 6, 4), 1, 2),
    _pool((0, 5, 6, 4), 2, 2),
)
_VOLUMES = (
    _pool((1, 4, 5, 6, 3), 2, 2),
    _pool((1, 4, 5, 6, 3), 3, 1, "VALID"),
    _pool((0, 4, 5, 6, 3), 2, 1),
    _pool((1, 4, 5, 6, 33), (1, 2, 3), (2, 1, 1)),
)
_IMAGES = {"data_format": ("NHWC", "NCHW")}

RULES: list[OpRule] = [
    OpRule(
        "MaxPool", {"T": FLOATING}, _shape(4), _max_pool(4),
        (*_COMMON, *(_pool((2, 5, 4, 3), 2, 1, dtype=t) for t in FLOATING[1:]),
         _pool((1, 6, 7, 2), 3, 1, "EXPLICIT", pads=(1, 2, 0, 1))),
        attrs=_IMAGES,
        notes="Of a window larger than the image TensorFlow's process dies where it pools with oneDNN.",
    ),
    OpRule(
        "AvgPool", {"T": FLOATING}, _shape(4), _avg_pool(4),
        (*_COMMON, *(_pool((2, 5, 4, 3), 2, 1, dtype=t) for t in FLOATING[1:]),),
        attrs=_IMAGES,
    ),
    OpRule(
        "MaxPool3D", {"T": FLOATING}, _shape(5), _max_pool(5),
        (*_VOLUMES,), attrs={"data_format": ("NDHWC", "NCDHW")},
    ),
    OpRule(
        "AvgPool3D", {"T": FLOATING}, _shape(5), _avg_pool(5),
        (*_VOLUMES,), attrs={"data_format": ("NDHWC", "NCDHW")},
    ),
]  # fmt: skip
