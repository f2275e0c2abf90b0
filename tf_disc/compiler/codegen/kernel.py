"""From a fusion group to loop IR: what one task computes.

A loop group with reductions runs in phases, one loop over the columns each: phase p computes the
reductions whose operands need the results of p reductions before. What a later phase needs again is
computed again when that is cheap and kept in a row buffer when it is not. How a value is read where it
is needed is evaluation.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tf_disc.compiler.codegen.coordinates import Coordinate
from tf_disc.compiler.codegen.costs import (
    HREDUCE_NS,
    LANE_OPS_PER_NS,
    inlined_cost,
    is_worth_keeping,
    own_cost,
    reduction_step,
)
from tf_disc.compiler.codegen.evaluation import (
    COMBINE,
    SHORT_ROW,
    Argument,
    Evaluator,
    MatrixRow,
)
from tf_disc.compiler.codegen.row_transposes import LINE_BYTES, MOST_LANES
from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product
from tf_disc.compiler.ir.graph import Block, Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES, LoopType
from tf_disc.compiler.passes.views import (
    FULL,
    INDEX_MAPS,
    ROW,
    collapsed,
    splits,
    strided_view,
    trailing_reduction,
)

#: Elements of a flat group that make one item of its parallel loop.
FLAT_ITEM = 1024
#: The same where each element is a sum down a column: one cache line of f32, so that few columns are work for
#: several threads, too.
COLUMN_ITEM = 16

#: Values of at least so many bytes are written past the caches. Measured on 2 cores with 32 MB of L3: a copy of 50 MB
#: runs at 36 GB/s with plain stores and at 54 past the caches, one of 12 MB at 86 and 52.
PAST_CACHES = 24 << 20

#: A weight up to this size stays in L2 from one tile to the next.
SMALL_WEIGHT_BYTES = 1 << 20


def tiles_per_slot(products: Sequence[Op]) -> int:
    """Into how many tiles at least a thread's rows are cut.

    Two let the other thread take over when the system takes a core away for a moment. A large weight streams
    through the cache once a tile, which two tiles would do twice (bert_base 1x128: 114 ms with one, 119 with two).
    """
    for op in products:
        weight = op.operands[1].tensor.num_bytes.value
        if weight is None or weight > SMALL_WEIGHT_BYTES:
            return 1
    return 2


#: Rows of at least so many bytes are cut where a line begins.
LONG_ROW_BYTES = 512

#: Known runs of fewer rows are not worth a loop of their own.
LEAST_RUN = 4

#: Stands for the rows of a tile, which the host chooses for each call.
TILE_ROWS = Dim.symbol("tile_rows")
#: Stands for the threads that a call may use.
SLOTS = Dim.symbol("slots")

#: Rows that a thread must have for a product to be cut by rows alone: with fewer it waits for the weight, of which
#: it then reads its own columns only.
MIN_SHARE_ROWS = 16


def few_rows() -> Dim:
    """Products of fewer rows are cut by columns, and what follows them waits for the whole rows."""
    return SLOTS * MIN_SHARE_ROWS


@dataclass
class Kernel:
    """The code of one group and what the host passes to it.

    `count` items in ranges of multiples of `grain`; `scratch_bytes` for each slot; item_cost in ns. It runs in calls
    with `few` rows alone where that is True, in the others alone where it is False: `rows` says how many there are.
    """

    name: str
    body: Block
    arguments: list[Argument]
    count: Dim
    grain: Dim
    item_cost: Dim
    scratch_bytes: Dim
    tiles_per_slot: int = 1
    rows: Dim | None = None
    few: bool | None = None


class KernelBuilder(Evaluator):
    """Builds the kernel of one group."""

    # -- phases --------------------------------------------------------------------------
    def _depths(self) -> dict[Value, int]:
        """For each member: how many reductions must have ended before it can be computed."""
        depth: dict[Value, int] = {}

        def of(value: Value) -> int:
            if value in depth:
                return depth[value]
            op = value.op
            if op is None or (value not in self.members and op.name not in INDEX_MAPS):
                return 0
            below = max((of(v) for v in op.operands), default=0)
            if value in self.members:
                depth[value] = below + (1 if trailing_reduction(op) else 0)
                return depth[value]
            return below

        for op in self.group.ops:
            of(op.result)
        return depth

    def _choose_kept(self, depth: dict[Value, int]) -> list[Value]:
        """The FULL members that later phases load from a row buffer instead of computing them again."""
        needed: dict[Value, int] = {}
        cost: dict[Value, int] = {}

        def note(value: Value, phase: int) -> None:
            while value.op is not None and value.op.name in ("reshape", "broadcast"):
                value = value.op.operands[0]
            if value in self.members and self.group.levels[value] == FULL:
                needed[value] = max(needed.get(value, 0), phase)

        for op in self.group.ops:
            # A reduction is never computed again.
            own = own_cost(op, unknown=50)
            cost[op.result] = own + sum(self._operand_cost(v, cost) for v in op.operands)
        kept: list[Value] = []
        # Readers come first, so that the last value of a chain is kept and what it was made of is not.
        for op in reversed(self.group.ops):
            value = op.result
            if trailing_reduction(op):
                note(op.operands[0], depth[value] - 1)
                continue
            if self.group.levels[value] != FULL:
                continue
            if value in self.stores:
                needed.setdefault(value, depth[value])
            last = needed.get(value, depth[value])
            row_bytes = self.columns * ITEM_BYTES[value.dtype]
            if last > depth[value] and is_worth_keeping(cost[value], row_bytes):
                kept.append(value)
                last = depth[value]
            for operand in op.operands:
                note(operand, last)
        return kept[::-1]

    def _operand_cost(self, value: Value, cost: dict[Value, int]) -> int:
        while value.op is not None and value.op.name in ("reshape", "broadcast"):
            value = value.op.operands[0]
        if value in cost:
            return cost[value]
        return 2 if value.op is not None and value.op.name == "gather" else 1

    # -- kernels of each kind ----------------------------------------------------------------
    def build(self) -> Kernel:
        """The kernel of a loop group or a concat."""
        begin, end = self.b.task_arguments()
        if self.group.kind == "concat":
            self._concat(begin, end)
            count, grain = self.rows, as_dim(1)
        elif self.group.flat:
            self._flat(begin, end)
            item = self._flat_item()
            count, grain = divided_up(self.columns, item), as_dim(1)
        elif self.group.tiles:
            self._tiled(begin, end)
            count, grain = self.rows, TILE_ROWS
        else:
            self._rows(begin, end)
            count, grain = self.rows, as_dim(1)
        if self.past_caches:
            self.b.effect("fence", [])
        return Kernel(
            self.group.name,
            self.b.body,
            self.arguments,
            count,
            grain,
            self.item_cost(),
            self.scratch,
            tiles_per_slot(self.group.tiles),
        )

    def _column_reductions(self) -> list[Op]:
        """The members that reduce earlier axes."""
        return [
            op
            for op in self.group.ops
            if op.name.startswith("reduce_") and not trailing_reduction(op)
        ]

    def _flat_item(self) -> int:
        """Elements of a flat group's item."""
        return COLUMN_ITEM if self._column_reductions() else FLAT_ITEM

    def item_cost(self) -> Dim:
        """Estimated ns of an item, from instruction counts."""
        instructions, row_ns = 2, 10
        for op in self.group.ops:
            if self.group.levels.get(op.result) == ROW and not op.name.startswith("reduce_"):
                row_ns += own_cost(op) // 4
                continue
            instructions += own_cost(op)
            row_ns += HREDUCE_NS if trailing_reduction(op) else 0
            if trailing_reduction(op) or not op.name.startswith("reduce_"):
                instructions += inlined_cost(op.operands, self.inlined)
        columns = as_dim(self._flat_item()) if self.group.flat else self.columns
        # In lanes, an element is turned in some 0.7 ns, and a row joins nothing.
        once = Dim.call("min", columns, row_ns) if self._may_be_short() else as_dim(row_ns)
        cost = columns * instructions // LANE_OPS_PER_NS + once
        for op in self._column_reductions():
            (operand,) = op.operands
            step = reduction_step(op, self.inlined)
            depth = product(operand.dims[a] for a in op.attrs["axes"])
            cost = cost + columns * depth * step // LANE_OPS_PER_NS
        for op in self.group.tiles:
            k = op.operands[0].dims[-1]
            cost = cost + k * self.columns * 2 // 100
        for op, before in self.prologues.items():
            work = 2 + sum(own_cost(inner) for inner in before.ops)
            cost = cost + op.operands[0].dims[-1] * work // LANE_OPS_PER_NS
        return cost

    def _row_loop(self, low: Value, high: Value, body: Callable[[], None]) -> None:
        (row,) = self.b.open([LoopType("i64")])
        self.row = Coordinate(row)
        body()
        self.b.close("for", [low, high], [], step=1)

    def prepare_phases(self) -> tuple[dict[Value, int], list[Value]]:
        """Each member's phase, and the values with a row buffer, which they are given."""
        depth = self._depths()
        kept = self._choose_kept(depth)
        places = self.columns + (MOST_LANES * SHORT_ROW if self._may_be_short() else 0)
        for value in kept:
            self.kept[value] = self.task_buffer(places * ITEM_BYTES[value.dtype])
        return depth, kept

    def _may_be_short(self) -> bool:
        """True where rows are reduced that can be short, which then go into lanes."""
        if self.group.tiles or not any(trailing_reduction(op) for op in self.group.ops):
            return False
        return self.columns.value is None or self.columns.value <= SHORT_ROW

    def _rows(self, begin: Value, end: Value) -> None:
        depth, kept = self.prepare_phases()
        middle = begin
        if self._may_be_short():
            if self.columns.value is None:
                # Rows before `middle` go into lanes: all of them or none.
                short = self.b.pure(
                    "le", [self.size(self.columns), self.b.index(SHORT_ROW)], LoopType("bool")
                )
                middle = self.b.pure("select", [short, end, begin], LoopType("i64"))
            else:
                middle = end
            self._rows_in_lanes(begin, middle, depth, kept)
        if middle is not end:
            self._row_runs(middle, end, lambda: self.phases(depth, kept))

    def _row_runs(self, low: Value, high: Value, body: Callable[[], None]) -> None:
        """A loop over rows; where operands lie in another order, over the innermost of the rows' axes within the others.

        What is divided out of a row's number then stands outside of the inner loop (a transpose 0213 of rows of 64,
        50 MB: from 43 to 58 GB/s).
        """
        height = self._innermost_rows()
        if height is None:
            self._row_loop(low, high, body)
            return
        size = self.size(height)
        first = self.b.int_op("idiv", low, size)
        past = self.b.int_op("iadd", high, self.b.int_op("isub", size, self.b.index(1)))
        (matrix,) = self.b.open([LoopType("i64")])
        begin = self.b.int_op("imul", matrix, size)
        from_row = self.b.pure("max", [low, begin], LoopType("i64"))
        to_row = self.b.pure("imin", [high, self.b.int_op("iadd", begin, size)], LoopType("i64"))

        def in_run() -> None:
            assert self.row is not None and self.row.base is not None
            within = Coordinate(self.b.int_op("isub", self.row.base, begin))
            self.matrix_row = MatrixRow(Coordinate(matrix), within, height)
            body()
            self.matrix_row = None

        self._row_loop(from_row, to_row, in_run)
        self.b.close("for", [first, self.b.int_op("idiv", past, size)], [], step=1)

    def _innermost_rows(self) -> Dim | None:
        """The shortest run of rows in which every operand's rows lie at equal steps; None where all rows do."""
        found: Dim | None = None
        for dims in self._row_axes():
            if len(dims) < 2 or (dims[-1].value or LEAST_RUN) < LEAST_RUN:
                continue
            if found is None or found % dims[-1] == 0:
                found = dims[-1]
        return found

    def _row_axes(self) -> Iterator[Sequence[Dim]]:
        """The axes that the rows' number is divided into, for what each op reads."""
        for op in self._column_reductions():
            # What a window sees is found from each of the rows' axes.
            cut = splits(op.result.dims, self.rows)
            if cut is not None:
                yield [d for d in op.result.dims[:cut] if not d.is_one]
        for operand in (v for op in self.group.ops for v in op.operands):
            view, cut = strided_view(operand), splits(operand.dims, self.rows)
            if view is not None and cut is not None and self._loadable(view.base):
                yield collapsed(view.dims[:cut], view.strides[:cut])[0]

    def _rows_in_lanes(
        self, begin: Value, end: Value, depth: dict[Value, int], kept: list[Value]
    ) -> None:
        """A lane is a row; one after the other, the columns are joined without looking at other lanes."""
        (row,) = self.b.open([LoopType("i64")])
        self.b.lane_depth = len(self.b.scopes) - 1
        self.row, self.lanes_end = Coordinate(row, 1), end
        self.turned_ready = set()
        self.phases(depth, kept)
        for value in self.stores:
            if self.group.levels[value] == FULL:
                self.turn("lanes_to_rows", value)
        self.lanes_end = self.b.lane_depth = None
        self.b.close("vfor", [begin, end], [], combine=())

    def _tiled(self, begin: Value, end: Value) -> None:
        depth, kept = self.prepare_phases()
        tile = self.size(TILE_ROWS)
        self.tile_pointers = [
            self.task_buffer(TILE_ROWS * self.columns * ITEM_BYTES[op.result.dtype])
            for op in self.group.tiles
        ]
        for op in self.prologues:
            operand = op.operands[0]
            num_bytes = TILE_ROWS * operand.dims[-1] * ITEM_BYTES[operand.dtype]
            self.prepared[op] = self.task_buffer(num_bytes)
        (start,) = self.b.open([LoopType("i64")])
        self.tile_start = start
        left = self.b.int_op("isub", end, start)
        rows = self.b.pure("imin", [left, tile], LoopType("i64"))
        last = self.b.int_op("iadd", start, rows)
        for op, pointer in zip(self.group.tiles, self.tile_pointers, strict=True):
            if op in self.prologues:
                self._prepare(op, start, last)
            self.gemm_packed(op, start, rows, pointer)
        self._row_loop(start, last, lambda: self.phases(depth, kept))
        self.b.close("tile_for", [begin, end, tile], [])

    def _prepare(self, op: Op, start: Value, last: Value) -> None:
        """The left operand's rows [start, last), dense in scratch: what a loop of its own would have stored."""
        operand = op.operands[0]
        k = self.size(operand.dims[-1])
        (row,) = self.b.open([LoopType("i64")])
        first = self.b.int_op("imul", self.b.int_op("isub", row, start), k)
        # A window's elements are walked axis by axis: a lane's place in it would have to be divided out.
        sizes = [self.size(d) for d in self._window_axes(operand) or (operand.dims[-1],)]
        axes = [Coordinate(self.b.open([LoopType("i64")])[0]) for _ in sizes[:-1]]
        (n,) = self.b.open([LoopType("i64")])
        column = self.math.join([*axes, Coordinate(n, 1)], sizes)
        assert column.base is not None
        prepared = self.evaluate(operand, (Coordinate(row), column))
        at = self.b.int_op("iadd", first, column.base)
        self.b.effect("store", [self.prepared[op], at, prepared], lanes=True)
        self.b.close("vfor", [self.b.index(0), sizes[-1]], [])
        for size in reversed(sizes[:-1]):
            self.b.close("for", [self.b.index(0), size], [], step=1)
        self.b.close("for", [start, last], [], step=1)

    def _window_axes(self, value: Value) -> tuple[Dim, ...] | None:
        """The axes that a prepared row is made of, where it is what a window sees: its size, and the channels."""
        columns = value.dims[-1]
        while value.op is not None and (value.op in self.inlined or value.op.name == "reshape"):
            value = value.op.operands[0]
        if value.op is None or value.op.name != "window":
            return None
        axes = value.dims[-1 - len(value.op.attrs["size"]) :]
        return axes if product(axes) == columns else None

    def gemm_packed(
        self,
        op: Op,
        start: Value,
        rows: Value,
        c: Value,
        columns: tuple[Value, Value] | None = None,
    ) -> None:
        """Rows [start, start + rows) and `columns` (from, to; else all) of a product by a weight, into c."""
        left = strided_view(op.operands[0])
        assert left is not None
        k, n = op.operands[0].dims[-1], op.result.dims[-1]
        gemm = self._argument(("gemm", op), Argument("gemm", op=op), "i64")
        cut = columns or (self.b.index(0), self.size(n))
        if op in self.prepared:
            operands = [gemm, rows, *cut, self.prepared[op], self.size(k), c, self.size(n)]
            self.b.effect("gemm_packed", operands)
            return
        # Of one row the step to the next says nothing.
        step = k if left.dims[0].is_one else left.strides[0]
        item = self.b.index(ITEM_BYTES[op.operands[0].dtype])
        first = self.b.int_op("imul", start, self.size(step))
        offset = self.b.int_op("imul", self.b.int_op("iadd", first, self.size(left.offset)), item)
        a = self.b.pure("ptradd", [self.buffer(left.base), offset], LoopType("ptr"))
        self.b.effect("gemm_packed", [gemm, rows, *cut, a, self.size(step), c, self.size(n)])

    def _flat(self, begin: Value, end: Value) -> None:
        if self.columns.value == 1:
            # Scalars: a vector under a mask would divide in sixteen lanes to get one quotient.
            self.row = self.column = Coordinate(self.b.index(0))
            for value in self.stores:
                self.store(value)
            return
        item = self.b.index(self._flat_item())
        low = self.b.int_op("imul", begin, item)
        high = self.b.pure(
            "imin", [self.b.int_op("imul", end, item), self.size(self.columns)], LoopType("i64")
        )
        self.row = Coordinate(self.b.index(0))
        (n,) = self.b.open([LoopType("i64")])
        self.column = Coordinate(n, 1)
        for value in self.stores:
            self.store(value)
        self.b.close("vfor", [low, high], [])

    def store(self, value: Value) -> None:
        """Writes a member's element(s) at this place."""
        level = self.group.levels[value]
        if value in self.blocks:
            at = self.place_in_tile()
            assert at.base is not None
            element = self.evaluate(value, level)
            self.b.effect("store", [self.blocks[value], at.base, element], lanes=True)
            return
        at = self.position(level)
        if level == FULL and self.lanes_end is not None:
            assert self.kept_at is not None and self.kept_at.base is not None
            buffer = self.turned_buffer(value)
            stored = self.evaluate(value, level)
            self.b.effect("store", [buffer, self.kept_at.base, stored], lanes=True)
            return
        assert at.base is not None
        pointer, stored = self.buffer(value), self.evaluate(value, level)
        past = self.part_past
        if past is None and not at.uniform and self.whole_lines:
            past = self._past_caches(value)
        if past is None:
            self.b.effect("store", [pointer, at.base, stored], lanes=not at.uniform)
        else:
            self.b.effect(
                "store_past_caches", [pointer, at.base, stored, past], alone=self.lone_vectors
            )

    def _past_caches(self, value: Value, from_lines: bool = False) -> Value | None:
        """bool: whether a full value goes to memory past the caches; None where it never does.

        `from_lines`: the loop begins where a line does, wherever rows begin.

        What is larger than the caches is not found there by its reader, and a line that is written whole need not be
        read first: a third less traffic. Pieces of a line, where rows begin anywhere, were slower than plain stores.
        """
        size, total = ITEM_BYTES[value.dtype], value.tensor.num_bytes
        if self.group.tiles or size < 4 or not self._may_be_large(value):
            return None
        row = self.columns * size
        rows_begin_lines = self.group.flat or from_lines
        if row.value is not None and row.value % LINE_BYTES and not rows_begin_lines:
            return None
        self.past_caches = True
        flag = LoopType("bool")
        large = self.b.pure("le", [self.b.index(PAST_CACHES), self.size(total)], flag)
        whole = self.b.pure("begins_line", [self.buffer(value)], flag)
        if from_lines:
            long = self.b.pure("le", [self.b.index(LONG_ROW_BYTES), self.size(row)], flag)
            whole = self.b.pure("and", [whole, long], flag)
        elif row.value is None and not self.group.flat:
            rest = self.b.int_op("imod", self.size(row), self.b.index(LINE_BYTES))
            rows = self.b.pure("eq", [rest, self.b.index(0)], flag)
            whole = self.b.pure("and", [whole, rows], flag)
        return self.b.pure("and", [large, whole], flag)

    @staticmethod
    def _may_be_large(value: Value) -> bool:
        """False where a value is known to stay in the caches."""
        return (value.tensor.num_bytes.value or PAST_CACHES) >= PAST_CACHES

    def phases(self, depth: dict[Value, int], kept: list[Value]) -> None:
        self.reduced = {}
        self.kept_ready = set()
        full = [op for op in self.group.ops if self.group.levels[op.result] == FULL]
        reductions = [op for op in self.group.ops if trailing_reduction(op)]
        last = max((depth[op.result] for op in self.group.ops), default=0)
        for phase in range(last + 1):
            now = [op for op in reductions if depth[op.result] - 1 == phase]
            keep = [v for v in kept if depth[v] == phase]
            store = [
                op.result for op in full if op.result in self.stores and depth[op.result] == phase
            ]
            if now or keep or store:
                self._phase(now, keep, store)
            self.kept_ready |= set(keep)
        for op in self.group.ops:
            if op.result in self.stores and self.group.levels[op.result] == ROW:
                self.store(op.result)

    def _phase(self, reductions: list[Op], keep: list[Value], store: list[Value]) -> None:
        kinds = [op.name.removeprefix("reduce_") for op in reductions]
        starts = [
            self.identity(kind, op.result.dtype) for kind, op in zip(kinds, reductions, strict=True)
        ]
        types = [LoopType(op.result.dtype, True) for op in reductions]
        end = self.size(self.columns) if self.columns_end is None else self.columns_end
        begin, first_part = self.b.index(0), None
        if self._writes_lines(reductions, store):
            first_part, begin, end = self._open_line_parts(store)
        n, *partial = self.b.open([LoopType("i64"), *types])
        self.column = self.kept_at = Coordinate(n, 1)
        if self.lanes_end is not None:
            self.column = Coordinate(n)
            self.kept_at = Coordinate(self.b.int_op("imul", n, self.width()), 1)
        assert self.kept_at.base is not None
        for value in keep:
            stored = [self.kept[value], self.kept_at.base, self.evaluate(value, FULL)]
            self.b.effect("store", stored, lanes=True)
        results: list[Value] = []
        for kind, op, acc in zip(kinds, reductions, partial, strict=True):
            element = self.evaluate(op.operands[0], FULL)
            results.append(
                self.b.pure(
                    COMBINE[kind], [acc, element], LoopType(op.result.dtype, True), deepest=True
                )
            )
        for value in store:
            self.store(value)
        operands = [begin, end, *starts]
        if self.lanes_end is not None:
            closed = self.b.close("for", operands, results, step=1)
            self.reduced.update(zip((op.result for op in reductions), closed, strict=True))
            return
        closed = self.b.close("vfor", operands, results, combine=tuple(COMBINE[k] for k in kinds))
        for kind, op, lanes in zip(kinds, reductions, closed, strict=True):
            total = self.b.pure(
                "hreduce", [lanes], LoopType(op.result.dtype), deepest=True, combine=COMBINE[kind]
            )
            self.reduced[op.result] = (
                total if self.join_rest is None else self.join_rest(kind, op, total)
            )
        if first_part is not None:
            self.b.close("for", [first_part, self.b.index(2)], [], step=1)
            self.part_past = None

    def _writes_lines(self, reductions: list[Op], store: list[Value]) -> bool:
        """Whether a phase's loop is cut where a cache line begins, so that long rows of any length go past the caches."""
        walks_all = self.lanes_end is None and self.columns_end is None and self.row is not None
        if reductions or not walks_all or self.group.tiles or self.blocks or not self.whole_lines:
            return False
        sizes = {ITEM_BYTES[v.dtype] for v in store}
        if len(sizes) != 1 or min(sizes) < 4 or not all(map(self._may_be_large, store)):
            return False
        (size,) = sizes
        row = self.columns * size
        return row.value is None or (row.value % LINE_BYTES != 0 and row.value >= LONG_ROW_BYTES)

    def _open_line_parts(self, store: list[Value]) -> tuple[Value, Value, Value]:
        """Begins a loop over a row's parts, in front of its first whole line and from there on.

        Gives the number of the first part, and the bounds of a part.

        Where rows do not go past the caches or begin with a line, the second part is all of the row.
        """
        item = ITEM_BYTES[store[0].dtype]
        start, columns = self.position(ROW).base, self.size(self.columns)
        assert start is not None
        line = self.b.index(LINE_BYTES // item)
        into = self.b.int_op("imod", self.b.int_op("imul", start, columns), line)
        past: Value | None = None
        for value in store:
            this = self._past_caches(value, from_lines=True)
            assert this is not None
            past = self.both(past, this)
        assert past is not None
        into = self.b.pure("select", [past, into, self.b.index(0)], LoopType("i64"))
        in_front = self.b.int_op("imod", self.b.int_op("isub", line, into), line)
        none = self.b.pure("eq", [in_front, self.b.index(0)], LoopType("bool"))
        first = self.b.pure("select", [none, self.b.index(1), self.b.index(0)], LoopType("i64"))
        (part,) = self.b.open([LoopType("i64")])
        is_front = self.b.pure("eq", [part, self.b.index(0)], LoopType("bool"))
        no = self.b.pure("iconst", [], LoopType("bool"), value=0)
        # The front can be longer than a vector of less than a line.
        self.part_past = self.b.pure("select", [is_front, no, past], LoopType("bool"))
        end = self.b.pure("select", [is_front, in_front, columns], LoopType("i64"))
        return first, self.b.int_op("imul", part, in_front), end

    def _concat(self, begin: Value, end: Value) -> None:
        (op,) = self.group.ops
        axis, out = op.attrs["axis"], op.result
        self.rows = product(out.dims[:axis])
        width = product(out.dims[axis:])
        pointer = self.buffer(out)
        self.columns = width

        def body() -> None:
            assert self.row is not None and self.row.base is not None
            offset = as_dim(0)
            start = self.b.int_op("imul", self.row.base, self.size(width))
            for operand in op.operands:
                self.columns = product(operand.dims[axis:])
                (n,) = self.b.open([LoopType("i64")])
                self.column = Coordinate(n, 1)
                at = self.b.int_op("iadd", self.b.int_op("iadd", start, self.size(offset)), n)
                self.b.effect("store", [pointer, at, self.evaluate(operand, FULL)], lanes=True)
                self.b.close("vfor", [self.b.index(0), self.size(self.columns)], [])
                offset = offset + self.columns
            self.columns = width

        self._row_loop(begin, end, body)
