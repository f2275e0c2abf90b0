"""Ops that reduce axes away, and the normalisations built on them."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import as_dim, product
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.ir.types import FLOATS, SHORT_FLOATS
from tf_disc.compiler.op_rules.dtypes import FLOATING, INDEX, NUMBERS
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext, same_as_first

_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 5), (1,)), ((3, 5), (0,)), ((3, 5), (0, 1)), ((2, 3, 67), (-1,)), ((2, 3, 67), (1,)), ((2, 3, 67), (0, 2)),
    ((4, 1), (1,)), ((1, 4), (0,)), ((17,), (0,)), ((3, 5), ()), ((2, 7, 3, 4), (1, 3)), ((2, 7, 3, 4), (1, 2)),
    ((5, 130), (1,)), ((130, 5), (0,)),
)  # fmt: skip
_EMPTY: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((0, 3), (0,)),
    ((0, 3), (1,)),
    ((3, 0), (1,)),
)


def _examples(*dtypes: str) -> tuple[Example, ...]:
    """All shapes of the first type, some of the others."""
    few = (((3, 5), (0, 1)), ((2, 3, 67), (-1,)), ((130, 5), (0,)), ((0, 3), (0,)))
    return sum((_of(d, (*_CASES, *_EMPTY) if d == dtypes[0] else few) for d in dtypes), ())


def _of(
    dtype: str, cases: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> tuple[Example, ...]:
    return tuple(
        Example(
            (Arg(dtype, dims, "finite"), Arg("i32", (len(axes),), values=axes)), {"keep_dims": keep}
        )
        for dims, axes in cases
        for keep in (False, True)
    )


def _reduced(c: RuleContext) -> list[Dims]:
    axes = c.axes(1, len(c[0].dims))
    if c.attr("keep_dims", False):
        return [tuple(as_dim(1) if i in axes else d for i, d in enumerate(c[0].dims))]
    return [tuple(d for i, d in enumerate(c[0].dims) if i not in axes)]


def _keep(c: RuleContext, value: Value) -> Value:
    return c.b.reshape(value, _reduced(c)[0])


def _reduce(kind: str) -> OpRule:
    op = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "all": "All", "any": "Any"}[
        kind
    ]
    boolean = kind in ("all", "any")
    return OpRule(
        op,
        {"Tidx": INDEX} if boolean else {"T": NUMBERS, "Tidx": INDEX},
        _reduced,
        lambda c: _keep(c, c.b.reduce(kind, c[0], c.axes(1, len(c[0].dims)))),
        _examples("bool") if boolean else _examples(*NUMBERS),
        by_value=(1,),
        alone=not boolean,
        constant="no" if boolean else "folds",
    )


def wide(c: RuleContext, x: Value) -> Value:
    """Floats of 16 bits in f32: what is summed is not rounded on the way."""
    return c.b.elementwise("cast", x, dtype="f32") if x.dtype in SHORT_FLOATS else x


def narrow(c: RuleContext, x: Value) -> Value:
    """A result in the first operand's type."""
    return x if x.dtype == c[0].dtype else c.b.elementwise("cast", x, dtype=c[0].dtype)


def _mean(c: RuleContext) -> Value:
    axes = c.axes(1, len(c[0].dims))
    total = c.b.reduce("sum", wide(c, c[0]), axes)
    count = c.b.sizes([product(c[0].dims[a] for a in axes)], "i64", rank=0)
    mean = c.b.elementwise("div", total, c.b.elementwise("cast", count, dtype=total.dtype))
    return _keep(c, narrow(c, mean))


def softmax(c: RuleContext, x: Value) -> Value:
    """exp(x - max) / sum over the last axis; a row of -inf gives NaN, as in TensorFlow.

    The sum, at least 1, is divided by once a row, as in TensorFlow's own kernel: an element takes half the time.
    """
    shifted = _less_maximum(c, x)
    e = c.b.elementwise("exp", shifted)
    share = c.b.elementwise("div", c.b.scalar(1.0, x.dtype), _row_sum(c, e))
    return c.b.elementwise("mul", e, share)


def log_softmax(c: RuleContext, x: Value) -> Value:
    """x - max - log of the sum of exp(x - max), over the last axis."""
    shifted = _less_maximum(c, x)
    total = _row_sum(c, c.b.elementwise("exp", shifted))
    return c.b.elementwise("sub", shifted, c.b.elementwise("log", total))


def _less_maximum(c: RuleContext, x: Value) -> Value:
    last = len(x.dims) - 1
    peak = c.b.reshape(c.b.reduce("max", x, [last]), [*x.dims[:-1], 1])
    return c.b.elementwise("sub", x, peak)


def _row_sum(c: RuleContext, x: Value) -> Value:
    return c.b.reshape(c.b.reduce("sum", x, [len(x.dims) - 1]), [*x.dims[:-1], 1])


def _rows_shape(c: RuleContext) -> list[Dims]:
    if not c[0].dims:
        raise c.unsupported("takes rank 1 or more")
    return same_as_first(c)


_ROWS = tuple(
    Example((Arg(d, s, "finite"),))
    for d in FLOATING
    for s in ((5,), (3, 7), (2, 3, 33), (4, 1), (0, 3), (2, 2, 2, 130))
)


def _l2_loss(c: RuleContext) -> Value:
    x = wide(c, c[0])
    total = c.b.reduce("sum", c.b.elementwise("mul", x, x), list(range(len(x.dims))))
    return narrow(c, c.b.elementwise("mul", total, c.b.scalar(0.5, x.dtype)))


def _arg_shape(c: RuleContext) -> list[Dims]:
    (at,) = c.constant(1)
    axis = c.axis(at, len(c[0].dims))
    c.b.require(c[0].dims[axis], ">=", 1, "an index needs an axis that is not empty")
    return [(*c[0].dims[:axis], *c[0].dims[axis + 1 :])]


def _arg_extreme(c: RuleContext, kind: str) -> Value:
    """The lowest index of the extreme element. A NaN never is one; without any number the index is 0.

    TensorFlow begins with the lowest finite number of the type (for a maximum), which -inf does not beat: so here.
    """
    (at,) = c.constant(1)
    x = c[0]
    axis = c.axis(at, len(x.dims))
    if x.dtype == "bool":
        x = c.b.elementwise("cast", x, dtype="u8")
    if x.dtype in FLOATS:
        edge = LARGEST[x.dtype] * (-1 if kind == "max" else 1)
        start = c.b.scalar(edge, x.dtype)
        better = c.b.elementwise("gt" if kind == "max" else "lt", x, start)
        x = c.b.elementwise("select", better, x, start)
    best = c.b.reduce(kind, x, [axis])
    kept = [as_dim(1) if i == axis else d for i, d in enumerate(x.dims)]
    found = c.b.elementwise("eq", x, c.b.broadcast(c.b.reshape(best, kept), x.dims))
    size = x.dims[axis]
    where = [size if i == axis else as_dim(1) for i in range(len(x.dims))]
    index = c.b.broadcast(c.b.reshape(c.b.iota(size, "i64"), where), x.dims)
    none = c.b.sizes([size], "i64", rank=0)
    first = c.b.reduce("min", c.b.elementwise("select", found, index, none), [axis])
    return c.b.elementwise("cast", first, dtype=c.attr("output_type", "i64"))


#: The largest finite number of each float type.
LARGEST = {
    "f32": float.fromhex("0x1.fffffep127"),
    "f64": float.fromhex("0x1.fffffffffffffp1023"),
    "f16": 65504.0,
    "bf16": float.fromhex("0x1.fep127"),
}
_INF, _NAN = float("inf"), float("nan")


_ARG_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((3, 5), 1), ((3, 5), 0), ((7,), -1), ((2, 3, 67), 2), ((2, 67, 3), 1), ((4, 1), 1), ((0, 3), 1), ((5, 130), -1),
)  # fmt: skip
_ARG_SPECIAL = (
    (_NAN, 1.0, 2.0), (1.0, _NAN, 2.0), (_NAN, _NAN), (-_INF, -LARGEST["f32"]), (_INF, LARGEST["f32"]),
    (-_INF, -_INF), (2.0, 2.0, 2.0), (1.0, _INF, _INF), (-0.0, 0.0), (-1.0, -_INF, -_INF),
)  # fmt: skip


def _arg(op: str, kind: str) -> OpRule:
    return OpRule(
        op,
        {"T": (*NUMBERS, "bool"), "Tidx": INDEX, "output_type": INDEX},
        _arg_shape,
        lambda c: _arg_extreme(c, kind),
        tuple(
            Example((Arg(d, shape, "finite"), Arg("i32", (), values=axis)), {"output_type": output})
            for d in (*NUMBERS, "bool")
            for shape, axis in (_ARG_SHAPES if d == "f32" else _ARG_SHAPES[:4])
            for output in (INDEX if d == "f32" else ("i64",))
        )
        + tuple(
            Example((Arg("f32", (len(v),), values=v), Arg("i32", (), values=0)))
            for v in _ARG_SPECIAL
        )
        + (
            Example((Arg("f32", (3, 0)), Arg("i32", (), values=1)), error="InvalidArgument"),
            Example((Arg("i64", (4, 33), high=5), Arg("i32", (), values=1))),
        ),
        alone=True,
        by_value=(1,),
    )


RULES: list[OpRule] = [
    *(_reduce(kind) for kind in ("sum", "prod", "max", "min", "all", "any")),
    OpRule(
        "Mean",
        {"T": FLOATING, "Tidx": INDEX},
        _reduced,
        _mean,
        _examples(*FLOATING),
        alone=True,
        by_value=(1,),
        notes="The mean of integers stays with TensorFlow.",
    ),
    _arg("ArgMax", "max"),
    _arg("ArgMin", "min"),
    OpRule(
        "L2Loss",
        {"T": FLOATING},
        lambda c: [()],
        _l2_loss,
        tuple(
            Example((Arg(d, s, "finite"),))
            for d in FLOATING
            for s in ((3, 5), (), (0,), (130,), (2, 3, 67))
        ),
    ),
    OpRule(
        "Softmax",
        {"T": FLOATING},
        _rows_shape,
        lambda c: narrow(c, softmax(c, wide(c, c[0]))),
        _ROWS,
        alone=True,
        notes="A row with a NaN or +inf is NaN throughout, as it is by Softmax's definition and in TensorFlow's f64; "
        "TensorFlow's f32 kernel gives 0 beside the NaN.",
    ),
    OpRule(
        "LogSoftmax",
        {"T": FLOATING},
        _rows_shape,
        lambda c: narrow(c, log_softmax(c, wide(c, c[0]))),
        _ROWS,
        alone=True,
    ),
]
