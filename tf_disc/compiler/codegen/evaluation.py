"""Evaluates tensor IR values at places inside a kernel, as loop IR.

In a group's own loop a place is CANONICAL: FULL (this row, these columns) or ROW (this row). Anywhere else it is a
list of coordinates. Index maps turn one place into another; values with memory are loaded there; the group's own
values are computed once and reused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tf_disc.compiler.codegen.coordinates import Coordinate, CoordinateMath
from tf_disc.compiler.codegen.loop_builder import LoopBuilder
from tf_disc.compiler.codegen.row_transposes import MOST_LANES
from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.ir.dims import Dim, DimLike, as_dim, product, rounded_up
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import FLOATS, ITEM_BYTES, LoopType
from tf_disc.compiler.passes.groups import Group
from tf_disc.compiler.passes.split_reductions import identity
from tf_disc.compiler.passes.views import (
    FULL,
    INDEX_MAPS,
    ROW,
    PaddedAxis,
    View,
    collapsed,
    padded_axes,
    reshape_groups,
    row_major,
    splits,
    strided_view,
    through_broadcast,
    trailing_reduction,
)

#: Rows up to this many elements have a row a lane where they are reduced: a row a vector would leave most lanes idle
#: and join what is in them for each row.
SHORT_ROW = 48

#: Reductions of earlier axes over at most so many elements have no loop: what belongs to each element of a window then
#: stands outside of the loop over columns.
UNROLLED = 32

#: The scalar function that joins two partial results of a reduction.
COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "all": "and", "any": "or"}


@dataclass(frozen=True)
class Position:
    """A place as a position among all elements, row-major: what a reshape does not change."""

    linear: Coordinate


Place = str | tuple[Coordinate, ...] | Position


@dataclass(frozen=True)
class Argument:
    """One entry of a task's block: a buffer's address, a size, or the number of a packed GEMM."""

    kind: str  # "buffer", "size", "gemm"
    value: Value | None = None
    dim: Dim | None = None
    op: Op | None = None


@dataclass(frozen=True)
class MatrixRow:
    """The loop's row as row `row` of matrix `batch` of a batch of matrices of `height` rows."""

    batch: Coordinate
    row: Coordinate
    height: Dim


def is_unrolled(count: Dim) -> bool:
    """True where the innermost axis of a reduction of earlier axes has no loop."""
    return count.value is not None and 0 < count.value <= UNROLLED


def _is_load(value: Value) -> bool:
    return value.op is not None and value.op.name.startswith("load")


def _is_zero(value: Value) -> bool:
    """True for the constant 0, not -0."""
    op = value.op
    return (
        op is not None
        and op.name in ("iconst", "fconst")
        and str(op.attrs["value"]) in ("0", "0.0")
    )


class Evaluator:
    """What a task's code reads and computes. `stores`: the members that other groups or the caller read."""

    def __init__(
        self,
        group: Group,
        inlined: set[Op],
        stores: list[Value],
        prologues: Mapping[Op, Group] | None = None,
    ) -> None:
        """prologues: for tiles of the group, the loop whose result is computed in front of each."""
        self.group = group
        self.prologues = {
            op: before for op, before in (prologues or {}).items() if op in group.tiles
        }
        self.prepared: dict[Op, Value] = {}  # rows of their left operands, in scratch
        self.inlined = inlined | {op for before in self.prologues.values() for op in before.ops}
        self.stores = stores
        self.b = LoopBuilder()
        self.math = CoordinateMath(self.b)
        self.arguments: list[Argument] = []
        self._argument_index: dict[tuple[object, ...], int] = {}
        loops = group.kind in ("loop", "attention")
        self.members = {op.result for op in group.ops} if loops else set()
        self.tiles = {op.result: i for i, op in enumerate(group.tiles)}
        self.rows = group.rows if group.rows is not None else as_dim(1)
        self.columns = group.columns if group.columns is not None else as_dim(1)
        self.scratch = as_dim(0)
        self.row: Coordinate | None = None
        self.column: Coordinate | None = None
        self.whole_lines = (
            True  # vectors of a loop begin where a cache line does, if its row or item does
        )
        self.lone_vectors = False  # what follows a vector in memory is not written right after it
        self.past_caches = False  # some store goes past the caches
        # Where a loop is cut at a row's first line: whether the part's stores go past the caches.
        self.part_past: Value | None = None
        # Where lanes are rows: the end of the rows, and the buffers in which full operands stand turned.
        self.lanes_end: Value | None = None
        self.turned_views: dict[View, Value] = {}  # the same of a transpose kernel's operands
        self.turned: dict[Value, Value] = {}
        self.turned_ready: set[Value] = set()
        self.kept_at: Coordinate | None = None  # where in its row buffer a kept value is
        self.reduced: dict[Value, Value] = {}
        self.kept: dict[Value, Value] = {}  # row buffers: value -> pointer
        self.kept_ready: set[Value] = set()
        self.tile_pointers: list[Value] = []
        self.blocks: dict[
            Value, Value
        ] = {}  # full values that are stored in a block of rows of their own
        self.tile_start: Value | None = None
        self.matrix_row: MatrixRow | None = None
        # Columns from here on are not walked, and what joins them to a reduction's total.
        self.columns_end: Value | None = None
        self.join_rest: Callable[[str, Op, Value], Value] | None = None
        self.where: Value | None = None  # inside a pad: where its operand is

    # -- the task's block ------------------------------------------------------------
    def _argument(self, key: tuple[object, ...], argument: Argument, dtype: str) -> Value:
        if key not in self._argument_index:
            self._argument_index[key] = len(self.arguments)
            self.arguments.append(argument)
        return self.b.pure("arg", [], LoopType(dtype), index=self._argument_index[key])

    def width(self) -> Value:
        """How many lanes a vector has."""
        return self.b.pure("width", [], LoopType("i64"))

    def buffer(self, value: Value) -> Value:
        """The address of a value's memory."""
        return self._argument(("buffer", value), Argument("buffer", value=value), "ptr")

    def size(self, dim: DimLike) -> Value:
        """A size as a loop value."""
        dim = as_dim(dim)
        if dim.value is not None:
            return self.b.index(dim.value)
        return self._argument(("size", dim), Argument("size", dim=dim), "i64")

    def task_buffer(self, num_bytes: Dim) -> Value:
        """Memory of the task's slot, aligned to a cache line."""
        base = self.b.pure("scratch", [], LoopType("ptr"))
        pointer = self.b.pure("ptradd", [base, self.size(self.scratch)], LoopType("ptr"))
        self.scratch = self.scratch + rounded_up(num_bytes, 64)
        return pointer

    # -- evaluation --------------------------------------------------------------------
    def coordinates(self, place: Place, dims: Sequence[Dim]) -> tuple[Coordinate, ...]:
        """A place as one coordinate an axis of a shape."""
        if isinstance(place, Position):
            return tuple(self.math.split(place.linear, [self.size(d) for d in dims]))
        if not isinstance(place, str):
            return place
        assert self.row is not None
        if place == ROW:
            return tuple(self._split_row(dims))
        cut = splits(tuple(dims), self.rows)
        if cut is None or self.column is None:
            raise InternalError(
                f"shape {[str(d) for d in dims]} has no cut after {self.rows} elements"
            )
        return (
            *self._split_row(dims[:cut]),
            *self.math.split(self.column, [self.size(d) for d in dims[cut:]]),
        )

    def _row_parts(self, dims: Sequence[Dim]) -> list[tuple[Coordinate, int, int]]:
        """The loop's row as numbers that some axes each are cut out of: [first, last) of `dims`, which are the rows.

        A block of rows of one matrix knows the matrix: its axes do not change from row to row.
        """
        assert self.row is not None
        known = self.matrix_row
        if known is not None:
            for cut in range(len(dims) + 1):
                if product(dims[cut:]) == known.height:
                    return [(known.batch, 0, cut), (known.row, cut, len(dims))]
        return [(self.row, 0, len(dims))]

    def _split_row(self, dims: Sequence[Dim]) -> list[Coordinate]:
        """The loop's row as one coordinate an axis."""
        found: list[Coordinate] = []
        for linear, first, last in self._row_parts(dims):
            found += self.math.split(linear, [self.size(d) for d in dims[first:last]])
        return found

    def position(self, place: str) -> Coordinate:
        """A canonical place as a position in a dense array."""
        assert self.row is not None
        if place == ROW:
            return self.row
        assert self.column is not None
        return self.math.add(self.math.mul(self.row, self.size(self.columns)), self.column)

    def evaluate(self, value: Value, place: Place) -> Value:
        """The value's element(s) at a place, as a loop value: lanes where they differ, else a scalar."""
        key = (
            "evaluate",
            value,
            self._key(place),
            id(self.where),
        )
        for scope in reversed(self.b.scopes):
            if key in scope.memo:
                return scope.memo[key]
        result = self._evaluate(value, place)
        self.b.scopes[self.b.depth[result]].memo[key] = result
        if isinstance(place, str) and self.b.depth[result] < len(self.b.scopes) - 1:
            self.b.scopes[-1].memo[key] = result
        return result

    @staticmethod
    def _key(place: Place) -> object:
        if isinstance(place, str):
            return place
        if isinstance(place, Position):
            return ("position", *place.linear.key)
        return tuple(c.key for c in place)

    def _evaluate(self, value: Value, place: Place) -> Value:
        op = value.op
        if value in self.members:
            assert op is not None
            if place != self.group.levels[value]:
                raise InternalError(
                    f"{op.name} of this group is read at another place than its own"
                )
            if value in self.reduced:
                return self.reduced[value]
            if value in self.kept_ready:
                assert self.kept_at is not None
                return self._load(self.kept[value], value.dtype, self.kept_at)
            if trailing_reduction(op):
                raise InternalError(f"{op.name} is read before its phase")
            if op.name.startswith("reduce_"):
                return self._column_reduction(op, place)
            return self._apply(op, place)
        if value in self.tiles:
            if place != FULL:
                raise InternalError("a tile is read at another place than its own")
            pointer = self.tile_pointers[self.tiles[value]]
            return self._load(pointer, value.dtype, self.place_in_tile())
        if op is not None and op in self.inlined:
            if op.name.startswith("reduce_"):
                return self._column_reduction(op, place)
            return self._apply(op, place)
        if op is not None and op.name in ("const", "iota", "sizes", "gather"):
            return self._source(op, place)
        loaded = self._load_view(value, place)
        if loaded is not None:
            return loaded
        assert op is not None
        return self._map(op, place)

    def place_in_tile(self) -> Coordinate:
        """Where this row and column are in a block of rows that begins at `tile_start`."""
        assert self.row is not None and self.tile_start is not None and self.column is not None
        assert self.row.base is not None
        local = self.b.int_op("isub", self.row.base, self.tile_start)
        start = self.b.int_op("imul", local, self.size(self.columns))
        return self.math.add(Coordinate(start), self.column)

    def _apply(self, op: Op, place: Place) -> Value:
        operands = [self.evaluate(v, place) for v in op.operands]
        if op.name == "copy":
            return operands[0]
        lanes = any(self.b.is_lanes(v) for v in operands)
        return self.b.pure(op.name, operands, LoopType(op.result.dtype, lanes))

    def _load(self, pointer: Value, dtype: str, at: Coordinate) -> Value:
        where = [] if self.where is None else [self.where]
        one = at.uniform and not any(self.b.is_lanes(w) for w in where)
        if at.base is not None and one:
            return self.b.pure("load", [pointer, at.base, *where], LoopType(dtype))
        lanes = LoopType(dtype, True)
        if at.base is not None and at.step in (1, -1):
            name = "load" if at.step == 1 else "load_back"
            return self.b.pure(name, [pointer, at.base, *where], lanes, deepest=True)
        if at.base is not None and not at.uniform:
            stride = self.b.index(at.step) if at.stride is None else at.stride
            operands = [pointer, at.base, stride, *where]
            return self.b.pure("load_strided", operands, lanes, deepest=True)
        vector = self.math.vector(at)
        return self.b.pure("load_at", [pointer, vector, *where], lanes, deepest=True)

    def _has_memory(self, value: Value) -> bool:
        return (value.op is None or value.op.name not in INDEX_MAPS) and value not in self.members

    def _loadable(self, base: Value) -> bool:
        """True for what lies in memory while this kernel runs."""
        inlined = base.op is not None and base.op in self.inlined
        return self._has_memory(base) and base not in self.tiles and not inlined

    def _load_view(self, value: Value, place: Place) -> Value | None:
        view = strided_view(value)
        if view is None or not self._loadable(view.base):
            return None
        base = view.base
        if place == FULL and view in self.turned_views:
            assert self.kept_at is not None
            return self._load(self.turned_views[view], base.dtype, self.kept_at)
        pointer = self.buffer(base)
        if isinstance(place, str) and view.contiguous:
            if place == FULL and self.lanes_end is not None:
                return self._load_turned(base)
            return self._load(pointer, value.dtype, self.position(place))
        if isinstance(place, Position):
            if view.contiguous:
                return self._load(pointer, value.dtype, place.linear)
            place = self.coordinates(place, value.dims)
        at = self.math.add(self._in_view(view, place), Coordinate(self.size(view.offset)))
        return self._load(pointer, value.dtype, at)

    def _load_turned(self, base: Value) -> Value:
        """A full operand where lanes are rows: from a buffer that is filled in front of the columns' first loop."""
        assert self.kept_at is not None
        if base not in self.turned_ready:
            self.turned_ready.add(base)
            self.turn("rows_to_lanes", base, depth=self.b.lane_depth)
        return self._load(self.turned_buffer(base), base.dtype, self.kept_at)

    def turn(self, name: str, value: Value, depth: int | None = None) -> None:
        """Moves the rows of the lanes between a value's memory and its buffer, which it is given."""
        assert self.row is not None and self.row.base is not None and self.lanes_end is not None
        columns = self.size(self.columns)
        first = self.b.int_op("imul", self.row.base, columns)
        rows = self.b.int_op("isub", self.lanes_end, self.row.base)
        operands = [self.buffer(value), first, columns, rows, columns, self.turned_buffer(value)]
        self.b.effect(name, operands, depth, dtype=value.dtype)

    def turned_buffer(self, value: Value) -> Value:
        """Where a full value stands turned: a vector of rows for each column."""
        if value not in self.turned:
            places = MOST_LANES * SHORT_ROW
            self.turned[value] = self.task_buffer(as_dim(places * ITEM_BYTES[value.dtype]))
        return self.turned[value]

    def _in_view(self, view: View, place: str | tuple[Coordinate, ...]) -> Coordinate:
        """A place as a position in the view's memory, divided into no more axes than the strides ask for."""
        if not isinstance(place, str):
            strides = [
                self.b.index(0) if d.is_one else self.size(s)
                for d, s in zip(view.dims, view.strides, strict=True)
            ]
            return self.math.linear(place, strides)
        parts = self._row_parts(view.dims)
        if place == FULL:
            cut = splits(view.dims, self.rows)
            if cut is None or self.column is None:
                raise InternalError(f"a view has no cut after {self.rows} elements")
            parts = [*self._row_parts(view.dims[:cut]), (self.column, cut, len(view.dims))]
        total = self.math.constant(0)
        for linear, first, last in parts:
            dims, steps = collapsed(view.dims[first:last], view.strides[first:last])
            spread = self.math.split(linear, [self.size(d) for d in dims])
            total = self.math.add(total, self.math.linear(spread, [self.size(s) for s in steps]))
        return total

    def _map(self, op: Op, place: Place) -> Value:
        """Follows one index map."""
        operand = op.operands[0]
        if op.name == "reshape":
            if isinstance(place, str):
                if place == ROW or splits(operand.dims, self.rows) is not None:
                    return self.evaluate(operand, place)
                place = self.coordinates(place, op.result.dims)
            if isinstance(place, Position):
                return self.evaluate(operand, place)
            groups = reshape_groups(operand.dims, op.result.dims)
            if len(groups) == 1:
                # All axes become others: whether they must be told apart at all is seen where memory is read.
                strides = [self.size(s) for s in row_major(op.result.dims)]
                return self.evaluate(operand, Position(self.math.linear(place, strides)))
            inner: list[Coordinate] = [self.math.constant(0)] * len(operand.dims)
            for old, new in groups:
                sizes = [op.result.dims[a] for a in new]
                strides = [self.size(s) for s in row_major(sizes)]
                linear = self.math.linear([place[a] for a in new], strides)
                parts = self.math.split(linear, [self.size(operand.dims[a]) for a in old])
                for a, part in zip(old, parts, strict=True):
                    inner[a] = part
            return self.evaluate(operand, tuple(inner))
        if op.name == "broadcast" and isinstance(place, str):
            step = through_broadcast(op.result.dims, operand.dims, self.rows)
            if step == FULL:
                return self.evaluate(operand, place)
            if step == ROW and place == FULL:
                return self.evaluate(operand, ROW)
        if op.name == "pad":
            return self._pad(op, place)
        outer = self.coordinates(place, op.result.dims)
        if op.name == "window":
            return self._window(op, outer)
        if op.name == "broadcast":
            pad = len(outer) - len(operand.dims)
            inner = [
                self.math.constant(0) if d.is_one else c
                for d, c in zip(operand.dims, outer[pad:], strict=True)
            ]
        elif op.name == "transpose":
            inner = [self.math.constant(0)] * len(outer)
            for i, p in enumerate(op.attrs["perm"]):
                inner[p] = outer[i]
        elif op.name == "slice":
            inner = [
                self.math.add(Coordinate(self.size(begin)), self.math.mul(c, self.b.index(stride)))
                for c, begin, stride in zip(
                    outer, op.attrs["begin"], op.attrs["strides"], strict=True
                )
            ]
        else:
            raise InternalError(f"{op.name} is not an index map")
        return self.evaluate(operand, tuple(inner))

    def _pad(self, op: Op, place: Place) -> Value:
        """The operand where it lies, read under a mask; else the fill."""
        operand = op.operands[0]
        view = strided_view(operand)
        if place == FULL and view is not None and self._loadable(view.base):
            return self._pad_of_memory(op, view)
        outer = self.coordinates(place, op.result.dims)
        inner: list[Coordinate] = []
        where: Value | None = None
        axes = (op.attrs["begin"], op.attrs["strides"], operand.dims, op.result.dims)
        for c, begin, stride, old, new in zip(outer, *axes, strict=True):
            at, where = self._pad_axis(c, PaddedAxis(begin, stride, old, new, as_dim(0)), where)
            inner.append(at)
        return self._filled(op, where, lambda: self.evaluate(operand, tuple(inner)))

    def _window(self, op: Op, outer: tuple[Coordinate, ...]) -> Value:
        """The operand where it is, read under a mask; else the fill."""
        operand, attrs = op.operands[0], op.attrs
        spatial = len(operand.dims) - 2
        inner: list[Coordinate] = [outer[0]]
        where: Value | None = None
        for axis in range(spatial):
            at = self.math.mul(outer[1 + axis], self.b.index(attrs["strides"][axis]))
            element = outer[1 + spatial + axis]
            at = self.math.add(at, self.math.mul(element, self.b.index(attrs["dilations"][axis])))
            at = self.math.add(at, Coordinate(self.size(-attrs["begin"][axis])))
            if not attrs["inside"]:
                # In front of the operand the number is negative: huge, read without sign, so out of range.
                condition = self.math.in_range(at, self.size(operand.dims[1 + axis]))
                where = self.both(where, condition)
            inner.append(at)
        place = (*inner, outer[-1])
        return self._filled(op, where, lambda: self.evaluate(operand, place))

    def _pad_of_memory(self, op: Op, view: View) -> Value:
        """A pad in the loop's own order: the loop's position is divided into no more axes than are padded."""
        dims = op.result.dims
        cut = splits(dims, self.rows)
        if cut is None or self.row is None or self.column is None:
            raise InternalError(f"a pad has no cut after {self.rows} elements")
        total, where = Coordinate(self.size(view.offset)), None
        for linear, first, last in (*self._row_parts(dims[:cut]), (self.column, cut, len(dims))):
            axes = padded_axes(op, view.strides, first, last)
            for c, axis in zip(
                self.math.split(linear, [self.size(a.new) for a in axes]), axes, strict=True
            ):
                at, where = self._pad_axis(c, axis, where)
                total = self.math.add(total, self.math.mul(at, self.size(axis.step)))
        dtype = op.result.dtype
        return self._filled(op, where, lambda: self._load(self.buffer(view.base), dtype, total))

    def _pad_axis(
        self, c: Coordinate, axis: PaddedAxis, where: Value | None
    ) -> tuple[Coordinate, Value | None]:
        """The operand's coordinate, and where it is one of the operand's, joined with `where`."""
        at = self.math.add(c, Coordinate(self.size(-axis.begin)))
        conditions = []
        if axis.stride != 1:
            # In front of `begin` the difference is negative: huge, read without sign, so out of range.
            at, rest = self.math.divide(at, self.b.index(axis.stride))
            conditions.append(self.math.in_range(rest, self.b.index(1)))
        if axis.old != axis.new or axis.stride != 1:
            conditions.append(self.math.in_range(at, self.size(axis.old)))
        for condition in conditions:
            where = self.both(where, condition)
        return at, where

    def _filled(self, op: Op, where: Value | None, read: Callable[[], Value]) -> Value:
        """What `read` gives under the mask, and the fill elsewhere."""
        if where is None:
            return read()
        outside = self.where
        self.where = self.both(outside, where)
        emptied, self.math.may_be_empty = self.math.may_be_empty, True
        inside = read()
        self.where, self.math.may_be_empty = outside, emptied
        filled = self.evaluate(op.operands[1], ())
        if _is_load(inside) and _is_zero(filled) and outside is None:
            return inside  # a load gives 0 where it is masked
        lanes = any(self.b.is_lanes(v) for v in (where, inside, filled))
        return self.b.pure("select", [where, inside, filled], LoopType(op.result.dtype, lanes))

    def both(self, a: Value | None, b: Value) -> Value:
        """Where both conditions hold; None always does."""
        if a is None:
            return b
        lanes = self.b.is_lanes(a) or self.b.is_lanes(b)
        return self.b.pure("and", [a, b], LoopType("bool", lanes))

    def _source(self, op: Op, place: Place) -> Value:
        """const, iota, sizes and gather: where elements begin."""
        value = op.result
        if op.name == "const":
            values = op.attrs["values"]
            if len(values) == 1:
                return self.constant(values[0], value.dtype)
            coordinates = self.coordinates(place, value.dims)
            at = self.math.linear(coordinates, [self.size(s) for s in row_major(value.dims)])
            return self._load(self.buffer(value), value.dtype, at)
        coordinates = self.coordinates(place, value.dims)
        if op.name == "iota":
            return self._as_number(coordinates[0], value.dtype)
        if op.name == "sizes":
            return self._sizes(op, coordinates)
        params, indices = op.operands
        axis, batch = op.attrs["axis"], op.attrs["batch_dims"]
        span = len(indices.dims) - batch
        index = self.evaluate(indices, coordinates[:batch] + coordinates[axis : axis + span])
        wide = LoopType("i64", self.b.is_lanes(index))
        if index.dtype != "i64":
            index = self.b.pure("cast", [index], wide)
        where = [] if self.where is None else [self.where]
        checked = self.b.pure("check_index", [index, self.size(params.dims[axis]), *where], wide)
        picked = self.math.scalar(checked)
        return self.evaluate(params, (*coordinates[:axis], picked, *coordinates[axis + span :]))

    def constant(self, value: object, dtype: str) -> Value:
        """A number of an element type."""
        name = "fconst" if dtype in FLOATS else "iconst"
        attr = float(value) if name == "fconst" else int(value)  # type: ignore[arg-type, call-overload]
        return self.b.pure(name, [], LoopType(dtype), value=attr)

    def _as_number(self, c: Coordinate, dtype: str) -> Value:
        value = c.base if c.uniform else self.math.vector(c)
        assert value is not None
        if dtype == "i64":
            return value
        return self.b.pure("cast", [value], LoopType(dtype, self.b.is_lanes(value)))

    def _sizes(self, op: Op, coordinates: tuple[Coordinate, ...]) -> Value:
        values, dtype = op.attrs["values"], op.result.dtype

        def number(dim: Dim) -> Value:
            size = self.size(dim)
            return size if dtype == "i64" else self.b.pure("cast", [size], LoopType(dtype))

        if not coordinates:
            return number(values[0])
        at = coordinates[0]
        if at.base is not None and at.uniform and self.b.known(at.base) is not None:
            return number(values[self.b.known(at.base) or 0])
        lanes = self.math.vector(at)
        result = number(values[0])
        for i, dim in enumerate(values[1:], 1):
            here = self.b.pure("eq", [lanes, self.b.index(i)], LoopType("bool", True))
            result = self.b.pure("select", [here, number(dim), result], LoopType(dtype, True))
        return result

    def _column_reduction(self, op: Op, place: Place) -> Value:
        """A reduction of earlier axes: lanes go over the kept last axis, a scalar loop over each reduced one."""
        operand = op.operands[0]
        axes = op.attrs["axes"]
        outer = self.coordinates(place, op.result.dims)
        lanes = not all(c.uniform for c in outer)
        kind = op.name.removeprefix("reduce_")
        type_ = LoopType(op.result.dtype, lanes)

        def over(left: Sequence[int], reduced: list[Coordinate], partial: Value) -> Value:
            """The rest of the loops around one element; one position for all axes would have to be divided."""
            if not left:
                kept = iter(outer)
                inner = [
                    reduced[axes.index(a)] if a in axes else next(kept)
                    for a in range(len(operand.dims))
                ]
                element = self.evaluate(operand, tuple(inner))
                return self.b.pure(COMBINE[kind], [partial, element], type_, deepest=True)
            count = operand.dims[left[0]]
            if len(left) == 1 and is_unrolled(count):
                for i in range(count.value or 0):
                    at = Coordinate(self.b.index(i))
                    partial = over([], [*reduced, at], partial)
                return partial
            position, so_far = self.b.open([LoopType("i64"), type_])
            combined = over(left[1:], [*reduced, Coordinate(position)], so_far)
            bounds = [self.b.index(0), self.size(operand.dims[left[0]]), partial]
            return self.b.close("for", bounds, [combined], step=1)[0]

        return over(axes, [], self.identity(kind, op.result.dtype))

    def identity(self, kind: str, dtype: str) -> Value:
        """What a reduction of nothing gives."""
        return self.constant(identity(kind, dtype), dtype)
