"""The compiler, start to end: every stage in order, each with a name, a text for the dump and a time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llvmlite import ir

from tf_disc.compiler import __version__
from tf_disc.compiler.codegen.abi import ABI_VERSION
from tf_disc.compiler.codegen.emit_llvm import TaskEmitter, memory_bits, memory_type
from tf_disc.compiler.codegen.host_program import HostProgram, Launch, is_tiny
from tf_disc.compiler.codegen.kernel import Kernel
from tf_disc.compiler.codegen.machine import Machine, MachineModule, machine_for
from tf_disc.compiler.codegen.memory import Memory, plan_memory
from tf_disc.compiler.codegen.object_file import compile_object, llvm_version
from tf_disc.compiler.codegen.product_kernel import build_kernel, split_kernels
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.text import print_block, print_graph
from tf_disc.compiler.ir.verifier import verify_graph
from tf_disc.compiler.passes.distribute_concats import distribute_concats
from tf_disc.compiler.passes.eliminate import eliminate_common, eliminate_dead
from tf_disc.compiler.passes.groups import Group, form_groups
from tf_disc.compiler.passes.materialize import materialize, storage_of
from tf_disc.compiler.passes.move_transposes import move_transposes
from tf_disc.compiler.passes.prologues import find_prologues
from tf_disc.compiler.passes.short_products import short_products
from tf_disc.compiler.passes.simplify_logic import simplify_logic
from tf_disc.compiler.passes.split_reductions import split_reductions
from tf_disc.compiler.passes.thin_products import thin_products

#: Tensor IR passes in order. Valid IR in, valid IR out.
PASSES: dict[str, Callable[[Graph], None]] = {
    "simplify_logic": simplify_logic,
    "eliminate_dead": eliminate_dead,
    "eliminate_common": eliminate_common,
    "thin_products": thin_products,
    "split_reductions": split_reductions,
    "move_transposes": move_transposes,
    "short_products": short_products,
    "distribute_concats": distribute_concats,
    "materialize": materialize,
}


@dataclass(frozen=True)
class Artifact:
    """What a compile gives: docs/contracts.md 5. `stage_ms` says where the time went."""

    manifest: str
    object: bytes
    stage_ms: dict[str, float] = field(default_factory=dict)


class _Stages:
    """Times the stages and writes their texts, numbered, only where they changed."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) if folder else None
        self.times: dict[str, float] = {}
        self._started = time.perf_counter()
        self._count = 0
        self._last = ""
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def done(self, name: str, text: Callable[[], str], suffix: str = "disc") -> None:
        """Ends a stage. `text` is asked for only when there is a dump folder."""
        self.times[name] = round((time.perf_counter() - self._started) * 1e3, 3)
        if self.folder:
            content = text()
            if content != self._last:
                self._count += 1
                (self.folder / f"{self._count:02d}_{name}.{suffix}").write_text(content)
                self._last = content
        self._started = time.perf_counter()


def compile_cluster(
    cluster: Mapping[str, Any],
    *,
    target: str,
    features: str = "",
    precision: str = "f32",
    dump: str = "",
    attention: bool = True,
) -> Artifact:
    """Compiles a cluster file (docs/contracts.md 3).

    target: one of codegen/machine.py; features: LLVM's feature text on top. precision: "bf16" rounds the operands of
    f32 products, on machines that multiply bf16. dump: a folder for every stage's text. attention: False leaves its
    products and loops apart, which tests compare. Raises UnsupportedError with the node and the reason.
    """
    machine = machine_for(target, features)
    stages = _Stages(dump)
    if stages.folder:
        (stages.folder / "cluster.json").write_text(json.dumps(cluster, indent=1))
        asked = {"target": target, "features": features, "precision": precision}
        (stages.folder / "compile.json").write_text(json.dumps(asked, indent=1))
    rounds = precision == "bf16" and machine.short_products
    graph = import_cluster(cluster, rounds_products=rounds)
    verify_graph(graph)
    stages.done("import", lambda: print_graph(graph))
    for name, run in PASSES.items():
        if run is short_products and not machine.short_products:
            continue
        run(graph)
        verify_graph(graph)
        stages.done(name, lambda: print_graph(graph))
    if machine.tile_products:
        # oneDNN multiplies all columns of a packed weight (cc/runtime/gemm.cc).
        for op in graph.ops:
            if op.attrs.get("packed"):
                op.attrs["whole_columns"] = True
    groups, inlined = form_groups(graph, attention=attention)
    prologues = find_prologues(graph, groups)
    memory = plan_memory(graph, groups, inlined, prologues)
    stages.done("groups", lambda: describe_groups(graph, groups, memory))
    weights = {i.value for i in graph.inputs if i.kind == "weight"}
    kernels: list[Kernel] = []
    inline: list[bool] = []  # by kernel
    for i, group in enumerate(groups):
        kernel = build_kernel(group, inlined, memory.stores[i], weights, prologues)
        tile = next((op for op, before in prologues.items() if before is group), None)
        if tile is not None:
            # With many rows the product prepares them itself.
            kernel = replace(kernel, rows=tile.result.dims[0], few=True)
        if group.kind == "loop" and group.tiles:
            kernels += split_kernels(kernel, group, inlined, memory.stores[i], weights)
        else:
            kernels.append(kernel)
        inline += [is_tiny(group, inlined)] * (len(kernels) - len(inline))
    stages.done("loops", lambda: "\n".join(kernel_text(k) for k in kernels))
    program, tasks, gemms = _emit_module(graph, memory, kernels, inline, machine)
    text = str(program.module)
    stages.done("llvm", lambda: text, "ll")
    compiled = compile_object(text, target, features, texts=bool(dump))
    stages.done("optimize", lambda: compiled.optimized, "ll")
    stages.done("emit", lambda: compiled.assembly, "s")
    manifest = _manifest(graph, program, tasks, gemms, f"{target} {features}".strip())
    if stages.folder:
        (stages.folder / "manifest.txt").write_text(manifest)
        (stages.folder / "kernel.o").write_bytes(compiled.object)
    return Artifact(manifest, compiled.object, stages.times)


def kernel_text(kernel: Kernel) -> str:
    """A kernel's loop IR with what the host passes to it."""
    when = "" if kernel.few is None else f" few={str(kernel.few).lower()}"
    lines = [f"kernel {json.dumps(kernel.name)} count={kernel.count} grain={kernel.grain}{when}"]
    for i, a in enumerate(kernel.arguments):
        what = str(a.dim) if a.dim is not None else a.kind
        lines.append(f"  argument {i} {a.kind} {what}")
    return "\n".join(lines) + "\n" + print_block(kernel.body)


def describe_groups(graph: Graph, groups: list[Group], memory: Memory) -> str:
    """The groups as text: members, loop shape, and what each stores where."""
    lines: list[str] = []
    for i, group in enumerate(groups):
        shape = f"{group.rows} x {group.columns}" + (" flat" if group.flat else "")
        lines.append(f"group {i} {group.kind} [{shape}] {group.name}")
        for op in group.all_ops:
            value = op.result
            mark = group.levels.get(value, "")
            mark = "tile" if op in group.tiles else "after" if op in group.after else mark
            place = memory.places.get(value)
            stored = (
                f" -> {place.kind} {place.offset or place.index}"
                if value in memory.stores[i] and place
                else ""
            )
            lines.append(f"  {mark:5} {op.name}: {value.type}{stored}")
    return "\n".join(lines) + "\n"


def _emit_module(
    graph: Graph, memory: Memory, kernels: list[Kernel], inline: list[bool], machine: Machine
) -> tuple[HostProgram, list[str], dict[Op, int]]:
    module = MachineModule(graph.name, machine)
    constants = _constants(module, graph, kernels)
    gemms: dict[Op, int] = {}
    functions: dict[str, ir.Function] = {}
    launches: list[Launch] = []
    tasks: list[str] = []
    for kernel, is_inline in zip(kernels, inline, strict=True):
        for argument in kernel.arguments:
            if argument.kind == "gemm" and argument.op is not None and argument.op not in gemms:
                gemms[argument.op] = len(gemms)
        # Equal groups, such as the layers of an encoder, share one function.
        code = print_block(kernel.body, sources=False)
        if code not in functions:
            functions[code] = TaskEmitter(module, f"task_{len(functions)}", machine.lanes).emit(
                kernel.body
            )
        launches.append(Launch(kernel, functions[code], len(tasks), is_inline))
        tasks.append(kernel.name)
    program = HostProgram(module, graph, memory, launches, gemms, constants)
    program.emit()
    return program, tasks, gemms


def _constants(
    module: ir.Module, graph: Graph, kernels: list[Kernel]
) -> dict[Value, ir.GlobalVariable]:
    used = {a.value for k in kernels for a in k.arguments if a.kind == "buffer"}
    constants: dict[Value, ir.GlobalVariable] = {}
    for op in graph.ops:
        if op.name != "const" or op.result not in used:
            continue
        element = memory_type(op.result.dtype)
        values = [memory_bits(v, op.result.dtype) for v in op.attrs["values"]]
        type_ = ir.ArrayType(element, len(values))
        item = ir.GlobalVariable(module, type_, f"const_{len(constants)}")
        item.initializer = ir.Constant(type_, [ir.Constant(element, v) for v in values])
        item.global_constant = True
        item.linkage = "internal"
        item.align = 64
        constants[op.result] = item
    return constants


def _manifest(
    graph: Graph, program: HostProgram, tasks: list[str], gemms: dict[Op, int], target: str
) -> str:
    lines = [
        "tf_disc manifest 1",
        f"abi {ABI_VERSION}",
        f"compiler {__version__}",
        f"llvm {llvm_version()}",
        f"target {target}",
        "entry plan disc_plan",
        "entry run disc_run",
        f"sizes {program.num_sizes}",
    ]
    position = {item.value: i for i, item in enumerate(graph.inputs)}
    for i, item in enumerate(graph.inputs):
        lines.append(f"input {i} {item.value.dtype} {item.value.tensor.rank}")
    for i, output in enumerate(graph.outputs):
        lines.append(f"output {i} {output.dtype} {output.tensor.rank}")
    for op, i in gemms.items():
        weight = storage_of(op.operands[1])
        transposed = int(op.attrs["transpose_b"])
        packed = op.attrs.get("packed", weight.dtype)
        k, n = op.operands[0].dims[-1], op.result.dims[-1]
        lines.append(
            f"gemm {i} weight={position[weight]} dtype={weight.dtype} packed={packed} k={k} n={n} transpose={transposed}"
        )
    for i, name in enumerate(tasks):
        lines.append(f"task {i} {name}")
    for i, guard in enumerate(graph.guards):
        reason = " ".join(guard.reason.split())
        lines.append(f"guard {i} {_spell(graph, str(guard))} ({reason})")
    return "\n".join(lines) + "\n"


def _spell(graph: Graph, text: str) -> str:
    """Symbols in the user's words: an input's name and axis."""
    for name, source in sorted(graph.symbols.items(), key=lambda s: -len(s[0])):
        item = graph.inputs[source.input].name
        word = f"dim({source.index})" if source.kind == "dim" else f"[{source.index}]"
        parts = text.split(name)
        text = (
            f"{item}.{word}".join(parts) if word.startswith("dim") else f"{item}{word}".join(parts)
        )
    return text


__all__ = ["PASSES", "Artifact", "compile_cluster"]
