"""Batch normalisation as TensorFlow's fused ops have it, and their gradient."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext
from tf_disc.compiler.op_rules.windows import channels_first


class _Norm:
    """One node: x [batch, …] with a channel axis, and the arithmetic that all of its parts share."""

    def __init__(self, c: RuleContext, x: Value, vectors: list[Value]) -> None:
        self.c = c
        self.b = c.b
        if len(x.dims) != 4:
            raise c.unsupported("takes x of rank 4")
        first_axis = channels_first(c)
        self.size = x.dims[1 if first_axis else 3]
        for v in vectors:
            if len(v.dims) != 1:
                raise c.unsupported("scale, offset, mean and variance are vectors")
            c.b.require(v.dims[0], "==", self.size, "an element a channel")
        # As few axes as there can be, so that no kernel divides positions: [rows, channels] or [batch, channels, pixels].
        first, last = (1, 2) if first_axis else (3, 4)
        self.dims = (product(x.dims[:first]), self.size, product(x.dims[last:]))
        self.shape = x.dims
        self.axes = [0, 2]
        self.count = self.dims[0] * self.dims[2]
        # Of nothing TensorFlow makes NaN in some results and zeros in others.
        c.b.require(self.count, ">=", 1, "elements to normalise")
        self.x = self.flat(x)

    def flat(self, value: Value) -> Value:
        """A value of x's shape in the node's three axes."""
        return self.b.reshape(value, self.dims)

    def back(self, value: Value) -> Value:
        """The inverse of `flat`."""
        return self.b.reshape(value, self.shape)

    def vector(self, value: Value) -> Value:
        """A vector under the channels' one size."""
        return self.b.reshape(value, [self.size])

    def spread(self, vector: Value) -> Value:
        """One number a channel, repeated along the other axes."""
        return self.b.broadcast(self.b.reshape(vector, [1, self.size, 1]), self.dims)

    def sum(self, value: Value) -> Value:
        """Over all axes but the channels'."""
        return self.b.reshape(self.b.reduce("sum", value, self.axes), [self.size])

    def number(self, value: float) -> Value:
        """A constant for each channel."""
        return self.b.broadcast(self.b.scalar(value, "f32"), [self.size])

    def elements(self, more: int = 0) -> Value:
        """The count of a channel's elements, plus `more` but at least 1, for each channel."""
        count = Dim.call("max", self.count + more, 1)
        number = self.b.elementwise("cast", self.b.sizes([count], "i64", rank=0), dtype="f32")
        return self.b.broadcast(number, [self.size])

    def mean(self, value: Value) -> Value:
        """Over all axes but the channels'."""
        return self.b.elementwise("div", self.sum(value), self.elements())

    def inverse(self, variance: Value) -> Value:
        """1 / sqrt(variance + epsilon)."""
        epsilon = self.number(float(self.c.attr("epsilon", 1e-4)))
        return self.b.elementwise("rsqrt", self.b.elementwise("add", variance, epsilon))


def _is_training(c: RuleContext) -> bool:
    return bool(c.attr("is_training", True))


def _keeps_average(c: RuleContext) -> bool:
    return float(c.attr("exponential_avg_factor", 1.0)) != 1.0


def _norm(c: RuleContext) -> _Norm:
    takes_averages = not _is_training(c) or _keeps_average(c)
    return _Norm(c, c[0], c.inputs[1:5] if takes_averages else c.inputs[1:3])


def _forward_shape(c: RuleContext) -> list[Dims]:
    size = (_norm(c).size,)
    return [c[0].dims, size, size, size, size]


def _forward(c: RuleContext) -> list[Value]:
    """y, then the averages that the caller keeps, then what the gradient wants."""
    n = _norm(c)
    b = c.b
    scale, offset = n.vector(c[1]), n.vector(c[2])
    if not _is_training(c):
        mean, variance = n.vector(c[3]), n.vector(c[4])
        kept = [mean, variance]
        centered = b.elementwise("sub", n.x, n.spread(mean))
    else:
        mean = n.mean(n.x)
        centered = b.elementwise("sub", n.x, n.spread(mean))
        variance = n.mean(b.elementwise("mul", centered, centered))
        # The variance that is kept is the sample's, the one that normalises the population's.
        bessel = b.elementwise("div", n.elements(), n.elements(-1))
        kept = [mean, b.elementwise("mul", variance, bessel)]
        if _keeps_average(c):
            factor = float(c.attr("exponential_avg_factor", 1.0))
            kept = [
                b.elementwise(
                    "add",
                    b.elementwise("mul", n.number(1 - factor), n.vector(old)),
                    b.elementwise("mul", n.number(factor), new),
                )
                for old, new in zip(c.inputs[3:5], kept, strict=True)
            ]
    factor_of_x = b.elementwise("mul", n.inverse(variance), scale)
    y = b.elementwise("mul", centered, n.spread(factor_of_x))
    return [n.back(b.elementwise("add", y, n.spread(offset))), *kept, mean, variance]


def _forward3_shape(c: RuleContext) -> list[Dims]:
    return [*_forward_shape(c), (as_dim(0),)]


def _forward3(c: RuleContext) -> list[Value]:
    return [*_forward(c), c.b.constant([], "f32", [0])]


def _gradient_norm(c: RuleContext) -> _Norm:
    for a, b in zip(c[1].dims, c[0].dims, strict=True):
        c.b.require(a, "==", b, "x and its gradient have one shape")
    return _Norm(c, c[1], c.inputs[2:5])


def _gradient_shape(c: RuleContext) -> list[Dims]:
    size = (_gradient_norm(c).size,)
    return [c[1].dims, size, size, (), ()]


def _gradient(c: RuleContext) -> list[Value]:
    n = _gradient_norm(c)
    b = c.b
    dy = n.flat(c[0])
    scale, mean, variance = (n.vector(v) for v in c.inputs[2:5])
    inverse = n.inverse(variance)
    centered = b.elementwise("sub", n.x, n.spread(mean))
    d_offset = n.sum(dy)
    spread_sum = n.sum(b.elementwise("mul", dy, centered))
    d_scale = b.elementwise("mul", spread_sum, inverse)
    change = dy
    if _is_training(c):
        # What moves the mean and the variance of the batch is taken off.
        count = n.elements()
        mean_dy = b.elementwise("div", d_offset, count)
        along = b.elementwise("div", spread_sum, count)
        slope = b.elementwise("mul", along, b.elementwise("mul", inverse, inverse))
        change = b.elementwise("sub", dy, n.spread(mean_dy))
        change = b.elementwise("sub", change, b.elementwise("mul", centered, n.spread(slope)))
    dx = b.elementwise("mul", change, n.spread(b.elementwise("mul", scale, inverse)))
    # Two results that only another device fills.
    zero = b.scalar(0.0, "f32")
    return [n.back(dx), d_scale, d_offset, zero, b.elementwise("copy", zero)]


def _vector(count: int, kind: str = "finite") -> Arg:
    return Arg("f32", (count,), kind)


_SHAPES = ((2, 3, 4, 5), (2, 3, 2, 0), (1, 1, 1, 3), (7, 1, 1, 33), (2, 5, 3, 1), (2, 8, 8, 17))
_Shape = tuple[int, int, int, int]


def _laid_out(shape: _Shape, layout: str) -> _Shape:
    batch, height, width, channels = shape
    return (batch, channels, height, width) if layout == "NCHW" else shape


def _forward_examples(last: bool) -> tuple[Example, ...]:
    """`last`: the op has an exponential_avg_factor."""
    found: list[Example] = []
    for layout in ("NHWC", "NCHW"):
        for channels_last in _SHAPES:
            shape = _laid_out(channels_last, layout)
            n = channels_last[3]
            x, scale, offset, variance = (
                Arg("f32", shape, "finite"),
                _vector(n),
                _vector(n),
                _vector(n, "unit"),
            )
            attrs = {"data_format": layout, "epsilon": 0.001}
            averages = (x, scale, offset, _vector(n), variance)
            none = (x, scale, offset, _vector(0), _vector(0))
            found.append(Example(averages, {**attrs, "is_training": False}))
            found.append(Example(none, {**attrs, "is_training": True}))
            if last:
                found.append(
                    Example(
                        averages, {**attrs, "is_training": True, "exponential_avg_factor": 0.25}
                    )
                )
    bad = (Arg("f32", (2, 2, 2, 3)), _vector(2), _vector(3), _vector(3), _vector(3))
    found.append(Example(bad, {"is_training": False}, error="InvalidArgument"))
    return tuple(found)


def _gradient_example(shape: _Shape, layout: str, training: bool) -> Example:
    n = shape[3]
    x = Arg("f32", _laid_out(shape, layout), "finite")
    args = (x, x, _vector(n), _vector(n), _vector(n, "unit"), _vector(0))
    return Example(args, {"data_format": layout, "epsilon": 0.001, "is_training": training})


_GRADIENTS = tuple(
    _gradient_example(shape, layout, training)
    for layout in ("NHWC", "NCHW")
    for shape in _SHAPES
    for training in (False, True)
)
# The older forms share all but their signature with the last one: a few of its examples do.
_OLD = _forward_examples(last=False)[::3]
_LAYOUTS = {"data_format": ("NHWC", "NCHW")}

RULES: list[OpRule] = [
    OpRule(
        "FusedBatchNorm", {"T": ("f32",)}, _forward_shape, _forward, _OLD, attrs=_LAYOUTS
    ),
    OpRule(
        "FusedBatchNormV2", {"T": ("f32",), "U": ("f32",)}, _forward_shape, _forward, _OLD, attrs=_LAYOUTS,
    ),
    OpRule(
        "FusedBatchNormV3", {"T": ("f32",), "U": ("f32",)}, _forward3_shape, _forward3, _forward_examples(last=True),
        attrs=_LAYOUTS,
        notes="f16, bf16 and rank 5 are left to TensorFlow: what only the gradient reads differs with its library.",
    ),
    *(
        OpRule(
            op, types, _gradient_shape, _gradient,
            tuple(Example(e.args[:count], e.attrs, e.error) for e in _GRADIENTS[::step]),
            attrs=_LAYOUTS,
        )
        for op, types, count, step in (
            ("FusedBatchNormGrad", {"T": ("f32",)}, 5, 3), ("FusedBatchNormGradV2", {"T": ("f32",), "U": ("f32",)}, 5, 3),
            ("FusedBatchNormGradV3", {"T": ("f32",), "U": ("f32",)}, 6, 1),
        )
    ),
]  # fmt: skip
