"""What convolutions and pools share: windows over the spatial axes of a batch of images, signals or volumes.

TensorFlow names an op's axes in its data format; inside a rule they are always [batch, spatial…, channels].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.record import Dims, RuleContext

_T = TypeVar("_T")


def channels_first(c: RuleContext) -> bool:
    """True for NCHW and NCDHW."""
    return str(c.attr("data_format", "NHWC")).startswith("NC")


def to_channels_last(c: RuleContext, value: Value) -> Value:
    """The value with its channels last."""
    rank = len(value.dims)
    return c.b.transpose(value, [0, *range(2, rank), 1]) if channels_first(c) else value


def from_channels_last(c: RuleContext, value: Value) -> Value:
    """The inverse of `to_channels_last`."""
    rank = len(value.dims)
    return c.b.transpose(value, [0, rank - 1, *range(1, rank - 1)]) if channels_first(c) else value


def channels_last(c: RuleContext, items: Sequence[_T]) -> tuple[_T, ...]:
    """What there is of each of an operand's axes, such as its sizes, with the channels' last."""
    return (items[0], *items[2:], items[1]) if channels_first(c) else tuple(items)


def in_data_format(c: RuleContext, dims: Sequence[Dim]) -> Dims:
    """A shape with its channels last, as the node's results have it."""
    return (dims[0], dims[-1], *dims[1:-1]) if channels_first(c) else tuple(dims)


def spatial_numbers(c: RuleContext, attr: str, rank: int) -> list[int]:
    """An attribute with a number an axis, of the spatial axes. Refuses others than 1 for batch and channels."""
    numbers = [int(n) for n in c.attr(attr, (1,) * rank)]
    if len(numbers) != rank:
        raise c.unsupported(f"{attr} has {len(numbers)} numbers for {rank} axes")
    batch, *spatial, channels = channels_last(c, numbers)
    if (batch, channels) != (1, 1):
        raise c.unsupported(f"{attr} of batch or channels")
    return spatial


@dataclass(frozen=True)
class Windows:
    """The windows of a node over its spatial axes; `begin`: what is padded in front, `out`: how many there are."""

    size: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[Dim]
    out: list[Dim]
    inside: bool

    def over(self, c: RuleContext, value: Value, fill: Value) -> Value:
        """What they see of a value."""
        return c.b.window(
            value, fill, self.out, self.size,
            begin=self.begin, strides=self.strides, dilations=self.dilations, inside=self.inside,
        )  # fmt: skip


def windows(
    c: RuleContext,
    spatial: Sequence[Dim],
    size: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Windows:
    """The windows that a node's padding asks for, over axes of these sizes."""
    padding = c.attr("padding")
    explicit = _explicit(c, len(spatial)) if padding == "EXPLICIT" else None
    begin: list[Dim] = []
    out: list[Dim] = []
    inside = True
    for axis, (n, k, s, d) in enumerate(zip(spatial, size, strides, dilations, strict=True)):
        front: Dim | int
        reach = (k - 1) * d + 1
        if padding == "SAME":
            count = (n + (s - 1)) // s
            # One element alone never leaves the axis.
            lacking = Dim.call("max", (count - 1) * s + reach - n, 0) if reach > 1 else as_dim(0)
            front = lacking // 2
            inside = inside and reach == 1
        else:
            front, back = (0, 0) if explicit is None else explicit[axis]
            left = n + (front + back - reach)
            c.b.require(left, ">=", 0, f"{c.op}: a window fits into the axis")
            count = left // s + 1
            inside = inside and front == back == 0
        begin.append(as_dim(front))
        out.append(count)
    return Windows(list(size), list(strides), list(dilations), begin, out, inside)


def _explicit(c: RuleContext, spatial: int) -> list[tuple[int, int]]:
    flat = [int(n) for n in c.attr("explicit_paddings", ())]
    if len(flat) != 2 * (spatial + 2):
        raise c.unsupported(f"{len(flat)} paddings for {spatial + 2} axes")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    batch, *inner, channels = channels_last(c, pairs)
    if (batch, channels) != ((0, 0), (0, 0)):
        raise c.unsupported("padding of batch or channels")
    return inner
