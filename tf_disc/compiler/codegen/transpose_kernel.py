"""Kernels of elementwise groups that read memory across its order: blocks of it are turned in registers.

An operand such as a transpose lies in memory with another axis innermost than the loop has. Read lane by lane, each
element would cost a load of its own and most of a cache line. Here a task takes a block of the operand's innermost
axis and turns it into a buffer (row_transposes.py): for each vector of columns, as many of the operand's rows as there
are lanes. From there the group's own loop over the block reads whole vectors, and writes rows in long runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.costs import LANE_OPS_PER_NS
from tf_disc.compiler.codegen.kernel import Kernel, KernelBuilder
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product
from tf_disc.compiler.ir.functions import FUNCTIONS
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.groups import Group
from tf_disc.compiler.passes.views import FULL, View, collapsed, row_major, splits, strided_view

#: Elements of the innermost axis of a block: eight cache lines of f32 of each row, which is what memory likes …
BLOCK = 128
#: … and columns of it at a time: buffers of f32 take 32 KB, the half of what a core has at hand with what it writes.
COLUMNS = 64
#: Known sizes of the two axes below this are not worth turning.
LEAST = 4


@dataclass(frozen=True)
class Turned:
    """Operands that are turned: their views, and the loop's axes, of which `inner` is innermost in their memory."""

    views: list[View]
    row_dims: tuple[Dim, ...]
    columns: Dim
    inner: int


def turned_operands(group: Group, inlined: set[Op]) -> Turned | None:
    """The operands that a group reads across their order, all across the same two axes; None where there are none."""
    plain = all(op.name in FUNCTIONS and op not in inlined for op in group.ops)
    if group.kind != "loop" or group.tiles or not plain:
        return None
    if any(group.levels[op.result] != FULL for op in group.ops):
        return None
    members = {op.result for op in group.ops}
    found: Turned | None = None
    for op in group.ops:
        for operand in op.operands:
            view = strided_view(operand)
            if view is None or view.base in members or view.base.op in inlined:
                continue
            if view.base.op is not None and view.base.op.name == "const":
                continue
            dims, strides = collapsed(view.dims, view.strides)
            across = _across(dims, strides)
            if across is None or product(dims) != group.total:
                continue
            turned = Turned([view], dims[:-1], dims[-1], across)
            if found is None:
                rows = product(turned.row_dims)
                if all(splits(o.result.dims, rows) is not None for o in group.ops):
                    found = turned
                continue
            same = (turned.row_dims, turned.columns, turned.inner)
            if same == (found.row_dims, found.columns, found.inner) and view not in found.views:
                found.views.append(view)
    return found


def _across(dims: tuple[Dim, ...], strides: tuple[Dim, ...]) -> int | None:
    """The axis that is innermost in memory, if that is not the last one and both are long enough."""
    if len(dims) < 2 or strides[-1] == 1 or strides[-1] == 0 or (dims[-1].value or LEAST) < LEAST:
        return None
    for i, (d, s) in enumerate(zip(dims[:-1], strides[:-1], strict=True)):
        if s == 1 and (d.value or LEAST) >= LEAST:
            return i
    return None


def transpose_kernel(k: KernelBuilder, turned: Turned) -> Kernel:
    """The kernel of a group with turned operands."""
    begin, end = k.b.task_arguments()
    k.lone_vectors = True
    dims, inner = turned.row_dims, turned.inner
    rows = product(dims)
    k.rows, k.columns = rows, turned.columns
    blocks = divided_up(dims[inner], BLOCK)
    others = [d for i, d in enumerate(dims) if i != inner]
    for view in turned.views:
        size = BLOCK * COLUMNS * ITEM_BYTES[view.base.dtype]
        k.turned_views[view] = k.task_buffer(as_dim(size))
    (item,) = k.b.open([LoopType("i64")])
    outer, block = k.math.divide(Coordinate(item), k.size(blocks))
    spread = k.math.split(outer, [k.size(d) for d in others])
    assert block.base is not None
    low = k.b.int_op("imul", block.base, k.b.index(BLOCK))
    left = k.b.int_op("isub", k.size(dims[inner]), low)
    count = k.b.pure("imin", [left, k.b.index(BLOCK)], LoopType("i64"))

    def at_axes(along: Value) -> list[Coordinate]:
        axes = list(spread)
        axes.insert(inner, Coordinate(along))
        return axes

    (start,) = k.b.open([LoopType("i64")])
    past = k.b.int_op("iadd", start, k.b.index(COLUMNS))
    stop = k.b.pure("imin", [past, k.size(turned.columns)], LoopType("i64"))

    def place(n: Value) -> Value:
        """Where in a buffer the vector of these columns begins."""
        return k.b.int_op("imul", k.b.int_op("isub", n, start), k.b.index(BLOCK))

    (n,) = k.b.open([LoopType("i64")])
    for view in turned.views:
        _, strides = collapsed(view.dims, view.strides)
        first = k.math.linear([*at_axes(low), Coordinate(n)], [k.size(s) for s in strides])
        first = k.math.add(first, Coordinate(k.size(view.offset)))
        assert first.base is not None
        offset = k.b.int_op("imul", place(n), k.b.index(ITEM_BYTES[view.base.dtype]))
        buffer = k.b.pure("ptradd", [k.turned_views[view], offset], LoopType("ptr"))
        rows_left = k.b.int_op("isub", stop, n)
        operands = [k.buffer(view.base), first.base, k.size(strides[-1]), rows_left, count, buffer]
        k.b.effect("rows_to_lanes", operands, dtype=view.base.dtype, ahead=True)
    k.b.close("vfor", [start, stop], [], combine=())
    (c,) = k.b.open([LoopType("i64")])
    along = k.b.int_op("iadd", low, c)
    row = k.math.linear(at_axes(along), [k.size(s) for s in row_major(dims)])
    (n,) = k.b.open([LoopType("i64")])
    k.row, k.column = row, Coordinate(n, 1)
    in_vector = k.b.int_op("imul", c, k.width())
    k.kept_at = Coordinate(k.b.int_op("iadd", place(n), in_vector), 1)
    for value in k.stores:
        k.store(value)
    k.b.close("vfor", [start, stop], [], combine=())
    k.b.close("for", [k.b.index(0), count], [], step=1)
    k.b.close("for", [k.b.index(0), k.size(turned.columns)], [], step=COLUMNS)
    k.b.close("for", [begin, end], [], step=1)
    if k.past_caches:
        k.b.effect("fence", [])
    instructions = 4 * len(turned.views) + 2
    for op in k.group.ops:
        instructions += FUNCTIONS[op.name].cost
    length = Dim.call("min", dims[inner], BLOCK)
    cost = length * turned.columns * instructions // LANE_OPS_PER_NS + 10
    return Kernel(
        k.group.name, k.b.body, k.arguments, product(others) * blocks, as_dim(1), cost, k.scratch
    )
