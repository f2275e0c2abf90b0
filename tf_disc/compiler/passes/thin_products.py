"""Products with one column become sums of rows: the library pads one column to a whole tile, and a sum fuses.

`matmul([m, k], [k, 1])` is ``reduce_sum(a * broadcast(b), axis 1)``, which joins the loop that made `a`.
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import TensorType


def thin_products(graph: Graph) -> None:
    """Rewrites the products by one column."""
    replaced: dict[Value, Value] = {}
    kept: list[Op] = []

    def emit(
        name: str, operands: list[Value], type_: TensorType, source: str, **attrs: object
    ) -> Value:
        op = Op(name, operands, [type_], attrs, source=source)
        kept.append(op)
        return op.result

    for op in graph.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        if not _is_thin(op):
            kept.append(op)
            continue
        a, b = op.operands
        m, k = a.dims
        column = emit("reshape", [b], TensorType(b.dtype, (k,)), op.source)
        rows = emit("broadcast", [column], a.tensor, op.source)
        terms = emit("mul", [a, rows], a.tensor, op.source)
        total = emit("reduce_sum", [terms], TensorType(a.dtype, (m,)), op.source, axes=(1,))
        replaced[op.result] = emit("reshape", [total], op.result.tensor, op.source)
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _is_thin(op: Op) -> bool:
    return (
        op.name == "matmul"
        and len(op.result.dims) == 2
        and op.result.dims[1].is_one
        and not op.attrs["transpose_a"]
        and not op.operands[0].dims[1].is_one
    )
