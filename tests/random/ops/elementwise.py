"""Ops of elements, drawn by what their record says: how many operands, which types, which attributes."""

from __future__ import annotations

from typing import Any

from tests.random.maker import FLOATS, INTEGERS, Builder, Maker, broadcast
from tests.random.recipe import Type
from tf_disc.compiler.op_rules.record import Arg, OpRule, broadcast_all, same_as_first

_COMPARED = (
    "Equal",
    "NotEqual",
    "Less",
    "LessEqual",
    "Greater",
    "GreaterEqual",
    "ApproximateEqual",
)
_TO_BOOL = (*_COMPARED, "IsNan", "IsInf", "IsFinite", "LogicalNot", "LogicalAnd", "LogicalOr")


def _types(rule: OpRule) -> tuple[str, ...]:
    return rule.dtypes.get("T", ("bool",))


def _result(rule: OpRule, dtype: str) -> str:
    return "bool" if rule.op in _TO_BOOL else dtype


def _attrs(m: Maker, rule: OpRule) -> dict[str, Any]:
    """The attributes of one of the examples: alphas and the like."""
    found = [dict(e.attrs) for e in rule.examples if e.attrs and not e.error]
    return m.src.of(found) if found else {}


def unary(m: Maker, rule: OpRule) -> bool:
    """One operand, its shape kept."""
    x = m.pick(_types(rule))
    t = m.types[x]
    m.add(rule.op, [x], [Type(_result(rule, t.dtype), t.dims)], _attrs(m, rule))
    return True


def binary(m: Maker, rule: OpRule) -> bool:
    """Two operands that broadcast; now and then the first is the Const."""
    x = m.pick(_types(rule))
    t = m.types[x]
    y = m.partner(x)
    dims = t.dims if isinstance(y, dict) else broadcast(t.dims, m.types[y].dims)
    if dims is None or not m.fits(dims):
        return False
    operands = [y, x] if m.src.chance(50) else [x, y]
    m.add(rule.op, operands, [Type(_result(rule, t.dtype), dims)], _attrs(m, rule))
    return True


def alike(m: Maker, rule: OpRule) -> bool:
    """Operands of one shape, as gradients of activations have."""
    x = m.pick(_types(rule))
    t = m.types[x]
    inputs = [x, *(m.same(t) for _ in range(len(_plain_args(rule)) - 1))]
    m.add(rule.op, inputs, [t], _attrs(m, rule))
    return True


def _plain_args(rule: OpRule) -> tuple[Arg, ...]:
    return next((e.args for e in rule.examples if not e.error), ())


def by_kind(rule: OpRule) -> Builder | None:
    """The builder that the record's shape rule and examples ask for, if it is one of elements."""
    args = _plain_args(rule)
    plain = all(isinstance(a, Arg) for e in rule.examples for a in e.args)
    simple = not (rule.by_value or rule.by_length or rule.resources) and set(rule.dtypes) <= {"T"}
    if not (args and plain and simple):
        return None
    if rule.shape is same_as_first and len(args) == 1:
        return unary
    if rule.shape is broadcast_all and len(args) == 2:
        return binary
    dims = [{a.dims for a in e.args} for e in rule.examples if not e.error]
    dtypes = [{a.dtype for a in e.args} for e in rule.examples if not e.error]
    one = all(len(d) == 1 for d in (*dims, *dtypes))
    if one and len(args) > 1 and (rule.shape is same_as_first or rule.op.endswith("Grad")):
        return alike
    return None


def _add_n(m: Maker, rule: OpRule) -> bool:
    x = m.pick(_types(rule))
    m.add("AddN", [[x, *(m.same(m.types[x]) for _ in range(m.src.integer(1, 3)))]], [m.types[x]])
    return True


def _bias_add(m: Maker, rule: OpRule) -> bool:
    x = m.pick(_types(rule), min_rank=2)
    t = m.types[x]
    m.add("BiasAdd", [x, m.same(Type(t.dtype, t.dims[-1:]))], [t])
    return True


def _cast(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["SrcT"])
    t = m.types[x]
    others = [d for d in rule.dtypes["DstT"] if d != t.dtype]
    if not others:
        return False
    to = m.dtype(others)
    if t.dtype in FLOATS and to in INTEGERS:
        x = _in_range(m, x, to)
    m.add("Cast", [x], [Type(to, t.dims)], {"DstT": to})
    return True


def _in_range(m: Maker, x: int, to: str) -> int:
    """The value without NaN, within an integer type: beyond, TensorFlow's own code gives one number in vectors and another
    in the last elements of a tensor."""
    t = m.types[x]
    low, high = {"u8": (0.0, 200.0), "i8": (-100.0, 100.0)}.get(to, (-30000.0, 30000.0))
    finite = m.add("IsFinite", [x], [Type("bool", t.dims)])[0]
    zero, *ends = ({"const": c, "dtype": t.dtype, "dims": []} for c in (0.0, low, high))
    x = m.add("SelectV2", [finite, x, zero], [t])[0]
    x = m.add("Maximum", [x, ends[0]], [t])[0]
    return m.add("Minimum", [x, ends[1]], [t])[0]


def _select(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"])
    t = m.types[x]
    y = m.same(t)
    condition = m.same(Type("bool", t.dims if m.src.chance(80) else ()))
    m.add("Select", [condition, x, y], [t])
    return True


def _select_v2(m: Maker, rule: OpRule) -> bool:
    x = m.pick(rule.dtypes["T"])
    t = m.types[x]
    y = m.partner(x)
    dims = t.dims if isinstance(y, dict) else broadcast(t.dims, m.types[y].dims)
    if dims is None or not m.fits(dims):
        return False
    found = [v for v in m.all(("bool",)) if broadcast(m.types[v].dims, dims) == dims]
    fresh = Type("bool", m.part_of(dims))
    condition = m.src.of(found) if found and m.src.chance(70) else m.new_input(fresh)
    m.add("SelectV2", [condition, x, y], [Type(t.dtype, dims)])
    return True


BUILDERS: dict[str, Builder] = {
    "AddN": _add_n,
    "BiasAdd": _bias_add,
    "Cast": _cast,
    "Select": _select,
    "SelectV2": _select_v2,
    "LogicalNot": unary,
}
