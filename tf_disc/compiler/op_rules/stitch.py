"""DynamicStitch by constant indices: how gradients of reductions put ones into a shape."""

from __future__ import annotations

from tf_disc.compiler.ir.dims import as_dim
from tf_disc.compiler.ir.graph import Value
from tf_disc.compiler.op_rules.dtypes import ANY
from tf_disc.compiler.op_rules.record import (
    Arg,
    Dims,
    Example,
    OpRule,
    RuleContext,
    i32,
    scalar_i32,
)


def _row(c: RuleContext) -> Dims:
    return c[2].dims[len(c[0].dims) :]


def _sources(c: RuleContext) -> list[tuple[Value, int]]:
    """For each result row, the operand and the row of it; the last operand that names a row gives it."""
    rows: dict[int, tuple[Value, int]] = {}
    for position in (0, 1):
        data, rank = c[position + 2], len(c[position].dims)
        at = c.constant(position)
        if rank > 1 or len(data.dims) - rank != len(_row(c)):
            raise c.unsupported("takes numbers or vectors of indices and rows of one rank")
        if rank == 0:
            data = c.b.reshape(data, [1, *data.dims])
        for a, b in zip(data.dims[1:], _row(c), strict=True):
            c.b.require(a, "==", b, "rows of one shape")
        c.b.require(data.dims[0], "==", len(at), "as many rows as indices")
        rows |= {index: (data, i) for i, index in enumerate(at)}
    if sorted(rows) != list(range(len(rows))):
        raise c.unsupported("rows that no index names are undefined")
    return [rows[i] for i in range(len(rows))]


def _shape(c: RuleContext) -> list[Dims]:
    return [(as_dim(len(_sources(c))), *_row(c))]


def _lower(c: RuleContext) -> Value:
    rows = _sources(c)
    followed = [c.b.contents.get(data) for data, _ in rows]
    if not _row(c) and rows and all(f is not None for f in followed):
        picked = [f[i] for f, (_, i) in zip(followed, rows, strict=True) if f is not None]
        return c.b.with_contents(_joined(c, rows), picked)
    return _joined(c, rows)


def _joined(c: RuleContext, rows: list[tuple[Value, int]]) -> Value:
    rest = _row(c)
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
        ) + tuple(
            Example(((first, second), (Arg("i32", first.dims), Arg("i32", second.dims))))  # type: ignore[arg-type]
            for first, second in ((i32(0, 1), scalar_i32(1)), (scalar_i32(1), i32(0, 2)), (scalar_i32(1), scalar_i32(0)))
        ),
        cost="shape", by_value=(0, 1), attrs={"N": ("2",)},
        notes="Two numbers or vectors of indices, as the gradients of reductions have them.",
    ),
]  # fmt: skip
