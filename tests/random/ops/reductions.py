"""Reductions over axes, and ops over the last axis."""

from __future__ import annotations

from tests.random.maker import Builder, Maker
from tests.random.recipe import Dim, Type
from tf_disc.compiler.op_rules.record import OpRule


def _axes(m: Maker, rank: int) -> list[int]:
    axes = [a for a in range(rank) if m.src.chance(45)] or ([rank - 1] if rank else [])
    if m.src.chance(5):
        axes = []
    return [a - rank if m.src.chance(20) else a for a in axes]


def reduce(m: Maker, rule: OpRule) -> bool:
    """Any axes, none and all included, kept or not."""
    x = m.pick(rule.dtypes.get("T", ("bool",)))
    t = m.types[x]
    rank = len(t.dims)
    axes, keep = _axes(m, rank), m.src.chance(40)
    gone = {a % rank for a in axes}
    dims: tuple[Dim, ...] = tuple(
        1 if i in gone else d for i, d in enumerate(t.dims) if keep or i not in gone
    )
    index = m.src.of(rule.dtypes["Tidx"])
    m.add(rule.op, [x, m.constant(axes, index)], [Type(t.dtype, dims)], {"keep_dims": keep})
    return True


def _arg(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], min_rank=1)
    t = m.types[x]
    axis = m.src.integer(-len(t.dims), len(t.dims) - 1)
    to = m.src.of(rule.dtypes.get("output_type", ("i64",)))
    dims = tuple(d for i, d in enumerate(t.dims) if i != axis % len(t.dims))
    index = m.src.of(rule.dtypes.get("Tidx", ("i32",)))
    m.add(rule.op, [x, m.constant(axis, index)], [Type(to, dims)], {"output_type": to})
    return True


def last_axis(m: Maker, rule: OpRule) -> bool:
    """Softmax and its like: the shape is kept."""
    x = m.pick(rule.dtypes["T"], min_rank=1)
    m.add(rule.op, [x], [m.types[x]])
    return True


def _scan(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"], min_rank=1)
    t = m.types[x]
    axis = m.src.integer(-len(t.dims), len(t.dims) - 1)
    attrs = {
        name: m.src.chance(40)
        for name in ("exclusive", "reverse")
        if rule.attrs.get(name) != ("false",)
    }
    index = m.src.of(rule.dtypes.get("Tidx", ("i32",)))
    m.add(rule.op, [x, m.constant(axis, index)], [t], attrs)
    return True


def _whole(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"])
    m.add(rule.op, [x], [Type(m.types[x].dtype, ())])
    return True


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("Sum", "Prod", "Max", "Min", "Mean", "All", "Any"), reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("Softmax", "LogSoftmax"), last_axis),
    **dict.fromkeys(("Cumsum", "Cumprod"), _scan),
    "L2Loss": _whole,
}
