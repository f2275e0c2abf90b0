"""Gives memory to values that must have it: outputs, operands that a product cannot read through strides, and gathers
of which only a part is read.

An index map that has to be stored becomes the operand of a `copy`, an elementwise op like any other.
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.passes.matrix_views import matrix_view
from tf_disc.compiler.passes.views import INDEX_MAPS, has_dense_rows, strided_view


def materialize(graph: Graph) -> None:
    """Inserts the copies."""
    kept: list[Op] = []
    inputs = {i.value for i in graph.inputs}
    weights = {i.value for i in graph.inputs if i.kind == "weight"}

    def copy(value: Value, source: str) -> Value:
        op = Op("copy", [value], [value.type], source=source)
        kept.append(op)
        return op.result

    copies: dict[Value, Value] = {}
    for op in graph.ops:
        if op.name == "matmul":
            for i, operand in enumerate(op.operands):
                wanted = i == 0 and op.operands[1] in weights and not op.attrs["transpose_a"]
                if not product_can_read(operand) or (wanted and not _has_rows(operand)):
                    if operand not in copies:
                        copies[operand] = copy(operand, op.source)
                    op.operands[i] = copies[operand]
        elif op.name in ("slice", "pad", "window", "gather") and _reads_gather(op.operands[0]):
            # TensorFlow checks every index, read or not: a stored gather checks them all.
            op.operands[0] = copy(op.operands[0], op.source)
        elif (
            op.name == "gather"
            and op.operands[0].op is not None
            and op.operands[0].op.name in INDEX_MAPS
        ):
            view = strided_view(op.operands[0])
            if view is None:
                op.operands[0] = copy(op.operands[0], op.source)
        kept.append(op)
    seen: set[Value] = set()
    for i, output in enumerate(graph.outputs):
        base = storage_of(output)
        if base in inputs or base in seen or base.op is None or base.op.name in INDEX_MAPS:
            graph.outputs[i] = copy(output, "")
            base = graph.outputs[i]
        seen.add(base)
    graph.block.ops = kept


def _has_rows(value: Value) -> bool:
    """True for a matrix that can be multiplied by a packed weight: its rows are dense."""
    view = strided_view(value)
    return len(value.dims) != 2 or (view is not None and has_dense_rows(view))


def _reads_gather(value: Value) -> bool:
    """True when index maps that read every element lead to a gather."""
    while value.op is not None and value.op.name in ("reshape", "transpose", "broadcast"):
        value = value.op.operands[0]
    return value.op is not None and value.op.name == "gather"


def storage_of(value: Value) -> Value:
    """The value whose memory holds this one in the same order: reshapes cost nothing."""
    while value.op is not None and value.op.name == "reshape":
        value = value.op.operands[0]
    return value


def product_can_read(value: Value) -> bool:
    """True for a view of stored elements with one of its last two axes dense."""
    view = matrix_view(value)
    if view is None or (view.base.op is not None and view.base.op.name in INDEX_MAPS):
        return False
    rows, columns = view.strides[-2:]
    m, n = view.dims[-2:]
    if (rows == 0 and not m.is_one) or (columns == 0 and not n.is_one):
        return False
    # The library steps forward only: reversed axes are copied.
    if columns == 1 or n.is_one:
        return m.is_one or rows.lower_bound >= 0
    return (rows == 1 or m.is_one) and columns.lower_bound >= 0
