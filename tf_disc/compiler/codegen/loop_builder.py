"""Builds loop IR: the code of one kernel, over scalars and lane vectors.

Ops (types in ir/types.py; `v.` is one value a lane):

    arg {index}                     a pointer or size of the task's block
    iconst {value}  fconst {value}  constants
    iadd isub imul idiv imod        i64 arithmetic of indices (all >= 0; idiv and imod unsigned)
    lane                            v.i64 0, 1, 2 …
    width                           how many lanes a vector has
    load(ptr, index[, where])       elements index, index + 1, … of a buffer, or one; masked in a tail; 0 where not `where`
    load_back(ptr, index[, where])  elements index, index - 1, …
    load_strided(ptr, index, stride[, where])  elements index, index + stride, …
    load_at(ptr, indices[, where])  a lane each, anywhere
    store(ptr, index, value)
    store_past_caches(ptr, index, value, past) {alone}  lanes; past the caches where `past`, and if
                                    `alone`, where a vector is a whole line by itself
    begins_line(ptr)                bool: the address is a multiple of 64
    fence                           others see all that was stored past the caches
    rows_to_lanes(ptr, index, stride, rows, columns, buffer)  a block of rows, turned, into a buffer (row_transposes.py)
    lanes_to_rows(ptr, index, stride, rows, columns, buffer)  and back
    check_index(index, size[, where])  leaves the task at an index outside [0, size)
    in_range(index, size)           bool: 0 <= index < size
    for(lo, hi, init…)              a scalar loop; its region yields the next values
    tile_for(lo, hi, step)          a scalar loop by tiles
    vfor(lo, hi, init…) {combine}   a loop over lanes: full vectors, then one masked group
    hreduce(v) {combine}            over the lanes
    scratch, ptradd(ptr, bytes)     the slot's scratch; addresses
    imin                            the smaller of two i64
    gemm_packed, gemm_dense         the ABI's products
    and the scalar functions of ir/functions.py.

Pure ops are put into the outermost region in which their operands exist and are not made twice, so what
does not change in a loop stands before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_disc.compiler.ir.graph import Block, Op, Value
from tf_disc.compiler.ir.types import LoopType


class Scope:
    """One open region."""

    def __init__(self, block: Block, parent: Scope | None) -> None:
        self.block = block
        self.depth: int = parent.depth + 1 if parent else 0
        self.memo: dict[Any, Value] = {}


class LoopBuilder:
    """Appends loop IR ops; see the module's docstring."""

    def __init__(self) -> None:
        self.body = Block()
        self.scopes = [Scope(self.body, None)]
        self.depth: dict[Value, int] = {}
        #: How deep the open vector loop is in whose scalar loops lanes may be read; None: where they are asked for.
        self.lane_depth: int | None = None

    def pure(
        self,
        name: str,
        operands: Sequence[Value],
        type_: LoopType,
        *,
        deepest: bool = False,
        **attrs: Any,
    ) -> Value:
        """An op without effects: reused where an equal one is in scope.

        `deepest` keeps it where it is asked for, or at least in the vector loop of `lane_depth`.
        """
        depth = max((self.depth[v] for v in operands), default=0)
        if deepest:
            least = self.lane_depth
            depth = len(self.scopes) - 1 if least is None else max(depth, least)
        key = (
            name,
            tuple(id(v) for v in operands),
            str(type_),
            tuple(sorted(attrs.items(), key=str)),
        )
        for scope in self.scopes[depth::-1] if deepest else [self.scopes[depth]]:
            if key in scope.memo:
                return scope.memo[key]
        scope = self.scopes[depth]
        op = Op(name, list(operands), [type_], attrs)
        scope.block.ops.append(op)
        scope.memo[key] = op.result
        self.depth[op.result] = depth
        return op.result

    def effect(
        self, name: str, operands: Sequence[Value], depth: int | None = None, **attrs: Any
    ) -> None:
        """An op that acts where it stands; with a depth, in front of the loop that is open there."""
        scope = self.scopes[-1 if depth is None else depth]
        scope.block.ops.append(Op(name, list(operands), [], attrs))

    # -- indices -----------------------------------------------------------------
    def index(self, value: int) -> Value:
        """An i64 constant."""
        return self.pure("iconst", [], LoopType("i64"), value=value)

    @staticmethod
    def known(value: Value) -> int | None:
        """The number of an i64 constant."""
        op = value.op
        return op.attrs["value"] if op is not None and op.name == "iconst" else None

    def int_op(self, name: str, a: Value, b: Value) -> Value:
        """iadd, imul … of scalars or lanes, with the cases that need no code."""
        x, y = self.known(a), self.known(b)
        if name == "iadd" and (x == 0 or y == 0):
            return b if x == 0 else a
        if name == "isub" and y == 0:
            return a
        if name == "imul" and (x in (0, 1) or y in (0, 1)):
            if x == 1:
                return b
            if y == 1:
                return a
            return self.index(0)
        if name == "idiv" and y == 1:
            return a
        if name == "imod" and y == 1:
            return self.index(0)
        if x is not None and y is not None and (y or name not in ("idiv", "imod")):
            return self.index(
                {"iadd": x + y, "isub": x - y, "imul": x * y}[name]
                if name in ("iadd", "isub", "imul")
                else (x // y if name == "idiv" else x % y)
            )
        lanes = self.is_lanes(a) or self.is_lanes(b)
        return self.pure(name, [a, b], LoopType("i64", lanes))

    @staticmethod
    def is_lanes(value: Value) -> bool:
        """True for a vector of lanes."""
        return isinstance(value.type, LoopType) and value.type.lanes

    def task_arguments(self) -> tuple[Value, Value]:
        """The bounds of the range of items that a task runs."""
        begin, end = Value(LoopType("i64")), Value(LoopType("i64"))
        self.body.args = [begin, end]
        self.depth[begin] = self.depth[end] = 0
        return begin, end

    # -- loops -------------------------------------------------------------------
    def open(self, arguments: Sequence[LoopType]) -> list[Value]:
        """Begins a region; gives its arguments."""
        block = Block([Value(t) for t in arguments])
        self.scopes.append(Scope(block, self.scopes[-1]))
        for a in block.args:
            self.depth[a] = len(self.scopes) - 1
        return block.args

    def close(
        self, name: str, operands: Sequence[Value], results: Sequence[Value], **attrs: Any
    ) -> list[Value]:
        """Ends the region as the body of a loop over operands (lo, hi, init…); gives the loop's results."""
        region = self.scopes.pop().block
        region.ops.append(Op("yield", list(results), []))
        op = Op(name, list(operands), [v.type for v in results], attrs, [region])
        self.scopes[-1].block.ops.append(op)
        for r in op.results:
            self.depth[r] = len(self.scopes) - 1
        return op.results
