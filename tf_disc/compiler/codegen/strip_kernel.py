"""Kernels of reductions down columns: strips of columns stay in L1 while rows stream by.

A task takes strips of one block of rows. Rows are read whole strips at a time, several in one pass, so that memory is
read in long runs and a strip's partial results are loaded and stored once for all of them. Every column is reduced in
the order of its rows, whatever the strips.
"""

from __future__ import annotations

from collections.abc import Callable

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.costs import LANE_OPS_PER_NS, reduction_step
from tf_disc.compiler.codegen.evaluation import COMBINE, is_unrolled
from tf_disc.compiler.codegen.kernel import Kernel, KernelBuilder
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.groups import Group
from tf_disc.compiler.passes.views import trailing_reduction

#: Columns of a strip: runs of 2 KB of f32 at least, and enough strips for several threads …
STRIP = 512
#: … up to 8 KB, where blocks of rows alone are work for several threads: memory is read faster in longer runs.
WIDEST = 2048
#: Rows of one pass over a strip. More rows are more streams for the CPU to fetch ahead (a sum over 100 MB: 16.5 GB/s
#: on one core with 4 rows, 20.5 with 8, 23.4 with 16), and as many copies of the code of an element.
ROWS = 16
#: The same where an element takes more than two or three instructions.
FEW_ROWS = 4
#: Known columns below this leave most lanes idle.
NARROW = 8


def strip_reductions(group: Group) -> list[Op]:
    """The group's column reductions if all run over one axis of the same shape; else none."""
    found = [op for op in group.ops if op.name.startswith("reduce_")]
    if not found or group.kind != "loop" or group.tiles or any(map(trailing_reduction, found)):
        return []
    first = found[0]
    axes, dims = first.attrs["axes"], first.operands[0].dims
    if is_unrolled(dims[axes[0]]):
        return []  # so few rows that each column's sum is one expression
    inner = [d for d in dims[axes[0] + 1 :] if not d.is_one]
    if len(axes) != 1 or len(inner) != 1 or (inner[0].value or NARROW) < NARROW:
        return []
    if any(op.attrs["axes"] != axes or op.operands[0].dims != dims for op in found):
        return []
    as_they_are = group.rows == product(dims[: axes[0]]) and group.columns == inner[0]
    return found if group.flat or as_they_are else []


def strip_kernel(k: KernelBuilder, reductions: list[Op]) -> Kernel:
    """The kernel of a group with these column reductions."""
    begin, end = k.b.task_arguments()
    k.whole_lines = False
    (axis,) = reductions[0].attrs["axes"]
    dims = reductions[0].operands[0].dims
    outer, depth, inner = product(dims[:axis]), dims[axis], product(dims[axis + 1 :])
    width = Dim.call("min", Dim.call("max", outer * (WIDEST // 8), STRIP), WIDEST)
    strips = divided_up(inner, width)
    buffers = [k.task_buffer(as_dim(WIDEST * ITEM_BYTES[op.result.dtype])) for op in reductions]
    (item,) = k.b.open([LoopType("i64")])
    block, strip = k.math.divide(Coordinate(item), k.size(strips))
    assert strip.base is not None
    low = k.b.int_op("imul", strip.base, k.size(width))
    past = k.b.int_op("iadd", low, k.size(width))
    high = k.b.pure("imin", [past, k.size(inner)], LoopType("i64"))
    before = k.math.split(block, [k.size(d) for d in dims[:axis]])

    def columns(body: Callable[[Value, Value], None]) -> None:
        """A pass over the strip: `body` gets a column and its place in the buffers."""
        (n,) = k.b.open([LoopType("i64")])
        body(n, k.b.int_op("isub", n, low))
        k.b.close("vfor", [low, high], [], combine=())

    def so_far(i: int, place: Value) -> Value:
        lanes = LoopType(reductions[i].result.dtype, True)
        return k.b.pure("load", [buffers[i], place], lanes, deepest=True)

    def start(_: Value, place: Value) -> None:
        for op, buffer in zip(reductions, buffers, strict=True):
            nothing = k.identity(op.name.removeprefix("reduce_"), op.result.dtype)
            k.b.effect("store", [buffer, place, nothing], lanes=True)

    def rows(first: Value, count: int) -> None:
        def add(n: Value, place: Value) -> None:
            after = k.math.split(Coordinate(n, 1), [k.size(d) for d in dims[axis + 1 :]])
            for i, op in enumerate(reductions):
                total = so_far(i, place)
                for r in range(count):
                    row = Coordinate(k.b.int_op("iadd", first, k.b.index(r)))
                    element = k.evaluate(op.operands[0], (*before, row, *after))
                    combine = COMBINE[op.name.removeprefix("reduce_")]
                    lanes = LoopType(op.result.dtype, True)
                    total = k.b.pure(combine, [total, element], lanes, deepest=True)
                k.b.effect("store", [buffers[i], place, total], lanes=True)

        columns(add)

    def finish(n: Value, place: Value) -> None:
        k.row, k.column = block, Coordinate(n, 1)
        if k.group.flat:
            first = k.math.mul(block, k.size(inner))
            k.row, k.column = k.math.constant(0), k.math.add(first, Coordinate(n, 1))
        k.reduced = {op.result: so_far(i, place) for i, op in enumerate(reductions)}
        for value in k.stores:
            k.store(value)

    columns(start)
    size = k.size(depth)
    step = sum(reduction_step(op, k.inlined) for op in reductions)
    most = ROWS if step <= 5 * len(reductions) else FEW_ROWS
    rest = k.b.int_op("isub", size, k.b.int_op("imod", size, k.b.index(most)))
    for first, last, count in ((k.b.index(0), rest, most), (rest, size, 1)):
        (row,) = k.b.open([LoopType("i64")])
        rows(row, count)
        k.b.close("for", [first, last], [], step=count)
    columns(finish)
    k.b.close("for", [begin, end], [], step=1)
    cost = Dim.call("min", inner, width) * (depth * step + 8) // LANE_OPS_PER_NS + 10
    return Kernel(k.group.name, k.b.body, k.arguments, outer * strips, as_dim(1), cost, k.scratch)
