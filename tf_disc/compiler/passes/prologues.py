"""Loops that only prepare the left operand of a product: a scale, a cast, a gather of rows, a transpose.

Where the product is cut by rows, each tile's rows are prepared in the thread's scratch right before they are
multiplied, and never lie in memory (codegen/kernel.py). With few rows, which all threads multiply by columns of
their own, the loop runs first as it is.
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op
from tf_disc.compiler.passes.eliminate import may_refuse
from tf_disc.compiler.passes.groups import Group
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.views import FULL

#: Columns of a prepared row at most: a tile of 64 rows shall stay in L2 with the product's result.
MOST_COLUMNS = 4096
#: The same of windows, which in memory would be many times the image.
MOST_WINDOW_COLUMNS = 32768


def find_prologues(graph: Graph, groups: list[Group]) -> dict[Op, Group]:
    """For each tile with a loop of its own in front of it: that loop's group."""
    home = {op: group for group in groups for op in group.all_ops}
    uses = graph.uses()
    outputs = {*graph.outputs, *(storage_of(v) for v in graph.outputs)}
    found: dict[Op, Group] = {}
    for group in groups:
        for tile in group.tiles if group.kind == "loop" else ():
            prepared = storage_of(tile.operands[0])
            before = home.get(prepared.op) if prepared.op is not None else None
            if before is None or before is group or prepared in outputs or not _prepares(before):
                continue
            columns = tile.operands[0].dims[-1].value
            most = MOST_WINDOW_COLUMNS if _sees_windows(before) else MOST_COLUMNS
            if columns is None or columns > most:
                continue
            # Nobody else reads it, nor anything on the way to it.
            value = prepared
            while [user.name for user in uses.get(value, [])] == ["reshape"]:
                value = uses[value][0].result
            inside = (op for op in before.ops if op.result is not prepared)
            alone = all(user in before.ops for op in inside for user in uses.get(op.result, []))
            if alone and value is tile.operands[0] and uses.get(value) == [tile]:
                found[tile] = before
    return found


def _sees_windows(group: Group) -> bool:
    """True for a loop that reads windows, seen through reshapes."""
    operands = (storage_of(v) for op in group.ops for v in op.operands)
    return any(v.op is not None and v.op.name == "window" for v in operands)


def _prepares(group: Group) -> bool:
    """An elementwise loop of one result, without reductions, products and what TensorFlow may refuse."""
    if group.kind != "loop" or group.tiles or len(set(group.levels.values())) != 1:
        return False
    return all(
        group.levels[op.result] == FULL and not op.name.startswith("reduce_") and not may_refuse(op)
        for op in group.ops
    )
