"""The kernel of an attention group: blocks of rows go through both products while they lie in a thread's scratch.

An item is a block of rows of one matrix of the batch. Its scores are multiplied into the scratch, the rows' ops
run on them one row after the other, and what they give is multiplied again, into the result. Nothing of the size
[rows, columns] is stored but what other groups or the caller read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.evaluation import MatrixRow
from tf_disc.compiler.codegen.kernel import Kernel, KernelBuilder
from tf_disc.compiler.codegen.masked_columns import MaskedColumns
from tf_disc.compiler.codegen.matrices import address, leading, operand_view, result_view
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product, rounded_up
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.views import FULL, trailing_reduction

#: Rows of a block: what the library packs of the right operand serves so many (64 rows run at 96 GFLOP/s of 108, 128 at
#: 103, heads of 64) …
MOST_ROWS = 128
#: … unless the block would not stay in L2 with the operands, …
BLOCK_BYTES = 512 << 10
LEAST_ROWS = 8
#: … or there would be too few blocks for several threads, whose number must not change the result.
ITEMS = 24
SHARED_ROWS = 32
#: Columns that a mask leaves out are left out in steps of so many: whole vectors.
COLUMN_STEP = 16


def block_rows(batch: Dim, height: Dim, row_bytes: Dim) -> Dim:
    """Rows of a block: an even share of as few blocks a matrix as may be, in steps of 8."""
    fitting = as_dim(BLOCK_BYTES) // Dim.call("max", row_bytes, 1)
    most = Dim.call("max", Dim.call("min", fitting, MOST_ROWS), LEAST_ROWS)
    shared = Dim.call("min", as_dim(ITEMS) // Dim.call("max", batch, 1), height // SHARED_ROWS)
    blocks = Dim.call("max", Dim.call("max", divided_up(height, most), shared), 1)
    return Dim.call("max", rounded_up(divided_up(height, blocks), 8), 8)


@dataclass(frozen=True)
class _Block:
    """An item: rows [start, start + rows) of matrix `batch`; `first` counts them from the first matrix.

    `columns`: how many are computed.
    """

    batch: Coordinate
    start: Value
    rows: Value
    first: Value
    columns: Value


def attention_kernel(k: KernelBuilder) -> Kernel:
    """Blocks of rows of all matrices."""
    group = k.group
    begin, end = k.b.task_arguments()
    given = [storage_of(op.operands[0]) for op in group.after]
    stored = list(k.stores)
    k.stores = [v for v in dict.fromkeys([*stored, *given]) if v in k.members]
    height = group.tiles[0].result.dims[-2]
    batch = product(group.tiles[0].result.dims[:-2])
    row_bytes = as_dim(0)
    for op in group.tiles:
        row_bytes = row_bytes + k.columns * ITEM_BYTES[op.result.dtype]
    rows = block_rows(batch, height, row_bytes)
    blocks = divided_up(height, rows)

    depth, kept = k.prepare_phases()
    scratch = {
        op.result: k.task_buffer(rows * k.columns * ITEM_BYTES[op.result.dtype])
        for op in group.tiles
        if op.result not in stored
    }
    for value in given:
        if value in stored or value in k.blocks:
            continue
        free = [v for v in scratch if _ends_in_place(k, depth, value) and v.dtype == value.dtype]
        k.blocks[value] = (
            scratch[free[0]] if free else k.task_buffer(rows * k.columns * ITEM_BYTES[value.dtype])
        )

    # Scores that others read are needed whole.
    masked = MaskedColumns.find(k, given, height) if len(scratch) == len(group.tiles) else None
    if masked is not None:
        # What each row has beyond the mask, and the sum of the values there.
        numbers = {v: k.task_buffer(rows * ITEM_BYTES[v.dtype]) for v in dict.fromkeys(given)}
        widths = sum((result_view(op).dims[-1] for op in group.after), as_dim(0))
        sums = k.task_buffer(widths * ITEM_BYTES["f64"])

    (item,) = k.b.open([LoopType("i64")])
    matrix, number = k.math.divide(Coordinate(item), k.size(blocks))
    assert matrix.base is not None and number.base is not None
    start = k.b.int_op("imul", number.base, k.size(rows))
    left = k.b.int_op("isub", k.size(height), start)
    first = k.b.int_op("iadd", k.b.int_op("imul", matrix.base, k.size(height)), start)
    count = k.b.pure("imin", [left, k.size(rows)], LoopType("i64"))
    block = _Block(matrix, start, count, first, k.size(k.columns))
    if masked is not None:
        block = replace(block, columns=_computed_columns(k, block, masked))
        masked.begin(k, block.columns)

    k.tile_start = first
    k.tile_pointers = []
    for op in group.tiles:
        to = scratch.get(op.result)
        k.tile_pointers.append(to if to is not None else _rows_of(k, block, op.result))
        _multiply_into(k, block, op, k.tile_pointers[-1])
    (row,) = k.b.open([LoopType("i64")])
    k.row = Coordinate(k.b.int_op("iadd", first, row))
    k.matrix_row = MatrixRow(matrix, Coordinate(k.b.int_op("iadd", start, row)), height)
    k.phases(depth, kept)
    if masked is not None:
        for value, buffer in numbers.items():
            k.b.effect("store", [buffer, row, masked.value(k, value)], lanes=False)
    k.matrix_row = None
    k.b.close("for", [k.b.index(0), count], [], step=1)
    for op, value in zip(group.after, given, strict=True):
        source = k.blocks.get(value)
        _multiply(k, block, op, source if source is not None else _rows_of(k, block, value))
        if masked is not None:
            _add_masked(k, block, op, numbers[value], sums)
    k.b.close("for", [begin, end], [], step=1)
    cost = k.item_cost() + sum(
        (op.operands[0].dims[-1] * result_view(op).dims[-1] * 2 // 80 for op in group.after),
        as_dim(0),
    )
    return Kernel(
        group.name, k.b.body, k.arguments, batch * blocks, as_dim(1), cost * rows, k.scratch
    )


def _ends_in_place(k: KernelBuilder, depth: dict[Value, int], value: Value) -> bool:
    """True where the rows' last loop writes this value alone, so that it may take the place of a tile."""
    full = [v for v in k.stores if k.group.levels[v] == FULL]
    loops = [depth[op.result] - int(trailing_reduction(op)) for op in k.group.ops]
    return full == [value] and depth[value] == max(loops)


def _rows_of(k: KernelBuilder, block: _Block, value: Value) -> Value:
    """Where the block's rows of a stored value [batch, rows, columns] begin."""
    step = k.b.int_op("imul", k.size(k.columns), k.b.index(ITEM_BYTES[value.dtype]))
    return k.b.pure(
        "ptradd", [k.buffer(value), k.b.int_op("imul", block.first, step)], LoopType("ptr")
    )


def _multiply_into(k: KernelBuilder, block: _Block, op: Op, to: Value) -> None:
    """The block's rows of a product in front, dense."""
    a, b = operand_view(op, 0), operand_view(op, 1)
    (ta, lda), (tb, ldb) = leading(a), leading(b)
    zero = k.b.index(0)
    left = address(k, a, block.batch, block.start, zero)
    right = address(k, b, block.batch, zero, zero)
    k.b.effect(
        "gemm_dense",
        [
            block.rows, block.columns, k.size(a.dims[-1]), left, k.size(lda), right, k.size(ldb), to,
            k.size(k.columns),
        ],
        dtype=op.operands[0].dtype, transpose_a=ta, transpose_b=tb,
    )  # fmt: skip


def _multiply(k: KernelBuilder, block: _Block, op: Op, left: Value) -> None:
    """The block's rows of a product behind, of dense rows into the result."""
    b, out = operand_view(op, 1), result_view(op)
    tb, ldb = leading(b)
    zero = k.b.index(0)
    right = address(k, b, block.batch, zero, zero)
    to = address(k, out, block.batch, block.start, zero)
    k.b.effect(
        "gemm_dense",
        [
            block.rows, k.size(out.dims[-1]), block.columns, left, k.size(k.columns), right, k.size(ldb), to,
            k.size(out.strides[-2]),
        ],
        dtype=op.operands[0].dtype, transpose_a=False, transpose_b=tb,
    )  # fmt: skip


def _computed_columns(k: KernelBuilder, block: _Block, masked: MaskedColumns) -> Value:
    """The columns that some row of the block reads, in steps of a vector."""
    i64 = LoopType("i64")
    end = k.b.int_op("iadd", block.start, block.rows)
    end = k.b.int_op("iadd", end, k.size(masked.shift + (COLUMN_STEP - 2)))
    end = k.b.pure("max", [end, k.b.index(0)], i64)
    end = k.b.int_op("isub", end, k.b.int_op("imod", end, k.b.index(COLUMN_STEP)))
    return k.b.pure("imin", [end, k.size(k.columns)], i64)


def _add_masked(k: KernelBuilder, block: _Block, op: Op, numbers: Value, sums: Value) -> None:
    """To each row of the result, its number times the sum of the values in the columns that were left out."""
    b, out = operand_view(op, 1), result_view(op)
    zero, width, dtype = k.b.index(0), k.size(out.dims[-1]), op.result.dtype
    values = address(k, b, block.batch, zero, zero)
    wide = LoopType("f64", True)
    (n,) = k.b.open([LoopType("i64")])
    column, so_far = k.b.open([LoopType("i64"), wide])
    at = k.b.int_op("iadd", k.b.int_op("imul", column, k.size(b.strides[-2])), n)
    value = k.b.pure("load", [values, at], LoopType(b.base.dtype, True), deepest=True)
    total = k.b.pure("add", [so_far, k.b.pure("cast", [value], wide)], wide)
    nothing = k.constant(0.0, "f64")
    (total,) = k.b.close("for", [block.columns, k.size(k.columns), nothing], [total], step=1)
    k.b.effect("store", [sums, n, total], lanes=True)
    k.b.close("vfor", [zero, width], [], combine=())

    none_left = k.b.pure("eq", [block.columns, k.size(k.columns)], LoopType("bool"))
    rows = k.b.pure("select", [none_left, zero, block.rows], LoopType("i64"))
    to = address(k, out, block.batch, block.start, zero)
    (row,) = k.b.open([LoopType("i64")])
    factor = k.b.pure("load", [numbers, row], LoopType(op.operands[0].dtype), deepest=True)
    factor = k.b.pure("cast", [factor], LoopType("f64"))
    (n,) = k.b.open([LoopType("i64")])
    at = k.b.int_op("iadd", k.b.int_op("imul", row, k.size(out.strides[-2])), n)
    total = k.b.pure("load", [sums, n], wide, deepest=True)
    added = k.b.pure("cast", [k.b.pure("mul", [factor, total], wide)], LoopType(dtype, True))
    old = k.b.pure("load", [to, at], LoopType(dtype, True), deepest=True)
    k.b.effect("store", [to, at, k.b.pure("add", [old, added], LoopType(dtype, True))], lanes=True)
    k.b.close("vfor", [zero, width], [], combine=())
    k.b.close("for", [zero, rows], [], step=1)
