"""Loop IR to LLVM IR: one function a kernel, with explicit vectors and masked tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tf_disc.compiler.codegen import abi
from tf_disc.compiler.codegen.row_transposes import (
    LINE_BYTES,
    lanes_to_rows,
    rows_to_lanes,
    rows_to_lanes_ahead,
)
from tf_disc.compiler.codegen.scalar_functions import emit, emit_cast
from tf_disc.compiler.codegen.short_floats import from_memory, to_memory
from tf_disc.compiler.codegen.vectors import opaque, with_element
from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.ir.functions import FUNCTIONS, is_checked
from tf_disc.compiler.ir.graph import Block, Op, Value, walk
from tf_disc.compiler.ir.types import ITEM_BYTES, SHORT_FLOATS, LoopType, short_bits

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR = ir.PointerType()

#: The type of an element while it is computed with, and while it lies in memory.
VALUE_TYPES: dict[str, ir.Type] = {
    "f32": ir.FloatType(), "f64": ir.DoubleType(), "f16": ir.FloatType(), "bf16": ir.FloatType(),
    "i32": I32, "i64": I64, "bool": I1, "i8": I8, "u8": I8, "i16": ir.IntType(16), "ptr": PTR,
}  # fmt: skip
TASK_TYPE = ir.FunctionType(I32, [PTR, PTR, I64, I64, I32])

#: A vector loop with sums is unrolled while its body stays below this many ops: the adds of one
#: accumulator wait for each other (4 cycles), those of four do not.
UNROLL_OPS = 24
UNROLL = 4


def memory_type(dtype: str) -> ir.Type:
    """bool is a byte in memory and a bit in registers, a float of 16 bits an f32."""
    if dtype in SHORT_FLOATS:
        return ir.IntType(16)
    return I8 if dtype == "bool" else VALUE_TYPES[dtype]


def memory_bits(value: Any, dtype: str) -> Any:
    """A constant's element as its memory type has it."""
    if dtype in SHORT_FLOATS:
        return short_bits(value, dtype)
    return int(value) if dtype == "bool" else value


def field(builder: ir.IRBuilder, pointer: ir.Value, offset: int, type_: ir.Type) -> ir.Value:
    """Loads a field of an ABI struct."""
    at = builder.gep(pointer, [ir.Constant(I64, offset)], source_etype=I8)
    return builder.load(at, typ=type_)


class TaskEmitter:
    """Emits one kernel body as an LLVM function of TASK_TYPE. `width`: lanes of a vector."""

    def __init__(self, module: ir.Module, name: str, width: int) -> None:
        self.module = module
        self.width = width
        self.function = ir.Function(module, TASK_TYPE, name)
        self.function.linkage = "internal"
        frame, args, begin, end, slot = self.function.args
        self.frame, self.args, self.slot = frame, args, slot
        self.range = (begin, end)
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.values: dict[Value, ir.Value] = {}
        self.mask: ir.Value | None = None
        self.fail: ir.Block | None = None

    def emit(self, body: Block) -> ir.Function:
        """Emits the whole body."""
        for argument, value in zip(body.args, self.range, strict=True):
            self.values[argument] = value
        self._block(body)
        self.b.ret(ir.Constant(I32, abi.OK))
        return self.function

    # -- values --------------------------------------------------------------------------
    def type_of(self, type_: LoopType) -> ir.Type:
        """The LLVM type of a loop value."""
        scalar = VALUE_TYPES[type_.dtype]
        return ir.VectorType(scalar, self.width) if type_.lanes else scalar

    def splat(self, value: ir.Value) -> ir.Value:
        """A scalar in every lane; lanes as they are."""
        if isinstance(value.type, ir.VectorType):
            return value
        type_ = ir.VectorType(value.type, self.width)
        if isinstance(value, ir.Constant) and not isinstance(value.constant, str):
            return ir.Constant(type_, [value.constant] * self.width)
        undefined = ir.Constant(type_, ir.Undefined)
        one = self.b.insert_element(undefined, value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, self.width), None)
        return self.b.shuffle_vector(one, undefined, zeros)

    def operands(self, op: Op) -> list[ir.Value]:
        """An op's operands, all lanes where its result is."""
        values = [self.values[v] for v in op.operands]
        if any(isinstance(v.type, ir.VectorType) for v in values):
            values = [self.splat(v) for v in values]
        return values

    def _block(self, block: Block) -> list[ir.Value]:
        """Emits a region; gives what it yields."""
        for op in block.ops:
            if op.name == "yield":
                return [self.values[v] for v in op.operands]
            self._op(op)
        return []

    def _op(self, op: Op) -> None:
        method = getattr(self, f"_{op.name}", None)
        if method is not None:
            result = method(op)
        elif op.name in _INDEX_OPS:
            result = getattr(self.b, _INDEX_OPS[op.name])(*self.operands(op))
        elif op.name == "cast":
            (value,) = self.operands(op)
            source, target = op.operands[0].dtype, op.result.dtype
            to: ir.Type = VALUE_TYPES[target]
            if isinstance(value.type, ir.VectorType):
                to = ir.VectorType(to, self.width)
            result = emit_cast(self.b, value, source, target, to)
        elif op.name in FUNCTIONS:
            dtype = op.operands[-1].dtype
            result = emit(self.b, op.name, dtype, *self.operands(op), must=self._must)
        else:
            raise InternalError(f"loop IR has no op {op.name}")
        if op.results and len(op.results) == 1 and not isinstance(result, list):
            self.values[op.result] = result
        elif isinstance(result, list):
            for r, v in zip(op.results, result, strict=True):
                self.values[r] = v

    def _arg(self, op: Op) -> ir.Value:
        at = self.b.gep(self.args, [ir.Constant(I64, op.attrs["index"])], source_etype=I64)
        loaded = self.b.load(at, typ=I64)
        return self.b.inttoptr(loaded, PTR) if op.result.dtype == "ptr" else loaded

    def _iconst(self, op: Op) -> ir.Value:
        return ir.Constant(VALUE_TYPES[op.result.dtype], op.attrs["value"])

    def _fconst(self, op: Op) -> ir.Value:
        return ir.Constant(VALUE_TYPES[op.result.dtype], float(op.attrs["value"]))

    def _lane(self, op: Op) -> ir.Value:
        return ir.Constant(ir.VectorType(I64, self.width), list(range(self.width)))

    def _width(self, op: Op) -> ir.Value:
        return ir.Constant(I64, self.width)

    def _imin(self, op: Op) -> ir.Value:
        x, y = self.operands(op)
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def _scratch(self, op: Op) -> ir.Value:
        base = field(self.b, self.frame, abi.FRAME["scratch"], PTR)
        stride = field(self.b, self.frame, abi.FRAME["scratch_stride"], I64)
        offset = self.b.mul(self.b.sext(self.slot, I64), stride)
        return self.b.gep(base, [offset], source_etype=I8)

    def _ptradd(self, op: Op) -> ir.Value:
        pointer, offset = (self.values[v] for v in op.operands)
        return self.b.gep(pointer, [offset], source_etype=I8)

    # -- memory ----------------------------------------------------------------------------
    def _from_memory(self, value: ir.Value, dtype: str) -> ir.Value:
        if dtype in SHORT_FLOATS:
            return from_memory(self.b, value, dtype)
        if dtype != "bool":
            return value
        return self.b.icmp_unsigned("!=", value, ir.Constant(value.type, None))

    def _lane_mask(self, allowed: Sequence[Value]) -> ir.Value | None:
        """Which lanes a load reads: those of a tail, and those that its last operand allows; None for all."""
        if not allowed:
            return self.mask
        where = self.splat(self.values[allowed[0]])
        return where if self.mask is None else self.b.and_(where, self.mask)

    def _to_memory(self, value: ir.Value, dtype: str) -> ir.Value:
        if dtype in SHORT_FLOATS:
            return to_memory(self.b, value, dtype)
        return self.b.zext(value, with_element(value.type, I8)) if dtype == "bool" else value

    def _load(self, op: Op) -> ir.Value:
        pointer, index = (self.values[v] for v in op.operands[:2])
        dtype = op.result.dtype
        scalar = memory_type(dtype)
        at: ir.Value = self.b.gep(pointer, [index], source_etype=scalar)
        if not op.result.type.lanes:  # type: ignore[union-attr]
            if len(op.operands) == 3:
                at = self.b.select(self.values[op.operands[2]], at, self._zero_element())
            return self._from_memory(self.b.load(at, typ=scalar), dtype)
        return self._from_memory(
            self._load_lanes(at, dtype, self._lane_mask(op.operands[2:])), dtype
        )

    def _load_lanes(self, at: ir.Value, dtype: str, mask: ir.Value | None) -> ir.Value:
        """A vector of elements as they lie in memory, those under the mask alone."""
        type_ = ir.VectorType(memory_type(dtype), self.width)
        if mask is None:
            return self.b.load(at, align=ITEM_BYTES[dtype], typ=type_)
        name = f"llvm.masked.load.v{self.width}{_suffix(dtype)}.p0"
        mask_type = ir.VectorType(I1, self.width)
        function = self._declare(name, ir.FunctionType(type_, [PTR, I32, mask_type, type_]))
        align = ir.Constant(I32, ITEM_BYTES[dtype])
        return self.b.call(function, [at, align, mask, ir.Constant(type_, None)])

    def _load_back(self, op: Op) -> ir.Value:
        """Lane i reads element index - i: a load of what lies before, turned round."""
        pointer, index = (self.values[v] for v in op.operands[:2])
        dtype = op.result.dtype
        first = self.b.sub(index, ir.Constant(I64, self.width - 1))
        at = self.b.gep(pointer, [first], source_etype=memory_type(dtype))
        mask = self._lane_mask(op.operands[2:])
        if mask is not None:
            mask = self._turned(mask)
        return self._from_memory(self._turned(self._load_lanes(at, dtype, mask)), dtype)

    def _turned(self, value: ir.Value) -> ir.Value:
        """The lanes, last to first."""
        order = ir.Constant(ir.VectorType(I32, self.width), list(range(self.width))[::-1])
        return self.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)

    def _zero_element(self) -> ir.Value:
        """The address of an element of zeros: what a load that must not happen reads instead."""
        found = self.module.globals.get("zero_element")
        if found is None:
            type_ = ir.ArrayType(I8, 8)
            found = ir.GlobalVariable(self.module, type_, "zero_element")
            found.initializer = ir.Constant(type_, None)
            found.global_constant = True
            found.linkage = "internal"
            found.align = 8
        return Opaque(found)

    def _in_range(self, op: Op) -> ir.Value:
        index, size = self.operands(op)
        return self.b.icmp_unsigned("<", index, size)

    def _load_at(self, op: Op) -> ir.Value:
        pointer, indices = self.values[op.operands[0]], self.splat(self.values[op.operands[1]])
        return self._gather(pointer, indices, op.result.dtype, op.operands[2:])

    def _gather(
        self, pointer: ir.Value, indices: ir.Value, dtype: str, where: Sequence[Value]
    ) -> ir.Value:
        """The elements at the lanes' indices, those under the mask and where `where` allows it."""
        scalar = memory_type(dtype)
        type_ = ir.VectorType(scalar, self.width)
        lanes64 = ir.VectorType(I64, self.width)
        scale = ir.Constant(lanes64, [ITEM_BYTES[dtype]] * self.width)
        address = self.b.add(self.splat(self.b.ptrtoint(pointer, I64)), self.b.mul(indices, scale))
        pointers = self.b.inttoptr(address, ir.VectorType(PTR, self.width))
        name = f"llvm.masked.gather.v{self.width}{_suffix(dtype)}.v{self.width}p0"
        mask_type = ir.VectorType(I1, self.width)
        function = self._declare(
            name, ir.FunctionType(type_, [ir.VectorType(PTR, self.width), I32, mask_type, type_])
        )
        mask = self._lane_mask(where)
        if mask is None:
            mask = ir.Constant(mask_type, [1] * self.width)
        align = ir.Constant(I32, ITEM_BYTES[dtype])
        loaded = self.b.call(function, [pointers, align, mask, ir.Constant(type_, None)])
        return self._from_memory(loaded, dtype)

    def _load_strided(self, op: Op) -> ir.Value:
        """Lane i reads element index + i * stride, one after the other: faster than the CPU's own gather."""
        pointer, index, stride = (self.values[v] for v in op.operands[:3])
        dtype = op.result.dtype
        scalar = memory_type(dtype)
        if self.mask is not None or len(op.operands) == 4:
            lanes = ir.Constant(ir.VectorType(I64, self.width), list(range(self.width)))
            steps = self.b.mul(lanes, self.splat(stride))
            where = op.operands[3:]
            return self._gather(pointer, self.b.add(self.splat(index), steps), dtype, where)
        loaded: ir.Value = ir.Constant(ir.VectorType(scalar, self.width), ir.Undefined)
        for i, at in enumerate(self._strided(pointer, index, stride, dtype)):
            loaded = self.b.insert_element(loaded, self.b.load(at, typ=scalar), ir.Constant(I32, i))
        return self._from_memory(loaded, dtype)

    def _strided(
        self, pointer: ir.Value, index: ir.Value, stride: ir.Value, dtype: str
    ) -> list[ir.Value]:
        """The address of each lane. Four lanes share a base, so that few numbers have to stay in registers."""
        size = ITEM_BYTES[dtype]
        first = self.b.gep(pointer, [index], source_etype=memory_type(dtype))
        steps = [
            self.b.mul(stride, ir.Constant(I64, size * k)) if k else ir.Constant(I64, 0)
            for k in range(5)
        ]
        found: list[ir.Value] = []
        for _ in range(0, self.width, 4):
            found += [self.b.gep(first, [s], source_etype=I8) for s in steps[:4]]
            first = self.b.gep(first, [steps[4]], source_etype=I8)
        return found

    def _store(self, op: Op) -> None:
        if op.attrs["lanes"]:
            self._store_lanes(op)
            return
        pointer, index, value = (self.values[v] for v in op.operands)
        dtype = op.operands[2].dtype
        at = self.b.gep(pointer, [index], source_etype=memory_type(dtype))
        self.b.store(self._to_memory(value, dtype), at)

    def _store_lanes(self, op: Op) -> None:
        pointer, index, value = (self.values[v] for v in op.operands[:3])
        dtype = op.operands[2].dtype
        scalar = memory_type(dtype)
        at = self.b.gep(pointer, [index], source_etype=scalar)
        type_ = ir.VectorType(scalar, self.width)
        value = self._to_memory(self.splat(value), dtype)
        if self.mask is None:
            self.b.store(value, at, align=ITEM_BYTES[dtype])
            return
        name = f"llvm.masked.store.v{self.width}{_suffix(dtype)}.p0"
        mask_type = ir.VectorType(I1, self.width)
        function = self._declare(name, ir.FunctionType(ir.VoidType(), [type_, PTR, I32, mask_type]))
        self.b.call(function, [value, at, ir.Constant(I32, ITEM_BYTES[dtype]), self.mask])

    def _store_past_caches(self, op: Op) -> None:
        """A store of lanes; of whole vectors past the caches where the last operand says so."""
        vector = self.width * ITEM_BYTES[op.operands[2].dtype]
        if self.mask is not None or (op.attrs["alone"] and vector < LINE_BYTES):
            self._store_lanes(op)
            return
        here, past, on = (self.function.append_basic_block(n) for n in ("cached", "past", "stored"))
        self.b.cbranch(self.values[op.operands[3]], past, here)
        self.b.position_at_end(here)
        self._store_lanes(op)
        self.b.branch(on)
        self.b.position_at_end(past)
        pointer, index, value = (self.values[v] for v in op.operands[:3])
        dtype = op.operands[2].dtype
        at = self.b.gep(pointer, [index], source_etype=memory_type(dtype))
        align = min(vector, LINE_BYTES)
        stored = self.b.store(self._to_memory(self.splat(value), dtype), at, align=align)
        stored.set_metadata("nontemporal", self.module.add_metadata([ir.Constant(I32, 1)]))
        self.b.branch(on)
        self.b.position_at_end(on)

    def _begins_line(self, op: Op) -> ir.Value:
        address = self.b.ptrtoint(self.values[op.operands[0]], I64)
        rest = self.b.and_(address, ir.Constant(I64, LINE_BYTES - 1))
        return self.b.icmp_unsigned("==", rest, ir.Constant(I64, 0))

    def _fence(self, _: Op | None = None) -> None:
        """Makes stores past the caches seen by others before what follows: they are not ordered otherwise."""
        type_ = ir.FunctionType(ir.VoidType(), [])
        self.b.call(self._declare("llvm.x86.sse.sfence", type_), [])

    def _rows_to_lanes(self, op: Op) -> None:
        self._turn(op, rows_to_lanes_ahead if op.attrs.get("ahead") else rows_to_lanes)

    def _lanes_to_rows(self, op: Op) -> None:
        self._turn(op, lanes_to_rows)

    def _turn(self, op: Op, function: Callable[[ir.Module, int, int], ir.Function]) -> None:
        """A call of one of row_transposes.py's functions, for as many rows as the vector loop is at."""
        pointer, index, stride, rows, columns, buffer = (self.values[v] for v in op.operands)
        dtype = op.attrs["dtype"]
        at = self.b.gep(pointer, [index], source_etype=memory_type(dtype))
        if self.mask is None:
            rows = ir.Constant(I64, self.width)
        callee = function(self.module, ITEM_BYTES[dtype], self.width)
        self.b.call(callee, [at, stride, rows, columns, buffer])

    def _declare(self, name: str, type_: ir.FunctionType) -> ir.Function:
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, type_, name)

    def _check_index(self, op: Op) -> ir.Value:
        """Leaves the task when an index is out of range: TensorFlow then runs the call and reports it."""
        index, size, *where = self.operands(op)
        inside = self.b.icmp_unsigned("<", index, size)
        self._must(self.b.or_(inside, self.b.not_(where[0])) if where else inside)
        return index

    def _must(self, holds: ir.Value) -> None:
        """Leaves the task where a condition is false in a lane that counts."""
        bad = self.b.not_(holds)
        if isinstance(bad.type, ir.VectorType):
            if self.mask is not None:
                bad = self.b.and_(bad, self.mask)
            bits = self.b.bitcast(bad, ir.IntType(self.width))
            bad = self.b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        on = self.function.append_basic_block("go_on")
        self.b.cbranch(bad, self._failure(), on)
        self.b.position_at_end(on)

    def _failure(self) -> ir.Block:
        if self.fail is None:
            self.fail = self.function.append_basic_block("not_ours")
            at = self.b.block
            self.b.position_at_end(self.fail)
            self._fence()
            self.b.ret(ir.Constant(I32, abi.GUARD_FAILED))
            self.b.position_at_end(at)
        return self.fail

    # -- loops -----------------------------------------------------------------------------
    def _for(self, op: Op) -> list[ir.Value]:
        low, high, *starts = (self.values[v] for v in op.operands)
        step = ir.Constant(I64, op.attrs["step"])
        return self._counted(op.regions[0], low, high, step, self._starts(op, starts))

    def _tile_for(self, op: Op) -> list[ir.Value]:
        low, high, step = (self.values[v] for v in op.operands)
        return self._counted(op.regions[0], low, high, step, [])

    def _starts(self, op: Op, starts: Sequence[ir.Value]) -> list[ir.Value]:
        return [
            self.splat(s) if r.type.lanes else s  # type: ignore[union-attr]
            for s, r in zip(starts, op.results, strict=True)
        ]

    def _counted(
        self, region: Block, low: ir.Value, high: ir.Value, step: ir.Value, starts: list[ir.Value],
        copies: int = 1, stride: int = 1,
    ) -> list[ir.Value]:  # fmt: skip
        """``for i in low..high``: the region `copies` times a turn, copy u at i + u * stride, each with its own sums.

        `starts` holds the sums copy by copy; so does the result.
        """
        head = self.function.append_basic_block("head")
        body = self.function.append_basic_block("body")
        done = self.function.append_basic_block("done")
        before = self.b.block
        self.b.branch(head)
        self.b.position_at_end(head)
        i = self.b.phi(I64)
        i.add_incoming(low, before)
        sums = []
        for s in starts:
            phi = self.b.phi(s.type)
            phi.add_incoming(s, before)
            sums.append(phi)
        self.b.cbranch(self.b.icmp_signed("<", i, high), body, done)
        self.b.position_at_end(body)
        nexts: list[ir.Value] = []
        each = len(starts) // copies
        for u in range(copies):
            at = self.b.add(i, ir.Constant(I64, u * stride)) if u else i
            values = [at, *sums[u * each : (u + 1) * each]]
            for argument, value in zip(region.args, values, strict=True):
                self.values[argument] = value
            nexts += [
                self.splat(v) if isinstance(s.type, ir.VectorType) else v
                for v, s in zip(self._block(region), sums[u * each : (u + 1) * each], strict=True)
            ]
        i.add_incoming(self.b.add(i, step), self.b.block)
        for phi, value in zip(sums, nexts, strict=True):
            phi.add_incoming(value, self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)
        return list(sums)

    def _vfor(self, op: Op) -> list[ir.Value]:
        """Full vectors, unrolled where sums would wait for each other; then the rest under a mask."""
        low, high, *starts = (self.values[v] for v in op.operands)
        combine = op.attrs.get("combine", ())
        region, width = op.regions[0], self.width
        sums = self._starts(op, starts)
        span = self.b.sub(high, low)
        branchy = any(_leaves(o) for o in walk(region))
        if sums and not branchy and len(region.ops) < UNROLL_OPS:
            # The other copies start from the same identity as the first.
            chunk = width * UNROLL
            middle = self.b.add(low, self.b.and_(span, ir.Constant(I64, -chunk)))
            copies = sums * UNROLL
            found = self._counted(
                region, low, middle, ir.Constant(I64, chunk), copies, UNROLL, width
            )
            parts = [found[u * len(sums) : (u + 1) * len(sums)] for u in range(UNROLL)]
            joined = parts[0]
            for part in parts[1:]:
                joined = [
                    emit(self.b, c, r.dtype, x, y, must=self._must)
                    for c, r, x, y in zip(combine, op.results, joined, part, strict=True)
                ]
            sums, low = joined, middle
        main = self.b.add(low, self.b.and_(self.b.sub(high, low), ir.Constant(I64, -width)))
        sums = self._counted(region, low, main, ir.Constant(I64, width), sums)
        rest = self.b.sub(high, main)
        tail = self.function.append_basic_block("tail")
        done = self.function.append_basic_block("vector_done")
        before = self.b.block
        self.b.cbranch(self.b.icmp_signed(">", rest, ir.Constant(I64, 0)), tail, done)
        self.b.position_at_end(tail)
        lanes = ir.Constant(ir.VectorType(I32, width), list(range(width)))
        outer = self.mask
        if outer is not None:
            raise InternalError("a vector loop inside a vector loop")
        count = self.b.trunc(rest, I32)
        if any(
            o.name.startswith("store") and o.operands[2].dtype not in _WIDE for o in walk(region)
        ):
            count = opaque(self.b, count)
        self.mask = self.b.icmp_unsigned("<", lanes, self.splat(count))
        for argument, value in zip(region.args, [main, *sums], strict=True):
            self.values[argument] = value
        nexts = [
            self.b.select(self.mask, self.splat(new), old)
            for new, old in zip(self._block(region), sums, strict=True)
        ]
        self.mask = None
        after = self.b.block
        self.b.branch(done)
        self.b.position_at_end(done)
        result: list[ir.Value] = []
        for old, new in zip(sums, nexts, strict=True):
            phi = self.b.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, after)
            result.append(phi)
        return result

    def _hreduce(self, op: Op) -> ir.Value:
        value = self.values[op.operands[0]]
        n = self.width
        while n > 1:
            n //= 2
            half = [i + n if i < n else 0 for i in range(self.width)]
            indices = ir.Constant(ir.VectorType(I32, self.width), half)
            other = self.b.shuffle_vector(value, value, indices)
            value = emit(
                self.b, op.attrs["combine"], op.result.dtype, value, other, must=self._must
            )
        return self.b.extract_element(value, ir.Constant(I32, 0))

    # -- library -----------------------------------------------------------------------------
    def _import(self, name: str, types: list[ir.Type], args: list[ir.Value]) -> None:
        """Calls an import and leaves the task when it fails."""
        imports = field(self.b, self.frame, abi.FRAME["imports"], PTR)
        pointer = field(self.b, imports, abi.IMPORTS[name], PTR)
        status = call_pointer(self.b, ir.FunctionType(I32, types), pointer, args)
        failed = self.function.append_basic_block("failed")
        on = self.function.append_basic_block("called")
        self.b.cbranch(self.b.icmp_signed("!=", status, ir.Constant(I32, 0)), failed, on)
        self.b.position_at_end(failed)
        self.b.ret(status)
        self.b.position_at_end(on)

    def _gemm_packed(self, op: Op) -> None:
        gemm, *values = (self.values[v] for v in op.operands)
        self._import(
            "gemm_packed",
            [PTR, I32, I32, I64, I64, I64, PTR, I64, PTR, I64],
            [self.frame, self.b.trunc(gemm, I32), self.slot, *values],
        )

    def _gemm_dense(self, op: Op) -> None:
        values = [self.values[v] for v in op.operands]
        flags = [
            ir.Constant(I32, abi.DTYPE_NUMBERS[op.attrs["dtype"]]),
            self.slot,
            ir.Constant(I32, int(op.attrs["transpose_a"])),
            ir.Constant(I32, int(op.attrs["transpose_b"])),
        ]
        types: list[ir.Type] = [
            PTR,
            I32,
            I32,
            I32,
            I32,
            I64,
            I64,
            I64,
            PTR,
            I64,
            PTR,
            I64,
            PTR,
            I64,
        ]
        self._import("gemm_dense", types, [self.frame, *flags, *values])


_INDEX_OPS = {"iadd": "add", "isub": "sub", "imul": "mul", "idiv": "udiv", "imod": "urem"}


class Opaque(ir.Value):
    """A global or a function as an operand of plain pointer type; llvmlite would print its typed one."""

    def __init__(self, value: ir.Value) -> None:
        self.type = PTR
        self._value = value

    def get_reference(self) -> str:
        """The operand as text."""
        return self._value.get_reference()


class _FunctionPointer(Opaque):
    """What llvmlite's call instruction asks of a callee, for a plain pointer."""

    def __init__(self, type_: ir.FunctionType, pointer: ir.Value) -> None:
        super().__init__(pointer)
        self.function_type = type_


def call_pointer(
    builder: ir.IRBuilder, type_: ir.FunctionType, pointer: ir.Value, args: list[ir.Value]
) -> ir.Value:
    """Calls a function through a pointer."""
    return builder.call(_FunctionPointer(type_, pointer), args)


#: Element types that no integer is narrowed to in front of a store.
_WIDE = ("f32", "f64", "i64")


def _leaves(op: Op) -> bool:
    """True for an op that may leave the task, which ends a block of code."""
    return op.name == "check_index" or bool(
        op.operands and is_checked(op.name, op.operands[-1].dtype)
    )


def _suffix(dtype: str) -> str:
    return {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64", "bool": "i8", "i8": "i8", "u8": "i8",
            "i16": "i16", "f16": "i16", "bf16": "i16"}[dtype]  # fmt: skip
