"""DynamicStitch by constant indices: how gradients of reductions put ones into a shape."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY
from tf_disc.compiler.op_rules.record import Arg, Dims, Example, OpRule, RuleContext


def _sources(c: RuleContext) -> list[tuple[Value, int]]:
    """For each result row, the operand and the row of it; the last operand that names a row gives it."""
    rows: dict[int, tuple[Value, int]] = {}
    for position in (0, 1):
        data = c[position + 2]
        at = c.constant(position)
        if len(c[position].dims) != 1 or len(data.dims) != len(c[2].dims) or not data.dims:
            raise c.unsupported("takes vectors of indices and data of one rank")
        for a, b in zip(data.dims[1:], c[2].dims[1:], strict=True):
            c.b.require(a, "==", b, "rows of one shape")
        c.b.require(data.dims[0], "==", len(at), "as many rows as indices")
        rows |= {index: (data, i) for i, index in enumerate(at)}
    if sorted(rows) != list(range(len(rows))):
        raise c.unsupported("rows that no index names are undefined")
    return [rows[i] for i in range(len(rows))]


def _shape(c: RuleContext) -> list[Dims]:
    return [(as_dim(len(_sources(c))), *c[2].dims[1:])]


def _lower(c: RuleContext) -> Value:
    rows = _sources(c)
    followed = [c.b.contents.get(data) for data, _ in rows]
    if len(c[2].dims) == 1 and rows and all(f is not None for f in followed):
        picked = [f[i] for f, (_, i) in zip(followed, rows, strict=True) if f is not None]
        return c.b.with_contents(_joined(c, rows), picked)
    return _joined(c, rows)


def _joined(c: RuleContext, rows: list[tuple[Value, int]]) -> Value:
    rest = c[2].dims[1:]
    pieces = [
        c.b.slice(data, [i, *[0] * len(rest)], [1, *rest], [1] * (len(rest) + 1))
        for data, i in rows
    ]
    if pieces:
        return c.b.concat(pieces, 0)
    return c.b.slice(c[2], [0] * (len(rest) + 1), [0, *rest], [1] * (len(rest) + 1))


def _example(
    dtype: str, first: tuple[int, ...], second: tuple[int, ...], row: tuple[int, ...] = ()
) -> Example:
    indices = tuple(Arg("i32", (len(v),), values=v) for v in (first, second))
    data = tuple(Arg(dtype, (len(v), *row)) for v in (first, second))
    return Example((indices, data))  # type: ignore[arg-type]


RULES: list[OpRule] = [
    OpRule(
        "DynamicStitch", {"T": ANY}, _shape, _lower,
        tuple(
            _example(d, first, second, row)
            for d in ("i32", "i64", "f32")
            for first, second, row in (
                ((0, 1, 2), (1,), ()), ((0, 1), (1, 0), ()),
                ((2, 0), (1,), (5,)), ((0,), (), ()), ((0, 1, 2, 3), (3, 1), (2, 33)), ((), (), (3,)),
            )
        ),
        cost="shape", by_value=(0, 1), attrs={"N": ("2",)},
        notes="Two vectors of indices, as the gradients of reductions have them.",
    ),
]  # fmt: skip
