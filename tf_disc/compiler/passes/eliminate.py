"""Removes ops that compute what another op computed already, and ops that nothing uses."""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.text import attr_text


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
    """Drops ops from whose results no output is computed."""
    live = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if any(r in live for r in op.results):
            live.update(op.operands)
            kept.append(op)
    graph.block.ops = kept[::-1]
