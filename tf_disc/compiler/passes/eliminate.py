"""Removes ops that compute what another op computed already, and ops that nothing uses and TensorFlow cannot refuse."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.text import attr_text
from tf_disc.compiler.ir.types import INTEGERS


def eliminate_common(graph: Graph) -> None:
    """Equal ops on equal operands become one. All core ops are pure, so order does not matter."""
    seen: dict[object, Op] = {}
    replaced: dict[Value, Value] = {}
    kept: list[Op] = []
    for op in graph.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        key = (
            op.name,
            tuple(id(v) for v in op.operands),
            tuple(sorted((k, attr_text(v)) for k, v in op.attrs.items())),
            tuple(str(r.type) for r in op.results),
        )
        if key in seen:
            for old, new in zip(op.results, seen[key].results, strict=True):
                replaced[old] = new
        else:
            seen[key] = op
            kept.append(op)
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def eliminate_dead(graph: Graph) -> None:
    """Drops ops from whose results no output is computed, but for those that TensorFlow may refuse: it would run them,
    and the user is owed the error."""
    live = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if not any(r in live for r in op.results):
            if op.name == "gather" and not _within(op):
                # An index map is read by something or not at all.
                kept.append(
                    Op("copy", [op.result], [op.result.type], {"checks": True}, source=op.source)
                )
            elif not may_refuse(op):
                continue
        live.update(op.operands)
        kept.append(op)
    graph.block.ops = kept[::-1]


#: Functions of integers that TensorFlow refuses for some second operands.
_REFUSED = ("truncdiv", "truncmod", "floordiv", "floormod", "pow")


def may_refuse(op: Op) -> bool:
    """True for an op whose operands TensorFlow may find to be an error: it is computed, read or not."""
    if op.name == "scatter" or op.attrs.get("checks"):
        return True
    if op.name not in _REFUSED or op.result.dtype not in INTEGERS:
        return False
    second = op.operands[1]
    while second.op is not None and second.op.name in ("broadcast", "reshape"):
        second = second.op.operands[0]
    if second.op is None or second.op.name != "const":
        return True
    return any(v < 0 if op.name == "pow" else v == 0 for v in second.op.attrs["values"])


def _within(op: Op) -> bool:
    """True for a gather by constants that are rows of what it reads."""
    size, indices = op.operands[0].dims[op.attrs["axis"]].value, op.operands[1].op
    if size is None or indices is None or indices.name != "const":
        return False
    return all(0 <= i < size for i in indices.attrs["values"])
