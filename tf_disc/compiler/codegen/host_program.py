"""The two entries of an object: `disc_plan` computes every size and checks the guards, `disc_run` runs the tasks."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tf_disc.compiler.codegen import abi
from tf_disc.compiler.codegen.emit_llvm import (
    I8,
    I32,
    I64,
    PTR,
    TASK_TYPE,
    Opaque,
    call_pointer,
    field,
    memory_type,
)
from tf_disc.compiler.codegen.kernel import SLOTS, TILE_ROWS, Kernel, few_rows
from tf_disc.compiler.codegen.memory import Memory, Place
from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.ir.dims import Call, Dim, Symbol, product
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.passes.groups import Group
from tf_disc.compiler.passes.views import INDEX_MAPS

ENTRY_TYPE = ir.FunctionType(I32, [PTR])
#: Rows of a product's tile: few enough for L2, enough to be near the library's best rate.
MAX_TILE_ROWS = 64
TILE_STEP = 2
#: Elements that are less work than the call of a loop, which takes some 30 ns.
TINY = 16
#: Ops of such a group: larger ones are not copied into the host program.
TINY_OPS = 32


@dataclass
class Launch:
    """One step of `disc_run`: a kernel as a parallel loop. `task` is its number in the manifest.

    `inline`: all of it is a part of `disc_run` itself, on the calling thread.
    """

    kernel: Kernel
    function: ir.Function
    task: int
    inline: bool = False


def is_tiny(group: Group, inlined: set[Op]) -> bool:
    """True where a group computes at most TINY elements at every call: shapes, indices, scalars."""
    if group.kind not in ("loop", "concat") or group.tiles:
        return False
    total = 0
    for op in [*group.all_ops, *_inlined_into(group, inlined)]:
        elements = [product(op.result.dims)]
        if op.name.startswith("reduce_"):
            elements += [product(v.dims) for v in op.operands]
        for count in elements:
            if count.value is None or count.value > TINY:
                return False
        total += 1
    return total <= TINY_OPS


def _inlined_into(group: Group, inlined: set[Op]) -> set[Op]:
    """The ops that the group computes where it reads their results, through index maps."""
    seen: set[Op] = set()
    stack = [operand for op in group.all_ops for operand in op.operands]
    while stack:
        op = stack.pop().op
        if op is None or op in seen or (op not in inlined and op.name not in INDEX_MAPS):
            continue
        seen.add(op)
        stack += op.operands
    return seen & inlined


class HostProgram:
    """Emits the entries. `gemms` numbers the products by a weight; `constants` are globals of the module."""

    def __init__(
        self, module: ir.Module, graph: Graph, memory: Memory, launches: list[Launch],
        gemms: dict[Op, int], constants: dict[Value, ir.GlobalVariable],
    ) -> None:  # fmt: skip
        self.module = module
        self.graph = graph
        self.memory = memory
        self.launches = launches
        self.gemms = gemms
        self.constants = constants
        self.slots: dict[tuple[object, ...], int] = {}

    @property
    def num_sizes(self) -> int:
        """Entries of frame->sizes; known after `emit`."""
        return len(self.slots)

    def emit(self) -> None:
        """Both entries. The run entry is made first: it finds which sizes the plan must compute."""
        wanted: list[tuple[tuple[object, ...], Dim, int | None]] = []
        for i, launch in enumerate(self.launches):
            kernel = launch.kernel
            dims = [kernel.count, kernel.grain, kernel.item_cost]
            if kernel.rows is not None:
                dims.append(_many(kernel.rows))
            for argument in kernel.arguments:
                if argument.kind == "size" and argument.dim is not None:
                    dims.append(argument.dim)
                elif argument.kind == "buffer" and argument.value is not None:
                    place = self.memory.places[argument.value]
                    if place.offset is not None:
                        dims.append(place.offset)
            for dim in dims:
                key, tile = self._key(dim, i)
                if dim.value is None and key not in self.slots:
                    self.slots[key] = len(self.slots)
                    wanted.append((key, dim, tile))
        self._emit_plan(wanted)
        self._emit_run()

    @staticmethod
    def _key(dim: Dim, launch: int) -> tuple[tuple[object, ...], int | None]:
        """Sizes that depend on a tile's rows are a launch's own."""
        if str(TILE_ROWS) in dim.symbols():
            return ("tile", launch, dim), launch
        return ("size", dim), None

    # -- plan ---------------------------------------------------------------------------
    def _emit_plan(self, wanted: list[tuple[tuple[object, ...], Dim, int | None]]) -> None:
        function = ir.Function(self.module, ENTRY_TYPE, "disc_plan")
        frame = function.args[0]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        inputs = field(b, frame, abi.FRAME["inputs"], PTR)
        sizes = field(b, frame, abi.FRAME["sizes"], PTR)
        dims = DimEmitter(b)
        for name, source in self.graph.symbols.items():
            tensor = b.gep(
                inputs, [ir.Constant(I64, source.input * abi.TENSOR_BYTES)], source_etype=I8
            )
            if source.kind == "dim":
                array = field(b, tensor, abi.TENSOR["dims"], PTR)
                dims.symbols[name] = field(b, array, 8 * source.index, I64)
            else:
                dtype = self.graph.inputs[source.input].value.dtype
                data = field(b, tensor, abi.TENSOR["data"], PTR)
                element = memory_type(dtype)
                width = 8 if dtype == "i64" else 4
                loaded = field(b, data, width * source.index, element)
                dims.symbols[name] = loaded if dtype == "i64" else b.sext(loaded, I64)
        num_slots = field(b, frame, abi.FRAME["num_slots"], I32)
        dims.symbols[str(SLOTS)] = b.sext(num_slots, I64)
        for i, guard in enumerate(self.graph.guards):
            holds = b.icmp_signed(guard.relation, dims(guard.left), dims(guard.right))
            on = function.append_basic_block("holds")
            off = function.append_basic_block("fails")
            b.cbranch(holds, on, off)
            b.position_at_end(off)
            at = b.gep(frame, [ir.Constant(I64, abi.FRAME["failed_guard"])], source_etype=I8)
            b.store(ir.Constant(I32, i), at)
            b.ret(ir.Constant(I32, abi.GUARD_FAILED))
            b.position_at_end(on)
        slots = dims.symbols[str(SLOTS)]
        tiles: dict[int, ir.Value] = {}
        for key, dim, launch in wanted:
            if launch is not None and launch not in tiles:
                kernel = self.launches[launch].kernel
                tiles[launch] = self._tile_rows(b, dims(kernel.count), slots, kernel.tiles_per_slot)
            value = dims.with_tile(tiles[launch])(dim) if launch is not None else dims(dim)
            b.store(value, b.gep(sizes, [ir.Constant(I64, self.slots[key])], source_etype=I64))
        self._store_dims(b, frame, dims)
        self._store_field(b, frame, "arena_bytes", dims(self.memory.arena_bytes))
        scratch: ir.Value = ir.Constant(I64, 0)
        for i, launch_ in enumerate(self.launches):
            need = launch_.kernel.scratch_bytes
            if need == 0:
                continue
            emitter = dims.with_tile(tiles[i]) if i in tiles else dims
            value = emitter(need)
            scratch = b.select(b.icmp_signed(">", value, scratch), value, scratch)
        self._store_field(b, frame, "scratch_bytes", scratch)
        b.ret(ir.Constant(I32, abi.OK))

    @staticmethod
    def _store_field(b: ir.IRBuilder, frame: ir.Value, name: str, value: ir.Value) -> None:
        b.store(value, b.gep(frame, [ir.Constant(I64, abi.FRAME[name])], source_etype=I8))

    def _store_dims(self, b: ir.IRBuilder, frame: ir.Value, dims: DimEmitter) -> None:
        array = field(b, frame, abi.FRAME["output_dims"], PTR)
        position = 0
        for output in self.graph.outputs:
            for d in output.dims:
                b.store(dims(d), b.gep(array, [ir.Constant(I64, position)], source_etype=I64))
                position += 1

    @staticmethod
    def _tile_rows(b: ir.IRBuilder, rows: ir.Value, slots: ir.Value, turns: int) -> ir.Value:
        """Rows of a tile: an even share of as few tiles as give each slot `turns`, in steps of 2, at most 64.

        Larger steps leave threads apart: 308 rows in tiles of 56 are 168 and 140.
        """
        one, most = ir.Constant(I64, 1), ir.Constant(I64, MAX_TILE_ROWS)
        step = ir.Constant(I64, TILE_STEP)

        def divide_up(x: ir.Value, y: ir.Value) -> ir.Value:
            return b.udiv(b.sub(b.add(x, y), one), y)

        tiles = divide_up(rows, most)
        turn = b.mul(slots, ir.Constant(I64, turns))
        tiles = b.mul(divide_up(tiles, turn), turn)
        tiles = b.select(b.icmp_signed("<", tiles, one), one, tiles)
        share = b.mul(divide_up(divide_up(rows, tiles), step), step)
        share = b.select(b.icmp_signed(">", share, most), most, share)
        return b.select(b.icmp_signed("<", share, step), step, share)

    # -- run ----------------------------------------------------------------------------
    @staticmethod
    def _argument_block(b: ir.IRBuilder, launches: list[Launch]) -> ir.Value:
        most = max((len(item.kernel.arguments) for item in launches), default=0)
        block = b.alloca(ir.ArrayType(I64, max(most, 1)))
        block.type = PTR  # opaque, as all pointers of LLVM are now
        return block

    def _emit_run(self) -> None:
        function = ir.Function(self.module, ENTRY_TYPE, "disc_run")
        frame = function.args[0]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        shared = self._argument_block(b, [i for i in self.launches if not i.inline])
        # One each: LLVM makes registers of what no function outside gets to see.
        own = {i.task: self._argument_block(b, [i]) for i in self.launches if i.inline}
        imports = field(b, frame, abi.FRAME["imports"], PTR)
        parallel_for = field(b, imports, abi.IMPORTS["parallel_for"], PTR)
        sizes = field(b, frame, abi.FRAME["sizes"], PTR)
        inputs = field(b, frame, abi.FRAME["inputs"], PTR)
        outputs = field(b, frame, abi.FRAME["outputs"], PTR)
        arena = field(b, frame, abi.FRAME["arena"], PTR)
        for i, launch in enumerate(self.launches):
            kernel = launch.kernel
            arguments = own.get(launch.task, shared)
            if launch.inline and kernel.count.value == 0:
                continue

            def number(dim: Dim, i: int = i) -> ir.Value:
                if dim.value is not None:
                    return ir.Constant(I64, dim.value)
                return field(b, sizes, 8 * self.slots[self._key(dim, i)[0]], I64)

            def address(value: Value, number=number) -> ir.Value:  # type: ignore[no-untyped-def]
                place: Place = self.memory.places[value]
                if place.kind == "input":
                    at = place.index * abi.TENSOR_BYTES + abi.TENSOR["data"]
                    pointer: ir.Value = field(b, inputs, at, PTR)
                elif place.kind == "output":
                    pointer = field(b, outputs, 8 * place.index, PTR)
                elif place.kind == "const":
                    pointer = Opaque(self.constants[value])
                else:
                    assert place.offset is not None
                    pointer = b.gep(arena, [number(place.offset)], source_etype=I8)
                return b.ptrtoint(pointer, I64)

            after = None
            if kernel.rows is not None:
                many = b.icmp_signed("!=", number(_many(kernel.rows)), ir.Constant(I64, 0))
                now = function.append_basic_block("launch")
                after = function.append_basic_block("after")
                b.cbranch(many, *((after, now) if kernel.few else (now, after)))
                b.position_at_end(now)
            for k, argument in enumerate(kernel.arguments):
                if argument.kind == "buffer" and argument.value is not None:
                    entry = address(argument.value)
                elif argument.kind == "size" and argument.dim is not None:
                    entry = number(argument.dim)
                elif argument.kind == "gemm" and argument.op is not None:
                    entry = ir.Constant(I64, self.gemms[argument.op])
                else:
                    raise InternalError(f"argument {k} of {kernel.name} says nothing")
                at = b.gep(arguments, [ir.Constant(I64, k)], source_etype=I64)
                b.store(entry, at)
            if launch.inline:
                # Never a loop: no other thread can be of use, and nothing is worth a trace of its own.
                begin, end, slot = ir.Constant(I64, 0), number(kernel.count), ir.Constant(I32, 0)
                task = Opaque(launch.function)
                status = call_pointer(b, TASK_TYPE, task, [frame, arguments, begin, end, slot])
            else:
                status = call_pointer(
                    b,
                    ir.FunctionType(I32, [PTR, I32, PTR, PTR, I64, I64, I64]),
                    parallel_for,
                    [
                        frame, ir.Constant(I32, launch.task), Opaque(launch.function), arguments,
                        number(kernel.count), number(kernel.grain), number(kernel.item_cost),
                    ],
                )  # fmt: skip
            failed = function.append_basic_block("failed")
            on = function.append_basic_block("next")
            b.cbranch(b.icmp_signed("!=", status, ir.Constant(I32, 0)), failed, on)
            b.position_at_end(failed)
            b.ret(status)
            b.position_at_end(on)
            if after is not None:
                b.branch(after)
                b.position_at_end(after)
        b.ret(ir.Constant(I32, abi.OK))


def _many(rows: Dim) -> Dim:
    """Not zero where there are rows enough for all threads."""
    return rows // few_rows()


class DimEmitter:
    """Dims as LLVM values; each expression is computed once."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder
        self.symbols: dict[str, ir.Value] = {}
        self._made: dict[Dim, ir.Value] = {}

    def with_tile(self, rows: ir.Value) -> DimEmitter:
        """An emitter that also knows the rows of one launch's tile."""
        other = DimEmitter(self.b)
        other.symbols = {**self.symbols, str(TILE_ROWS): rows}
        return other

    def __call__(self, dim: Dim) -> ir.Value:
        if dim not in self._made:
            self._made[dim] = self._emit(dim)
        return self._made[dim]

    def _emit(self, dim: Dim) -> ir.Value:
        b = self.b
        total: ir.Value | None = None
        for monomial, coefficient in dim.terms:
            term: ir.Value | None = None
            for atom in monomial:
                value = self.symbols[atom.name] if isinstance(atom, Symbol) else self._call(atom)
                term = value if term is None else b.mul(term, value)
            if term is None:
                term = ir.Constant(I64, coefficient)
            elif coefficient != 1:
                term = b.mul(term, ir.Constant(I64, coefficient))
            total = term if total is None else b.add(total, term)
        return total if total is not None else ir.Constant(I64, 0)

    def _call(self, call: Call) -> ir.Value:
        """floordiv and mod round to minus infinity and give 0 by 0, as the compiler's own arithmetic does."""
        b = self.b
        left, right = self(call.left), self(call.right)
        if call.function in ("max", "min"):
            sign = ">" if call.function == "max" else "<"
            return b.select(b.icmp_signed(sign, left, right), left, right)
        zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
        none = b.icmp_signed("==", right, zero)
        divisor = b.select(none, one, right)
        quotient = b.sdiv(left, divisor)
        rest = b.sub(left, b.mul(quotient, divisor))
        below = b.and_(
            b.icmp_signed("!=", rest, zero),
            b.icmp_signed("<", b.xor(rest, divisor), zero),
        )
        if call.function == "floordiv":
            result = b.select(below, b.sub(quotient, one), quotient)
        else:
            result = b.select(below, b.add(rest, divisor), rest)
        return b.select(none, zero, result)
