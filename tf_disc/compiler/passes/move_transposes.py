"""Moves transposes into products, which read and write through strides at no cost.

- transpose(matmul(a, b)) with the last axis kept becomes a matmul that writes in the transposed order
  (`out_perm`), when nothing else reads the product.
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
            and op.attrs["perm"][-1] == len(op.attrs["perm"]) - 1
            and len(uses[producer.result]) == 1
            and producer.result not in outputs
        ):
            merged = Op(
                "matmul",
                producer.operands,
                [op.result.type],
                {**producer.attrs, "out_perm": op.attrs["perm"]},
                source=producer.source,
            )
            kept[kept.index(producer)] = merged
            replaced[op.result] = merged.result
            replaced[producer.result] = merged.result
            continue
        kept.append(op)
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
