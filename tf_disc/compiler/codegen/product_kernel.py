"""Kernels of products that are no tile of a loop group: row tiles by a weight, and batches of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_disc.compiler.codegen.attention_kernel import attention_kernel
from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.kernel import (
    MIN_SHARE_ROWS,
    SLOTS,
    Kernel,
    KernelBuilder,
    tiles_per_slot,
)
from tf_disc.compiler.codegen.matrices import address, leading, operand_view, result_view
from tf_disc.compiler.codegen.scan_kernel import scan_kernel
from tf_disc.compiler.codegen.scatter_kernel import scatter_kernel
from tf_disc.compiler.codegen.strip_kernel import strip_kernel, strip_reductions
from tf_disc.compiler.codegen.transpose_kernel import transpose_kernel, turned_operands
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product, rounded_up
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
#: Columns of a panel of a packed weight.
PANEL_COLUMNS = 64
#: Pieces of the columns for each thread that has no rows of its own: the others take over when one is late.
COLUMN_TURNS = 4
#: What a thread computes where numbers are in cache, by the type of what it multiplies.
FLOPS_PER_NS = {"f32": 100, "bf16": 200}
#: What a thread reads of a weight that lies in memory.
READ_BYTES_PER_NS = 12


def build_kernel(
    group: Group,
    inlined: set[Op],
    stores: list[Value],
    weights: set[Value],
    prologues: Mapping[Op, Group] | None = None,
) -> Kernel:
    """The kernel of any group. `weights`: the values that may be packed."""
    builder = KernelBuilder(group, inlined, stores, prologues)
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
    """Blocks of rows and columns, each a call of the packed GEMM into the result.

    Rows are cut first, as long as each thread gets MIN_SHARE_ROWS of them; then columns, in whole panels.
    """
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    m, n = op.result.dims
    inner = op.operands[0].dims[-1]
    turns = SLOTS * tiles_per_slot([op])
    shares = Dim.call("min", turns, m // MIN_SHARE_ROWS)
    shares = Dim.call("max", Dim.call("max", divided_up(m, DENSE_ROWS), shares), 1)
    height = Dim.call("max", rounded_up(divided_up(m, shares), 2), 2)
    row_blocks = divided_up(m, height)
    lacking = (divided_up(SLOTS, Dim.call("max", row_blocks, 1)) - 1) * COLUMN_TURNS
    panels = divided_up(n, PANEL_COLUMNS)
    pieces = Dim.call("max", Dim.call("min", lacking, panels), 1)
    if op.attrs.get("whole_columns"):
        pieces = as_dim(1)
    width = divided_up(panels, pieces) * PANEL_COLUMNS
    column_blocks = divided_up(n, width)
    (item,) = k.b.open([LoopType("i64")])
    row, rows, column, columns = _block(k, item, (m, n), (height, width), column_blocks)
    last = k.b.int_op("iadd", column, columns)
    at = k.b.int_op("iadd", k.b.int_op("imul", row, k.size(n)), column)
    offset = k.b.int_op("imul", at, k.b.index(ITEM_BYTES[op.result.dtype]))
    c = k.b.pure("ptradd", [k.buffer(op.result), offset], LoopType("ptr"))
    k.gemm_packed(op, row, rows, c, (column, last))
    k.b.close("for", [begin, end], [], step=1)
    # Arithmetic, or reading the weight.
    reading = inner * width * ITEM_BYTES[op.operands[0].dtype] // READ_BYTES_PER_NS
    rate = FLOPS_PER_NS[op.operands[0].dtype]
    cost = Dim.call("max", height * inner * width * 2 // rate, reading) + 100
    count = row_blocks * column_blocks
    return Kernel(k.group.name, k.b.body, k.arguments, count, as_dim(1), cost, k.scratch)


def split_kernels(
    tiled: Kernel, group: Group, inlined: set[Op], stores: list[Value], weights: set[Value]
) -> list[Kernel]:
    """A loop group with tiles as it runs with few rows, too: its products first, cut by columns, then the loop."""
    rows = group.rows
    assert rows is not None
    parts = [
        *(
            build_kernel(Group("product", [op]), inlined, [op.result], weights)
            for op in group.tiles
        ),
        build_kernel(replace(group, tiles=[]), inlined, stores, weights),
    ]
    return [
        replace(tiled, rows=rows, few=False),
        *(replace(part, rows=rows, few=True) for part in parts),
    ]


def _column_width(m: Dim, n: Dim, inner: Dim) -> Dim:
    """Columns of one item of a product without a batch: all of them, unless that leaves threads without work.

    A product of few rows is one block of rows: [16, 1024] x [1024, 1024] in f64 takes one thread 0.8 ms.
    """
    blocks = Dim.call("max", divided_up(m, DENSE_ROWS), 1)
    pieces = Dim.call("min", as_dim(DENSE_ITEMS) // blocks, n // MIN_COLUMNS)
    pieces = Dim.call("min", pieces, m * n * inner // MIN_MULTIPLICATIONS)
    pieces = Dim.call("max", pieces, 1)
    return Dim.call("max", rounded_up(divided_up(n, pieces), 16), 16)


def _dense_product(k: KernelBuilder) -> Kernel:
    """One matrix of a batch an item; without a batch, a block of rows and columns an item."""
    (op,) = k.group.ops
    begin, end = k.b.task_arguments()
    a, b, out = operand_view(op, 0), operand_view(op, 1), result_view(op)
    (m, n), inner = out.dims[-2:], a.dims[-1]
    batch = out.dims[:-2]
    blocked = not batch
    width = _column_width(m, n, inner) if blocked else n
    row_blocks, column_blocks = divided_up(m, DENSE_ROWS), divided_up(n, width)
    (item,) = k.b.open([LoopType("i64")])
    zero = k.b.index(0)
    row, column, rows, columns = zero, zero, k.size(m), k.size(n)
    matrix = k.math.constant(0)
    if blocked:
        steps = as_dim(DENSE_ROWS), width
        row, rows, column, columns = _block(k, item, (m, n), steps, column_blocks)
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
    k: KernelBuilder,
    item: Value,
    sizes: tuple[Dim, Dim],
    steps: tuple[Dim, Dim],
    column_blocks: Dim,
) -> tuple[Value, Value, Value, Value]:
    """An item's first row and its rows, its first column and its columns."""
    m, n = sizes
    blocks = k.size(column_blocks)

    def part(index: Value, step: Dim, size: Dim) -> tuple[Value, Value]:
        start = k.b.int_op("imul", index, k.size(step))
        left = k.b.int_op("isub", k.size(size), start)
        return start, k.b.pure("imin", [left, k.size(step)], LoopType("i64"))

    row, rows = part(k.b.int_op("idiv", item, blocks), steps[0], m)
    column, columns = part(k.b.int_op("imod", item, blocks), steps[1], n)
    return row, rows, column, columns
