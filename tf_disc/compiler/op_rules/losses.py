"""Cross entropies of logits, each with its gradient."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import FLOATING, INDEX
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext


def _column(c: RuleContext, rows: Value, like: Value) -> Value:
    """One number a row, repeated along the classes."""
    return c.b.broadcast(c.b.reshape(rows, [like.dims[0], 1]), like.dims)


def _peak(c: RuleContext, logits: Value) -> Value:
    """The largest of each row."""
    return c.b.reshape(c.b.reduce("max", logits, [1]), logits.dims[:1])


def _shifted(c: RuleContext, logits: Value, peak: Value) -> tuple[Value, Value, Value]:
    """logits - peak, their exponentials, and the sum of those for each row."""
    shifted = c.b.elementwise("sub", logits, _column(c, peak, logits))
    exponentials = c.b.elementwise("exp", shifted)
    total = c.b.reshape(c.b.reduce("sum", exponentials, [1]), logits.dims[:1])
    return shifted, exponentials, total


def _dense_shape(c: RuleContext) -> list[Dims]:
    dims = c.b.broadcast_dims(c[0].dims, c[1].dims)
    if len(dims) != 2:
        raise c.unsupported("takes matrices [batch, classes]")
    return [dims[:1], dims]


def _dense(c: RuleContext) -> list[Value]:
    _, dims = _dense_shape(c)
    logits, labels = c.b.broadcast(c[0], dims), c.b.broadcast(c[1], dims)
    shifted, exponentials, total = _shifted(c, logits, _peak(c, logits))
    log_total = _column(c, c.b.elementwise("log", total), logits)
    terms = c.b.elementwise("mul", labels, c.b.elementwise("sub", log_total, shifted))
    loss = c.b.reshape(c.b.reduce("sum", terms, [1]), dims[:1])
    likely = c.b.elementwise("div", exponentials, _column(c, total, logits))
    return [loss, c.b.elementwise("sub", likely, labels)]


def _sparse_shape(c: RuleContext) -> list[Dims]:
    if len(c[0].dims) != 2 or len(c[1].dims) != 1:
        raise c.unsupported("takes logits [batch, classes] and labels [batch]")
    c.b.require(c[1].dims[0], "==", c[0].dims[0], "a label for each row of logits")
    c.b.require(c[0].dims[1], ">=", 1, "at least one class")
    return [c[0].dims[:1], c[0].dims]


def _sparse(c: RuleContext) -> list[Value]:
    logits = c[0]
    rows, classes = logits.dims
    labels = c.b.reshape(c[1], [rows])
    peak = _peak(c, logits)
    _, exponentials, total = _shifted(c, logits, peak)
    # TensorFlow refuses a label that is no class: the gather's check of indices sends the call there.
    chosen = c.b.gather(logits, c.b.reshape(labels, [rows, 1]), 1, 1)
    chosen = c.b.elementwise("sub", c.b.reshape(chosen, [rows]), peak)
    loss = c.b.elementwise("sub", c.b.elementwise("log", total), chosen)
    likely = c.b.elementwise("div", exponentials, _column(c, total, logits))
    number = c.b.broadcast(c.b.iota(classes, labels.dtype), logits.dims)
    right = c.b.elementwise("eq", number, _column(c, labels, logits))
    target = c.b.elementwise("cast", right, dtype=logits.dtype)
    return [loss, c.b.elementwise("sub", likely, target)]


_Dims = tuple[int, ...]
_DENSE: tuple[tuple[_Dims, _Dims], ...] = (
    ((3, 5), (3, 5)), ((1, 1), (1, 1)), ((2, 67), (2, 67)), ((33, 10), (33, 10)), ((0, 3), (0, 3)), ((3, 5), (1, 5)),
    ((1, 5), (3, 5)), ((2, 1), (2, 3)), ((2, 3), (2, 1)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), ()), ((2, 0), (2, 0)),
)  # fmt: skip
_SPARSE = ((3, 5), (1, 1), (2, 67), (33, 10), (0, 3))


def _dense_examples(dtype: str, shapes: tuple[tuple[_Dims, _Dims], ...]) -> list[Example]:
    return [Example((Arg(dtype, a, "finite"), Arg(dtype, b, "unit"))) for a, b in shapes]


_INF, _NAN = float("inf"), float("nan")
_ROWS = (
    (1, -_INF, 2), (1, _INF, 2), (-_INF, -_INF, -_INF), (_NAN, 1, 2), (1000, 0, 0), (5, 5, 5), (1, 2, 3), (-0.0, 0.0, -0.0)
)  # fmt: skip
_LABELS = (
    (0.5, 0, 0.5), (0.5, 0.1, 0.4), (1, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 0), (_INF, 0, 0), (_NAN, 0, 0)
)  # fmt: skip

RULES: list[OpRule] = [
    OpRule(
        "SoftmaxCrossEntropyWithLogits",
        {"T": FLOATING},
        _dense_shape,
        _dense,
        (
            *_dense_examples("f32", _DENSE),
            *(e for t in FLOATING[1:] for e in _dense_examples(t, _DENSE[:4])),
            Example((Arg("f32", (8, 3), values=_ROWS), Arg("f32", (8, 3), values=_LABELS))),
            Example((Arg("f32", (3, 2)), Arg("f32", (4, 2))), error="InvalidArgument"),
            Example((Arg("f32", (3,)), Arg("f32", (3,))), error="InvalidArgument"),
        ),
        alone=True,
    ),
    OpRule(
        "SparseSoftmaxCrossEntropyWithLogits",
        {"T": FLOATING, "Tlabels": INDEX},
        _sparse_shape,
        _sparse,
        (
            *(
                Example((Arg(t, s, "finite"), Arg(i, s[:1], high=s[1])))
                for t in FLOATING
                for i in INDEX
                for s in _SPARSE
            ),
            Example(
                (
                    Arg("f32", (8, 3), values=_ROWS),
                    Arg("i32", (8,), values=(1, 0, 2, 1, 1, 2, 0, 1)),
                )
            ),
            Example((Arg("f32", (2, 3)), Arg("i32", (2,), values=(0, 3))), error="InvalidArgument"),
            Example(
                (Arg("f32", (2, 3)), Arg("i64", (2,), values=(-1, 0))), error="InvalidArgument"
            ),
            Example((Arg("f32", (2, 0)), Arg("i32", (2,), values=(0, 0))), error="InvalidArgument"),
            Example((Arg("f32", (2, 3)), Arg("i32", (3,), high=3)), error="InvalidArgument"),
            Example((Arg("f32", (2, 2, 3)), Arg("i32", (2,), high=2)), error="InvalidArgument"),
        ),
        alone=True,
    ),
]
