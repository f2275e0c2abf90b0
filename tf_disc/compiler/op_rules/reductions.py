"""Ops that reduce axes away, and the normalisations built on them."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import as_dim, product
from tf_disc.compiler.ir.graph import Value
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


def _examples(dtype: str, kind: str = "finite") -> tuple[Example, ...]:
    return tuple(
        Example(
            (Arg(dtype, dims, kind), Arg("i32", (len(axes),), values=axes)), {"keep_dims": keep}
        )
        for dims, axes in (*_CASES, *_EMPTY)
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
        _examples("bool") if boolean else _examples("f32") + _examples("i32") + _examples("i64"),
        by_value=(1,),
    )


def _mean(c: RuleContext) -> Value:
    axes = c.axes(1, len(c[0].dims))
    total = c.b.reduce("sum", c[0], axes)
    count = c.b.sizes([product(c[0].dims[a] for a in axes)], "i64", rank=0)
    mean = c.b.elementwise("div", total, c.b.elementwise("cast", count, dtype=c[0].dtype))
    return _keep(c, mean)


def softmax(c: RuleContext, x: Value) -> Value:
    """exp(x - max) / sum over the last axis; a row of -inf gives NaN, as in TensorFlow."""
    rows, columns = x.dims[:-1], x.dims
    last = [len(columns) - 1]
    peak = c.b.reshape(c.b.reduce("max", x, last), [*rows, 1])
    e = c.b.elementwise("exp", c.b.elementwise("sub", x, peak))
    total = c.b.reshape(c.b.reduce("sum", e, last), [*rows, 1])
    return c.b.elementwise("div", e, total)


def _log_softmax(c: RuleContext) -> Value:
    x = c[0]
    rows, last = x.dims[:-1], [len(x.dims) - 1]
    shifted = c.b.elementwise("sub", x, c.b.reshape(c.b.reduce("max", x, last), [*rows, 1]))
    total = c.b.reshape(c.b.reduce("sum", c.b.elementwise("exp", shifted), last), [*rows, 1])
    return c.b.elementwise("sub", shifted, c.b.elementwise("log", total))


def _rows_shape(c: RuleContext) -> list[Dims]:
    if not c[0].dims:
        raise c.unsupported("takes rank 1 or more")
    return same_as_first(c)


_ROWS = tuple(
    Example((Arg("f32", s, "finite"),))
    for s in ((5,), (3, 7), (2, 3, 33), (4, 1), (0, 3), (2, 2, 2, 130))
)

RULES: list[OpRule] = [
    *(_reduce(kind) for kind in ("sum", "prod", "max", "min", "all", "any")),
    OpRule(
        "Mean",
        {"T": FLOATING, "Tidx": INDEX},
        _reduced,
        _mean,
        _examples("f32"),
        by_value=(1,),
    ),
    OpRule("Softmax", {"T": ("f32",)}, _rows_shape, lambda c: softmax(c, c[0]), _ROWS),
    OpRule("LogSoftmax", {"T": ("f32",)}, _rows_shape, _log_softmax, _ROWS),
]
