"""What the gradient of a broadcast sums over."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import INDEX, NUMBERS
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, i32
from tf_disc.compiler.op_rules.windows import channels_first


def _is_one(c: RuleContext, size: Dim) -> bool:
    """Whether a size is 1, made sure of by a guard where it is not known."""
    if c.b.hint(size) == 1:
        c.b.require(size, "==", 1, "a broadcast's size")
        return True
    c.b.require(size, "!=", 1, "a broadcast's size")
    return False


def _axes(c: RuleContext) -> tuple[list[int], list[int]]:
    """The axes over which each operand of a broadcast was repeated, as TensorFlow lists them.

    An axis of size 1 in both is listed for both, unless the two shapes are one.
    """
    shapes = [list(c.sizes(0)), list(c.sizes(1))]
    a, b = shapes
    if [c.b.hint(d) for d in a] == [c.b.hint(d) for d in b]:
        for x, y in zip(a, b, strict=True):
            c.b.require(x, "==", y, "the shapes of a broadcast are equal")
        return [], []
    rank = max(len(a), len(b))
    a, b = ([as_dim(1)] * (rank - len(s)) + s for s in shapes)
    left: list[int] = []
    right: list[int] = []
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        one_left, one_right = _is_one(c, x), _is_one(c, y)
        if not one_left and not one_right:
            c.b.require(x, "==", y, "the sizes of a broadcast agree")
        if one_left:
            left.append(axis)
        if one_right:
            right.append(axis)
    return left, right


def _axes_shape(c: RuleContext) -> list[Dims]:
    return [(as_dim(len(axes)),) for axes in _axes(c)]


def _axes_values(c: RuleContext) -> list[Value]:
    return [c.b.constant(axes, c[0].dtype, [len(axes)]) for axes in _axes(c)]


def _channel(c: RuleContext) -> int:
    rank = len(c[0].dims)
    if rank < 2:
        raise c.unsupported("BiasAddGrad takes rank 2 or more")
    return 1 if channels_first(c) else rank - 1


def _bias_gradient(c: RuleContext) -> Value:
    channel = _channel(c)
    axes = [axis for axis in range(len(c[0].dims)) if axis != channel]
    return c.b.reshape(c.b.reduce("sum", c[0], axes), [c[0].dims[channel]])


_Shape = tuple[int, ...]
_PAIRS: tuple[tuple[_Shape, _Shape], ...] = (
    ((), ()), ((1,), (1,)), ((1, 3), (1, 3)), ((1, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), (3,)), ((2, 3), (2, 1)),
    ((1, 1, 3), (1,)), ((1,), ()), ((), (1,)), ((0, 3), (1, 3)), ((0, 3), (3,)), ((1, 2), (1, 1)), ((1, 1), (1, 1)),
    ((1, 1), (1,)), ((5, 1, 1), (5, 1, 1)), ((5, 1, 1), (5, 1, 3)), ((0,), (1,)), ((0, 1), (0, 2)), ((7, 5, 3), (5, 1)),
)  # fmt: skip
_OUTPUTS = ((3, 5), (2, 3, 5), (0, 5), (3, 0), (2, 3, 4, 5), (130, 33), (1, 1))

RULES: list[OpRule] = [
    OpRule(
        "BroadcastGradientArgs",
        {"T": INDEX},
        _axes_shape,
        _axes_values,
        (
            *(Example((i32(*a), i32(*b))) for a, b in _PAIRS),
            Example((Arg("i64", (2,), values=(2, 1)), Arg("i64", (1,), values=(3,)))),
            Example((i32(2, 3), i32(2, 4)), error="InvalidArgument"),
        ),
        cost="shape",
        by_length=(0, 1),
        constant="always",
    ),
    OpRule(
        "BiasAddGrad",
        {"T": NUMBERS},
        lambda c: [(c[0].dims[_channel(c)],)],
        _bias_gradient,
        (
            *(Example((Arg("f32", s, "finite"),)) for s in _OUTPUTS),
            *(Example((Arg(t, (2, 3, 5), "finite"),)) for t in NUMBERS[1:]),
            *(
                Example((Arg("f32", s, "finite"),), {"data_format": "NCHW"})
                for s in ((2, 3), (2, 3, 5), (2, 3, 4, 5), (0, 3, 2, 2))
            ),
            Example((Arg("f32", (5,)),), error="InvalidArgument"),
        ),
        alone=True,
    ),
]
