"""Moves transposes into products, which read and write through strides at no cost.

- transpose(matmul(a, b)) with the last axis kept becomes a matmul that writes in the transposed order
  (`out_perm`), when nothing else reads the product.
- transpose(matmul(a, b)) whose last axis is the product's rows becomes matmul(b, a) of the transposed matrices.
- Operands need no rewrite: codegen reads a product's operands through strided views (passes/views.py).
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value


def move_transposes(graph: Graph) -> None:
    """Folds transposes after products into them."""
    uses = graph.uses()
    outputs = set(graph.outputs)
    replaced: dict[Value, Value] = {}
    kept: list[Op] = []
    for op in graph.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        producer = op.operands[0].op if op.name == "transpose" else None
        if (
            producer is not None
            and producer.name == "matmul"
            and "out_perm" not in producer.attrs
            and len(uses[producer.result]) == 1
            and producer.result not in outputs
            and (attrs := _turned(producer, op.attrs["perm"])) is not None
        ):
            operands = producer.operands
            if op.attrs["perm"][-1] != len(op.attrs["perm"]) - 1:
                operands = operands[::-1]
            merged = Op("matmul", operands, [op.result.type], attrs, source=producer.source)
            kept[kept.index(producer)] = merged
            replaced[op.result] = merged.result
            replaced[producer.result] = merged.result
            continue
        kept.append(op)
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _turned(product: Op, perm: tuple[int, ...]) -> dict[str, object] | None:
    """The attributes of a product that writes its result in another order; None where it cannot."""
    last = len(perm) - 1
    if perm[-1] == last:
        return {**product.attrs, "out_perm": perm}
    if perm[-1] != last - 1 or last == 1:
        return None  # a product of two matrices may be by a weight, which is packed as the right operand
    # The transpose of a product is that of the transposes, the other way round.
    exchanged = {last: last - 1, last - 1: last}
    own = tuple(exchanged.get(p, p) for p in perm)
    attrs = {
        **product.attrs,
        "transpose_a": not product.attrs["transpose_b"],
        "transpose_b": not product.attrs["transpose_a"],
    }
    return attrs if own == tuple(range(last + 1)) else {**attrs, "out_perm": own}
