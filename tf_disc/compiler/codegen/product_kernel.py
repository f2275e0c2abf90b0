"""Kernels of products that are no tile of a loop group: row tiles by a weight, and batches of matrices."""

from __future__ import annotations

from tf_disc.compiler.codegen.attention_kernel import attention_kernel
from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.kernel import TILE_ROWS, Kernel, KernelBuilder, tiles_per_slot
from tf_disc.compiler.codegen.matrices import address, leading, operand_view, result_view
from tf_disc.compiler.codegen.scan_kernel import scan_kernel
from tf_disc.compiler.codegen.scatter_kernel import scatter_kernel
from tf_disc.compiler.codegen.strip_kernel import strip_kernel, strip_reductions
from tf_disc.compiler.codegen.transpose_kernel import transpose_kernel, turned_operands
from tf_disc.compiler.ir.dims import Dim, as_dim, product
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.groups import Group, is_weight_product

#: Rows of one item of a product without a batch.
DENSE_ROWS = 64
#: Columns are cut where the rows alone make fewer items than this, …
DENSE_ITEMS = 8
#: … into items of at least so many columns …
MIN_COLUMNS = 128
#: … and so many multiplications, which take some 20 us.
MIN_MULTIPLICATIONS = 1 << 20


def build_kernel(
    group: Group, inlined: set[Op], stores: list[Value], weights: set[Value]
) -> Kernel:
    """The kernel of any group. `weights`: the values that may be packed."""
    builder = KernelBuilder(group, inlined, stores)
    if group.kind == "scan":
        return scan_kernel(builder)
    if group.kind == "scatter":
        return scatter_kernel(builder)
    if group.kind == "attention":
        return attention_kernel(builder)
    reductions = strip_reductions(group)
    if reductions:
        return strip_kernel(builder, reductions)
    turned = turned_operands(group, inlined)
    if turned is not None:
        return transpose_kernel(builder, turned)
    if group.kind != "product":
        return builder.build()
    if is_weight_product(group.ops[0], weights):
        return _weight_product(builder)
    return _dense_product(builder)


def _weight_product(k: KernelBuilder) -> Kernel:
    """Tiles of rows, each a call of the packed GEMM into the result."""
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    m, n = op.result.dims
    (start,) = k.b.open([LoopType("i64")])
    rows = k.b.pure("imin", [k.b.int_op("isub", end, start), k.size(TILE_ROWS)], LoopType("i64"))
    step = k.b.int_op("imul", k.size(n), k.b.index(ITEM_BYTES[op.result.dtype]))
    c = k.b.pure("ptradd", [k.buffer(op.result), k.b.int_op("imul", start, step)], LoopType("ptr"))
    k.gemm_packed(op, start, rows, c)
    k.b.close("tile_for", [begin, end, k.size(TILE_ROWS)], [])
    cost = op.operands[0].dims[-1] * n * 2 // 100 + 10
    turns = tiles_per_slot([op])
    return Kernel(k.group.name, k.b.body, k.arguments, m, TILE_ROWS, cost, k.scratch, turns)


def _column_width(m: Dim, n: Dim, inner: Dim) -> Dim:
    """Columns of one item of a product without a batch: all of them, unless that leaves threads without work.

    A product of few rows is one block of rows: [16, 1024] x [1024, 1024] in f64 takes one thread 0.8 ms.
    """
    blocks = Dim.call("max", _blocks(m, as_dim(DENSE_ROWS)), 1)
    pieces = Dim.call("min", as_dim(DENSE_ITEMS) // blocks, n // MIN_COLUMNS)
    pieces = Dim.call("min", pieces, m * n * inner // MIN_MULTIPLICATIONS)
    pieces = Dim.call("max", pieces, 1)
    return Dim.call("max", _blocks(_blocks(n, pieces), as_dim(16)) * 16, 16)


def _blocks(count: Dim, size: Dim) -> Dim:
    return (count + (size - 1)) // size


def _dense_product(k: KernelBuilder) -> Kernel:
    """One matrix of a batch an item; without a batch, a block of rows and columns an item."""
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    a, b, out = operand_view(op, 0), operand_view(op, 1), result_view(op)
    (m, n), inner = out.dims[-2:], a.dims[-1]
    batch = out.dims[:-2]
    blocked = not batch
    width = _column_width(m, n, inner) if blocked else n
    row_blocks, column_blocks = _blocks(m, as_dim(DENSE_ROWS)), _blocks(n, width)
    (item,) = k.b.open([LoopType("i64")])
    zero = k.b.index(0)
    row, column, rows, columns = zero, zero, k.size(m), k.size(n)
    matrix = k.math.constant(0)
    if blocked:
        row, rows, column, columns = _block(k, item, (m, n), width, column_blocks)
    else:
        matrix = Coordinate(item)
    dtype = a.base.dtype
    left = address(k, a, matrix, row, zero)
    right = address(k, b, matrix, zero, column)
    to = address(k, out, matrix, row, column)
    (ta, lda), (tb, ldb) = leading(a), leading(b)
    k.b.effect(
        "gemm_dense",
        [rows, columns, k.size(inner), left, k.size(lda), right, k.size(ldb), to, k.size(out.strides[-2])],
        dtype=dtype, transpose_a=ta, transpose_b=tb,
    )  # fmt: skip
    k.b.close("for", [begin, end], [], step=1)
    if blocked:
        count = row_blocks * column_blocks
        cost = (inner * width * 2 // 80 + 10) * DENSE_ROWS
    else:
        count, cost = product(batch), (inner * n * 2 // 80 + 10) * m
    return Kernel(k.group.name, k.b.body, k.arguments, count, as_dim(1), cost, k.scratch)


def _block(
    k: KernelBuilder, item: Value, sizes: tuple[Dim, Dim], width: Dim, column_blocks: Dim
) -> tuple[Value, Value, Value, Value]:
    """An item's first row and its rows, its first column and its columns."""
    m, n = sizes
    blocks = k.size(column_blocks)

    def part(index: Value, step: Dim, size: Dim) -> tuple[Value, Value]:
        start = k.b.int_op("imul", index, k.size(step))
        left = k.b.int_op("isub", k.size(size), start)
        return start, k.b.pure("imin", [left, k.size(step)], LoopType("i64"))

    row, rows = part(k.b.int_op("idiv", item, blocks), as_dim(DENSE_ROWS), m)
    column, columns = part(k.b.int_op("imod", item, blocks), width, n)
    return row, rows, column, columns
