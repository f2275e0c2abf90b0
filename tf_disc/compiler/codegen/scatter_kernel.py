"""Kernels that join rows into rows by index.

Rows are joined in the order of the updates, as TensorFlow does, so that sums round alike and the last of
equal indices wins. What runs side by side are columns: every task walks all updates.
"""

from __future__ import annotations

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.kernel import Kernel, KernelBuilder
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import LoopType

#: Columns of one item: enough for a row's work to be more than the look at its index.
COLUMNS = 128


def scatter_kernel(k: KernelBuilder) -> Kernel:
    """The kernel of a scatter."""
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    start, indices, _ = op.operands
    (rows, *inner), (updates,) = start.dims, indices.dims
    width = inner[0] if inner else as_dim(1)
    blocks = divided_up(width, COLUMNS)
    (item,) = k.b.open([LoopType("i64")])
    low = k.b.int_op("imul", item, k.b.index(COLUMNS))
    high = k.b.pure(
        "imin", [k.b.int_op("iadd", low, k.b.index(COLUMNS)), k.size(width)], LoopType("i64")
    )
    (row,) = k.b.open([LoopType("i64")])
    _each_column(k, op, low, high, row, None)
    k.b.close("for", [k.b.index(0), k.size(rows)], [], step=1)
    (i,) = k.b.open([LoopType("i64")])
    to, last = _target(k, op, i, low, high)
    _each_column(k, op, low, last, to, i)
    k.b.close("for", [k.b.index(0), k.size(updates)], [], step=1)
    k.b.close("for", [begin, end], [], step=1)
    cost = (rows + updates * 2) * (Dim.call("min", width, COLUMNS) // 8 + 2) + 10
    return Kernel(k.group.name, k.b.body, k.arguments, blocks, as_dim(1), cost, k.scratch)


def _target(k: KernelBuilder, op: Op, i: Value, low: Value, high: Value) -> tuple[Value, Value]:
    """The row that update i goes to, and where its columns end: where they begin, if the update is dropped."""
    start, indices, _ = op.operands
    i64 = LoopType("i64")
    index = k.evaluate(indices, (Coordinate(i),))
    if index.dtype != "i64":
        index = k.b.pure("cast", [index], i64)
    rows = k.size(start.dims[0])
    if not op.attrs["drop_negative"]:
        return k.b.pure("check_index", [index, rows], i64), high
    counts = k.b.pure("ge", [index, k.b.index(0)], LoopType("bool"))
    checked = k.b.pure("check_index", [index, rows, counts], i64)
    return checked, k.b.pure("select", [counts, high, low], i64)


def _each_column(
    k: KernelBuilder, op: Op, low: Value, high: Value, row: Value, update: Value | None
) -> None:
    """Stores the row's first value, or joins an update into it."""
    out = op.result
    lanes = len(out.dims) == 2
    pointer, type_ = k.buffer(out), LoopType(out.dtype, lanes)
    (n,) = k.b.open([LoopType("i64")])
    columns = (Coordinate(n, 1),) if lanes else ()
    at = k.b.int_op("iadd", k.b.int_op("imul", row, k.size(out.dims[1])), n) if lanes else row
    if update is None:
        value = k.evaluate(op.operands[0], (Coordinate(row), *columns))
    else:
        value = k.evaluate(op.operands[2], (Coordinate(update), *columns))
        if op.attrs["kind"] != "set":
            old = k.b.pure("load", [pointer, at], type_, deepest=True)
            value = _join(k, op.attrs["kind"], old, value, type_)
    k.b.effect("store", [pointer, at, value], lanes=lanes)
    if lanes:
        k.b.close("vfor", [low, high], [], combine=[])
    else:
        k.b.close("for", [low, high], [], step=1)


def _join(k: KernelBuilder, kind: str, old: Value, new: Value, type_: LoopType) -> Value:
    if kind in ("sum", "sub", "prod"):
        function = {"sum": "add", "sub": "sub", "prod": "mul"}[kind]
        return k.b.pure(function, [old, new], type_, deepest=True)
    # Spelled out, since NaN goes the way that TensorFlow's comparison sends it.
    kept = kind.endswith("_kept")
    left, right = (old, new) if kind.startswith("max") == kept else (new, old)
    less = k.b.pure("lt", [left, right], LoopType("bool", type_.lanes), deepest=True)
    chosen = [less, new, old] if kept else [less, old, new]
    return k.b.pure("select", chosen, type_, deepest=True)
