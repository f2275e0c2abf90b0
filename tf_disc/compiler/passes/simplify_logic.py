"""Logic with constants, which masks are full of: `ones` that nothing but a range masks, counts of a band that say nothing.

and(true, x) is x, select(c, false, x) is and(not c, x), not(a > b) of integers is a <= b, and so on.
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import INTEGERS

#: What the negation of a comparison is, where no operand is NaN.
OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def simplify_logic(graph: Graph) -> None:
    """Rewrites ops of bool."""
    replaced: dict[Value, Value] = {}
    kept: list[Op] = []

    def emit(name: str, like: Op, *operands: Value) -> Value:
        op = Op(name, list(operands), [like.result.type], source=like.source)
        kept.append(op)
        return op.result

    def negated(like: Op, value: Value) -> Value:
        op = value.op
        if op is not None and op.name == "not":
            return op.operands[0]
        if op is not None and op.name in OPPOSITE and op.operands[0].dtype in INTEGERS:
            return emit(OPPOSITE[op.name], like, *op.operands)
        return emit("not", like, value)

    for op in graph.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        found = None
        if op.result.dtype == "bool" and op.name in ("and", "or"):
            found = _joined(op)
        elif op.name == "select":
            condition, yes, no = op.operands
            known = known_bool(condition)
            if known is not None:
                found = yes if known else no
            elif op.result.dtype == "bool":
                a, b = known_bool(yes), known_bool(no)
                if a is not None and a == b:
                    found = yes
                elif a is not None and b is not None:
                    found = condition if a else negated(op, condition)
                elif a is not None:
                    found = (
                        emit("or", op, condition, no)
                        if a
                        else emit("and", op, negated(op, condition), no)
                    )
                elif b is not None:
                    found = (
                        emit("or", op, negated(op, condition), yes)
                        if b
                        else emit("and", op, condition, yes)
                    )
        if found is None:
            kept.append(op)
        else:
            replaced[op.result] = found
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _joined(op: Op) -> Value | None:
    """`and` and `or` with an operand that is known."""
    for known, other in (op.operands, reversed(op.operands)):
        value = known_bool(known)
        if value is not None:
            return other if value == (op.name == "and") else known
    return None


def known_bool(value: Value) -> bool | None:
    """The bool that all elements are; None where that is not known."""
    if value.dtype != "bool":
        return None
    while value.op is not None and value.op.name in ("broadcast", "reshape"):
        value = value.op.operands[0]
    if value.op is None or value.op.name != "const":
        return None
    values = set(value.op.attrs["values"])
    return bool(values.pop()) if len(values) == 1 else None
