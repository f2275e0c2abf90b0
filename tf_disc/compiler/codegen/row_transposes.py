"""Blocks of rows turned so that a lane is a row, and back: two LLVM functions an element size.

The buffer holds a vector for each column, one after the other: lane r is row r's element. A tile of as many
rows as a vector has lanes and of 4 columns is turned in registers: its rows are loaded, put side by side until four
vectors are full, and exchanged in two steps. Wider tiles take fewer instructions an element (16: 0.35 cycles, 4: 0.45)
but much longer to compile (0.6 s, all sizes together).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tf_disc.compiler.codegen.vectors import opaque

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
I8 = ir.IntType(8)
PTR = ir.PointerType()

#: As many lanes as a vector has at most.
MOST_LANES = 16
#: A cache line.
LINE_BYTES = 64
#: Columns of a tile.
TILE = 4

#: memory, elements from row to row, rows that exist (1 to the lanes), columns, buffer.
_TYPE = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, I64, PTR])


def rows_to_lanes(module: ir.Module, item_bytes: int, width: int) -> ir.Function:
    """The function that fills a buffer from rows in memory. Lanes without a row get the last row's elements."""
    return _function(module, f"rows_to_lanes_{item_bytes}", item_bytes, width, _Turn.read_block)


def rows_to_lanes_ahead(module: ir.Module, item_bytes: int, width: int) -> ir.Function:
    """The same; what follows in each row, as far as was read, is asked for in advance.

    Rows that lie apart are more streams than a CPU foresees (a transpose of 25 MB: 2.8 ms on one core, else 3.7).
    """
    return _function(
        module, f"rows_to_lanes_ahead_{item_bytes}", item_bytes, width, _Turn.read_ahead
    )


def lanes_to_rows(module: ir.Module, item_bytes: int, width: int) -> ir.Function:
    """The function that writes a buffer to rows in memory, those that exist."""
    return _function(module, f"lanes_to_rows_{item_bytes}", item_bytes, width, _Turn.write_block)


def _function(
    module: ir.Module, name: str, item_bytes: int, width: int,
    tile: Callable[[_Turn, ir.Value, ir.Value | None], None],
) -> ir.Function:  # fmt: skip
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, _TYPE, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Turn(function, item_bytes, width).emit(tile)
    return function


class _Turn:
    """The body of one of the functions."""

    def __init__(self, function: ir.Function, item_bytes: int, width: int) -> None:
        self.function = function
        self.width = width
        self.item_bytes = item_bytes
        self.item = ir.IntType(8 * item_bytes)
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        memory, stride, rows, self.columns, self.buffer = function.args
        step = self.b.mul(stride, ir.Constant(I64, item_bytes))
        self.block = self.b.mul(stride, ir.Constant(I64, width))
        self.long = self.b.icmp_signed(">=", step, ir.Constant(I64, LINE_BYTES))
        # Lanes without a row read, and first of all write, the last row.
        last = self.b.sub(rows, ir.Constant(I64, 1))
        self.rows: list[ir.Value] = [memory]
        for r in range(1, width):
            number = ir.Constant(I64, r)
            row = self.b.select(self.b.icmp_signed("<", number, last), number, last)
            self.rows.append(self.b.gep(memory, [self.b.mul(row, step)], source_etype=I8))

    def emit(self, tile: Callable[[_Turn, ir.Value, ir.Value | None], None]) -> None:
        """Full tiles, then the columns that are left."""
        b = self.b
        entry = b.block
        names = ("head", "body", "rest", "some", "done")
        head, body, rest, some, done = (self.function.append_basic_block(n) for n in names)
        b.branch(head)
        b.position_at_end(head)
        column = b.phi(I64)
        column.add_incoming(ir.Constant(I64, 0), entry)
        left = b.sub(self.columns, column)
        b.cbranch(b.icmp_signed(">=", left, ir.Constant(I64, TILE)), body, rest)
        b.position_at_end(body)
        tile(self, column, None)
        column.add_incoming(b.add(column, ir.Constant(I64, TILE)), b.block)
        b.branch(head)
        b.position_at_end(rest)
        b.cbranch(b.icmp_signed(">", left, ir.Constant(I64, 0)), some, done)
        b.position_at_end(some)
        tile(self, column, left)
        b.branch(done)
        b.position_at_end(done)
        b.ret_void()

    def read_ahead(self, column: ir.Value, left: ir.Value | None) -> None:
        """`read`, and a request for what follows the columns in each row."""
        self._ask(column, self.columns, ir.Constant(I1, 1))
        self.read(column, left)

    def read_block(self, column: ir.Value, left: ir.Value | None) -> None:
        """`read`, and a request for the next rows, where they are lines apart."""
        self._ask(column, self.block, self.long)
        self.read(column, left)

    def write_block(self, column: ir.Value, left: ir.Value | None) -> None:
        """`write`, and a request for where the next rows go."""
        self._ask(column, self.block, self.long)
        self.write(column, left)

    def _ask(self, column: ir.Value, offset: ir.Value, wanted: ir.Value) -> None:
        """Asks for memory `offset` elements on, a line of each row, where a line of columns begins."""
        b = self.b
        ask, on = (self.function.append_basic_block(n) for n in ("ask", "asked"))
        place = b.mul(column, ir.Constant(I64, self.item_bytes))
        rest = b.and_(place, ir.Constant(I64, LINE_BYTES - 1))
        begins = b.icmp_unsigned("==", rest, ir.Constant(I64, 0))
        b.cbranch(b.and_(begins, wanted), ask, on)
        b.position_at_end(ask)
        prefetch = self._declare("llvm.prefetch.p0", ir.VoidType(), [PTR, I32, I32, I32])
        to_read, all_caches, data = (ir.Constant(I32, v) for v in (0, 3, 1))
        for row in self.rows:
            b.call(prefetch, [self._at(row, b.add(column, offset)), to_read, all_caches, data])
        b.branch(on)
        b.position_at_end(on)

    def read(self, column: ir.Value, left: ir.Value | None) -> None:
        """A tile of memory into the buffer; `left`: how many of its columns exist, if not all."""
        mask = None if left is None else self._mask(left)
        rows = [self._load(self._at(row, column), mask) for row in self.rows]
        vectors = [self._joined(rows[i::TILE]) for i in range(TILE)]
        for k, vector in enumerate(self._exchanged(vectors)):
            self.b.store(vector, self._buffer(column, k), align=self.item_bytes)

    def write(self, column: ir.Value, left: ir.Value | None) -> None:
        """A tile of the buffer into memory, `left` of its columns."""
        mask = None if left is None else self._mask(left)
        type_ = ir.VectorType(self.item, self.width)
        columns = [
            self.b.load(self._buffer(column, k), align=self.item_bytes, typ=type_)
            for k in range(TILE)
        ]
        vectors = self._exchanged(columns)
        for r in reversed(range(self.width)):
            lanes = [r // TILE * TILE + i for i in range(TILE)]
            row = self._shuffled(vectors[r % TILE], vectors[r % TILE], lanes)
            self._store(row, self._at(self.rows[r], column), mask)

    # -- pieces --------------------------------------------------------------------------
    def _at(self, row: ir.Value, column: ir.Value) -> ir.Value:
        return self.b.gep(row, [column], source_etype=self.item)

    def _buffer(self, column: ir.Value, k: int) -> ir.Value:
        place = self.b.mul(self.b.add(column, ir.Constant(I64, k)), ir.Constant(I64, self.width))
        return self.b.gep(self.buffer, [place], source_etype=self.item)

    def _mask(self, left: ir.Value) -> ir.Value:
        count = self.b.trunc(left, I32)
        if self.item_bytes < 4:
            count = opaque(self.b, count)
        lanes = ir.Constant(ir.VectorType(I32, TILE), list(range(TILE)))
        one = self.b.insert_element(
            ir.Constant(lanes.type, ir.Undefined), count, ir.Constant(I32, 0)
        )
        every = self._shuffled(one, one, [0] * TILE)
        return self.b.icmp_unsigned("<", lanes, every)

    def _load(self, at: ir.Value, mask: ir.Value | None) -> ir.Value:
        type_ = ir.VectorType(self.item, TILE)
        if mask is None:
            return self.b.load(at, align=self.item_bytes, typ=type_)
        name = f"llvm.masked.load.v{TILE}{self.item}.p0"
        function = self._declare(name, type_, [PTR, I32, mask.type, type_])
        align = ir.Constant(I32, self.item_bytes)
        return self.b.call(function, [at, align, mask, ir.Constant(type_, None)])

    def _store(self, value: ir.Value, at: ir.Value, mask: ir.Value | None) -> None:
        if mask is None:
            self.b.store(value, at, align=self.item_bytes)
            return
        name = f"llvm.masked.store.v{TILE}{self.item}.p0"
        types = [value.type, PTR, I32, mask.type]
        function = self._declare(name, ir.VoidType(), types)
        self.b.call(function, [value, at, ir.Constant(I32, self.item_bytes), mask])

    def _declare(self, name: str, result: ir.Type, types: list[ir.Type]) -> ir.Function:
        found = self.b.module.globals.get(name)
        if found is not None:
            return found
        return ir.Function(self.b.module, ir.FunctionType(result, types), name)

    def _shuffled(self, a: ir.Value, b: ir.Value, lanes: list[int]) -> ir.Value:
        indices = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
        return self.b.shuffle_vector(a, b, indices)

    def _joined(self, parts: list[ir.Value]) -> ir.Value:
        while len(parts) > 1:
            size = 2 * parts[0].type.count
            parts = [
                self._shuffled(a, b, list(range(size)))
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _exchanged(self, vectors: Sequence[ir.Value]) -> list[ir.Value]:
        """Lane l of vector k and lane k of vector l change places, within each run of len(vectors) lanes."""
        vectors = list(vectors)
        width, step = self.width, len(vectors) // 2
        while step:
            low = [i if not i & step else width + i - step for i in range(width)]
            high = [i + step if not i & step else width + i for i in range(width)]
            for k in range(len(vectors)):
                if not k & step:
                    a, b = vectors[k], vectors[k + step]
                    vectors[k] = self._shuffled(a, b, low)
                    vectors[k + step] = self._shuffled(a, b, high)
            step //= 2
        return vectors
