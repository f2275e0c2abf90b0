"""Convolutions: products of what windows see by a matrix of weights, and sums for those of one channel each."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, product
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

#: The formats that images come in, as the pass compares them.
FORMATS = ("NHWC", "NCHW")
VOLUMES = ("NDHWC", "NCDHW")


class _Convolution:
    """One node: x [n, spatial…, channels], its filter [size…, channels of a group, filters], and its windows."""

    def __init__(self, c: RuleContext, rank: int) -> None:
        self.c = c
        if len(c[0].dims) != rank or len(c[1].dims) != rank:
            raise c.unsupported(f"takes operands of rank {rank}")
        dims = channels_last(c, c[0].dims)
        *sizes, self.depth, self.filters = c[1].dims
        # A filter of another size is another program: this one is for the call's.
        self.size = [
            _known(c, d, "the filter has the size that it was compiled for") for d in sizes
        ]
        if 0 in self.size:
            raise c.unsupported("a filter of no elements")
        strides = spatial_numbers(c, "strides", rank)
        skips = any(k < s for k, s in zip(self.size, strides, strict=True))
        if rank == 5 and skips and c[0].dtype != "f32" and c.attr("padding") == "SAME":
            # Where f32 begins with the first element, TensorFlow's own kernels of the others skip some.
            raise c.unsupported("a volume that windows leave out parts of, not of f32")
        dilations = spatial_numbers(c, "dilations", rank)
        self.windows: Windows = windows(c, dims[1:-1], self.size, strides, dilations)
        self.channels = dims[-1]
        self.dims: tuple[Dim, ...] = (dims[0], *self.windows.out, self.filters)

    def patches(self, x: Value) -> Value:
        """What the windows see of x, channels last: [n, out…, size…, channels]."""
        return self.windows.over(self.c, self.c.b.for_product(x), zero_of(self.c, x.dtype))


def _known(c: RuleContext, dim: Dim, reason: str) -> int:
    """The size that a dim has in this call, which others have to have, too."""
    size = c.b.hint(dim)
    c.b.require(dim, "==", size, reason)
    return size


def _groups(c: RuleContext, n: _Convolution) -> int:
    """How many runs of channels have filters of their own."""
    if c.b.hint(n.channels) == c.b.hint(n.depth):
        c.b.require(n.depth, "==", n.channels, "channels of the images and of the filter")
        return 1
    channels, depth, filters = (
        _known(c, d, "channels in groups are as many as it was compiled for")
        for d in (n.channels, n.depth, n.filters)
    )
    if not depth or channels % depth or filters % (channels // depth):
        raise c.unsupported(f"{channels} channels and {filters} filters in groups of {depth}")
    return channels // depth


def _conv_shape(rank: int) -> ShapeRule:
    def shape(c: RuleContext) -> list[Dims]:
        n = _Convolution(c, rank)
        _groups(c, n)
        return [in_data_format(c, n.dims)]

    return shape


def _lower_conv(rank: int) -> Lowering:
    def lower(c: RuleContext) -> Value:
        n = _Convolution(c, rank)
        groups = _groups(c, n)
        patches = n.patches(to_channels_last(c, c[0]))
        places, seen = product(n.dims[:-1]), product(n.size) * n.depth
        if groups == 1:
            rows = c.b.reshape(patches, [places, seen])
            result = c.b.matmul(rows, c.b.reshape(c[1], [seen, n.filters]), False, False)
            return from_channels_last(c, c.b.reshape(result, n.dims))
        filters = n.filters // groups
        cut = c.b.reshape(patches, [places, product(n.size), groups, n.depth])
        rows = c.b.reshape(c.b.transpose(cut, [2, 0, 1, 3]), [groups, places, seen])
        weights = c.b.reshape(c[1], [seen, groups, filters])
        result = c.b.matmul(rows, c.b.transpose(weights, [1, 0, 2]), False, False)
        result = c.b.reshape(c.b.transpose(result, [1, 0, 2]), n.dims)
        return from_channels_last(c, result)

    return lower


# -- one channel each --------------------------------------------------------------------


class _Depthwise(_Convolution):
    """Its filter is [size…, channels, multiplier], and its result has channels * multiplier channels."""

    def __init__(self, c: RuleContext) -> None:
        super().__init__(c, 4)
        c.b.require(self.channels, "==", self.depth, "channels of the images and of the filter")
        self.multiplier = self.filters
        self.dims = (*self.dims[:-1], self.channels * self.multiplier)


def _depthwise_shape(c: RuleContext) -> list[Dims]:
    return [in_data_format(c, _Depthwise(c).dims)]


def _depthwise(c: RuleContext) -> Value:
    """A sum over the window of its elements, each times its weight."""
    n = _Depthwise(c)
    x, weights = wide(c, to_channels_last(c, c[0])), wide(c, c[1])
    patches = n.windows.over(c, x, zero_of(c, x.dtype))
    if not n.multiplier.is_one:
        patches = c.b.reshape(patches, [*patches.dims, 1])
        patches = c.b.broadcast(patches, [*patches.dims[:-1], n.multiplier])
    patches = c.b.reshape(patches, [*n.dims[:-1], product(n.size), n.dims[-1]])
    weights = c.b.reshape(weights, [product(n.size), n.dims[-1]])
    terms = c.b.elementwise("mul", patches, weights)
    total = c.b.reduce("sum", terms, [len(n.dims) - 1])
    return narrow(c, from_channels_last(c, total))


# -- examples ------------------------------------------------------------------------------


def _conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: str = "SAME",
    dilation: int = 1,
    dtype: str = "f32",
    pads: tuple[int, ...] = (),
    error: str = "",
) -> Example:
    spatial = len(x) - 2
    strides = (stride,) * spatial if isinstance(stride, int) else stride
    attrs: dict[str, object] = {
        "strides": (1, *strides, 1),
        "padding": padding,
        "dilations": (1, *(dilation,) * spatial, 1),
    }
    if pads:
        attrs["explicit_paddings"] = (0, 0, *pads, 0, 0)
    return Example((Arg(dtype, x, "finite"), Arg(dtype, w, "finite")), attrs, error)


_CONV2D = (
    _conv((2, 7, 9, 5), (3, 3, 5, 17)),
    _conv((1, 8, 8, 16), (1, 1, 16, 33)),
    _conv((2, 8, 7, 3), (7, 7, 3, 8), 2),
    _conv((2, 9, 8, 4), (1, 1, 4, 5), 2),
    _conv((1, 9, 8, 4), (3, 2, 4, 5), 2, "VALID"),
    _conv((1, 12, 11, 4), (3, 3, 4, 5), 1, "VALID", 2),
    _conv((1, 12, 11, 4), (3, 3, 4, 5), 1, "SAME", 3),
    _conv((1, 6, 7, 2), (3, 3, 2, 4), 1, "EXPLICIT", pads=(1, 2, 0, 3)),
    _conv((1, 5, 5, 1), (5, 5, 1, 1)),
    # TensorFlow with oneDNN gives an empty batch the images' channels in the place of the filters.
    _conv((0, 5, 5, 4), (3, 3, 4, 4)),
    _conv((1, 6, 6, 8), (3, 3, 2, 12)),
    _conv((2, 3, 3, 20), (3, 3, 20, 130)),
    _conv((1, 1, 1, 4), (3, 3, 4, 5)),
    _conv((1, 5, 6, 4), (3, 3, 4, 5), (2, 1)),
    *(_conv((2, 5, 4, 3), (3, 3, 3, 5), 2, dtype=t) for t in FLOATING[1:]),
    _conv((1, 5, 5, 3), (3, 3, 4, 5), error="InvalidArgument"),
    _conv((1, 2, 2, 3), (4, 4, 3, 5), padding="VALID", error="InvalidArgument"),
)
_CONV3D = (
    _conv((1, 4, 5, 6, 3), (3, 3, 3, 3, 5)),
    _conv((1, 4, 5, 6, 3), (2, 3, 1, 3, 5), 2, "VALID"),
    _conv((2, 3, 3, 3, 2), (1, 1, 1, 2, 4)),
    _conv((1, 4, 5, 6, 3), (2, 2, 2, 3, 5), dtype="f64"),
    _conv((0, 4, 5, 6, 4), (2, 2, 2, 4, 4)),
)
_DEPTHWISE = (
    _conv((2, 7, 9, 5), (3, 3, 5, 1)),
    _conv((1, 7, 8, 33), (3, 3, 33, 1), 2),
    _conv((1, 7, 8, 6), (3, 3, 6, 2)),
    _conv((1, 9, 9, 16), (5, 5, 16, 1), 2, "VALID"),
    _conv((1, 9, 9, 16), (3, 3, 16, 1), 1, "SAME", 2),
    _conv((1, 6, 7, 2), (3, 3, 2, 1), 1, "EXPLICIT", pads=(1, 2, 0, 3)),
    _conv((0, 5, 5, 2), (3, 3, 2, 1)),
    *(_conv((2, 5, 4, 3), (3, 3, 3, 1), 2, dtype=t) for t in FLOATING[1:]),
    _conv((1, 5, 5, 3), (3, 3, 4, 1), error="InvalidArgument"),
)

RULES: list[OpRule] = [
    OpRule(
        "Conv2D", {"T": FLOATING}, _conv_shape(4), _lower_conv(4), _CONV2D, cost="heavy", weights=(1,),
        attrs={"data_format": FORMATS},
        notes="Weights are packed where they are f32. TensorFlow refuses NCHW on CPUs, which runs here.",
    ),
    OpRule(
        "Conv3D", {"T": FLOATING}, _conv_shape(5), _lower_conv(5), _CONV3D, cost="heavy", weights=(1,),
        attrs={"data_format": VOLUMES},
    ),
    OpRule(
        "DepthwiseConv2dNative", {"T": FLOATING}, _depthwise_shape, _depthwise, _DEPTHWISE, cost="heavy",
        attrs={"data_format": FORMATS},
    ),
]  # fmt: skip
