"""Kernels of running sums and products.

TensorFlow adds one element after another, and so does a kernel: rounding is the same. What runs side by side are
the other axes: lanes go over what follows the scanned axis, tasks over the rest.
"""

from __future__ import annotations

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.evaluation import COMBINE
from tf_disc.compiler.codegen.kernel import Kernel, KernelBuilder
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import LoopType

#: Columns of one item: two rows of them stay in L1.
COLUMNS = 512


def scan_kernel(k: KernelBuilder) -> Kernel:
    """The kernel of a scan."""
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    outer, size = op.result.dims[:2]
    (item,) = k.b.open([LoopType("i64")])
    if len(op.result.dims) == 2:
        count, cost = outer, size * 2 + 10
        _last_axis(k, op, item)
    else:
        count, cost = _columns(k, op, item)
    k.b.close("for", [begin, end], [], step=1)
    return Kernel(k.group.name, k.b.body, k.arguments, count, as_dim(1), cost, k.scratch)


def _position(k: KernelBuilder, op: Op, i: Value, size: Dim) -> Value:
    """Step i's place on the axis."""
    if not op.attrs["reverse"]:
        return i
    return k.b.int_op("isub", k.size(size - 1), i)


def _last_axis(k: KernelBuilder, op: Op, row: Value) -> None:
    """One row: the sum so far is in a register."""
    out, (_, size) = op.result, op.result.dims
    type_ = LoopType(out.dtype)
    i, sofar = k.b.open([LoopType("i64"), type_])
    at = _position(k, op, i, size)
    element = k.evaluate(op.operands[0], (Coordinate(row), Coordinate(at)))
    total = k.b.pure(COMBINE[op.attrs["kind"]], [sofar, element], type_, deepest=True)
    where = k.b.int_op("iadd", k.b.int_op("imul", row, k.size(size)), at)
    stored = sofar if op.attrs["exclusive"] else total
    k.b.effect("store", [k.buffer(out), where, stored], lanes=False)
    start = k.identity(op.attrs["kind"], out.dtype)
    k.b.close("for", [k.b.index(0), k.size(size), start], [total], step=1)


def _columns(k: KernelBuilder, op: Op, item: Value) -> tuple[Dim, Dim]:
    """A block of columns: each row is made of the one before, which was just stored. Gives count and cost of items."""
    out, (outer, size, inner) = op.result, op.result.dims
    blocks = divided_up(inner, COLUMNS)
    block, column = k.math.divide(Coordinate(item), k.size(blocks))
    assert block.base is not None and column.base is not None
    low = k.b.int_op("imul", column.base, k.b.index(COLUMNS))
    high = k.b.pure(
        "imin", [k.b.int_op("iadd", low, k.b.index(COLUMNS)), k.size(inner)], LoopType("i64")
    )
    pointer, kind = k.buffer(out), op.attrs["kind"]
    first_row = k.b.int_op("imul", block.base, k.size(size))

    def place(at: Value, n: Value) -> Value:
        row = k.b.int_op("iadd", first_row, at)
        return k.b.int_op("iadd", k.b.int_op("imul", row, k.size(inner)), n)

    def element(at: Value, n: Value) -> Value:
        where = (block, Coordinate(at), Coordinate(n, 1))
        return k.evaluate(op.operands[0], where)

    def columns(at: Value, before: Value | None) -> None:
        """One row; `before` is the step's own number less one."""
        (n,) = k.b.open([LoopType("i64")])
        if before is None:
            value = k.identity(kind, out.dtype)
        else:
            lanes = LoopType(out.dtype, True)
            value = k.b.pure("load", [pointer, place(before, n)], lanes, deepest=True)
        source = before if op.attrs["exclusive"] else at
        if source is not None:
            added = element(source, n)
            value = k.b.pure(COMBINE[kind], [value, added], LoopType(out.dtype, True), deepest=True)
        k.b.effect("store", [pointer, place(at, n), value], lanes=True)
        k.b.close("vfor", [low, high], [], combine=[])

    one = k.b.index(1)
    first = k.b.pure("imin", [k.size(size), one], LoopType("i64"))
    (start,) = k.b.open([LoopType("i64")])
    columns(_position(k, op, start, size), None)
    k.b.close("for", [k.b.index(0), first], [], step=1)
    (i,) = k.b.open([LoopType("i64")])
    columns(_position(k, op, i, size), _position(k, op, k.b.int_op("isub", i, one), size))
    k.b.close("for", [one, k.size(size)], [], step=1)
    return outer * blocks, size * Dim.call("min", inner, COLUMNS) // 8 + 10
