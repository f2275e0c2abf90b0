"""What tensor IR must be: every op known, every operand defined before, types as the op says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.ir.functions import FUNCTIONS
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES


@dataclass(frozen=True)
class OpSpec:
    """Operand count (None: any, at least one), required attributes, and a check of types."""

    operands: int | None
    attrs: tuple[str, ...]
    check: Callable[[Op], str]


def _no_check(_: Op) -> str:
    return ""


def _elementwise(op: Op) -> str:
    for operand in op.operands:
        if operand.dims != op.result.dims:
            return f"operand of shape {operand.type} for a result of {op.result.type}"
    return ""


def _transpose(op: Op) -> str:
    perm = op.attrs["perm"]
    if sorted(perm) != list(range(len(op.operands[0].dims))):
        return f"perm {perm} of {op.operands[0].type}"
    expected = tuple(op.operands[0].dims[p] for p in perm)
    return "" if expected == op.result.dims else f"gives {op.result.type}"


def _broadcast(op: Op) -> str:
    inner, outer = op.operands[0].dims, op.result.dims
    if len(inner) > len(outer):
        return "lowers the rank"
    for a, b in zip(inner, outer[len(outer) - len(inner) :], strict=True):
        if a != b and not a.is_one:
            return f"from {op.operands[0].type} to {op.result.type}"
    return ""


def _pad(op: Op) -> str:
    value, fill = op.operands
    if fill.dims or fill.dtype != value.dtype or value.dtype != op.result.dtype:
        return f"of {value.type} with {fill.type} gives {op.result.type}"
    ranks = {len(value.dims), len(op.result.dims), len(op.attrs["begin"]), len(op.attrs["strides"])}
    return "" if len(ranks) == 1 and all(s > 0 for s in op.attrs["strides"]) else "axes or strides"


def _window(op: Op) -> str:
    value, fill = op.operands
    attrs = op.attrs
    spatial = len(value.dims) - 2
    if fill.dims or fill.dtype != value.dtype or value.dtype != op.result.dtype:
        return f"of {value.type} with {fill.type} gives {op.result.type}"
    if any(len(attrs[a]) != spatial for a in ("size", "begin", "strides", "dilations")):
        return f"of {value.type}: an attribute has not {spatial} numbers"
    out = op.result.dims
    if len(out) != 2 + 2 * spatial or (out[0], out[-1]) != (value.dims[0], value.dims[-1]):
        return f"of {value.type} gives {op.result.type}"
    if attrs["inside"] and any(b != 0 for b in attrs["begin"]):
        return f"begins inside at {attrs['begin']}"
    same = all(d == n for d, n in zip(out[1 + spatial : -1], attrs["size"], strict=True))
    return "" if same else f"of size {attrs['size']} gives {op.result.type}"


def _reduction(op: Op) -> str:
    dims = op.operands[0].dims
    kept = tuple(d for i, d in enumerate(dims) if i not in op.attrs["axes"])
    return "" if kept == op.result.dims else f"of {op.operands[0].type} gives {op.result.type}"


def _scan(op: Op) -> str:
    same = op.operands[0].type == op.result.type
    known = op.attrs["kind"] in ("sum", "prod") and op.attrs["axis"] == 1
    return "" if same and known and len(op.result.dims) in (2, 3) else f"gives {op.result.type}"


SCATTERS = ("sum", "sub", "prod", "set", "max", "min", "max_kept", "min_kept")


def _scatter(op: Op) -> str:
    start, indices, updates = op.operands
    same = start.type == op.result.type and len(start.dims) in (1, 2)
    if not same or updates.dims != (*indices.dims, *start.dims[1:]) or len(indices.dims) != 1:
        return f"of {start.type}, {indices.type}, {updates.type} gives {op.result.type}"
    return "" if op.attrs["kind"] in SCATTERS else f"kind {op.attrs['kind']}"


def _matmul(op: Op) -> str:
    a, b = op.operands
    if len(a.dims) != len(b.dims) or a.dims[:-2] != b.dims[:-2]:
        return f"of {a.type} and {b.type}"
    short = op.attrs.get("packed") or b.dtype
    if a.dtype != short or op.result.dtype != ("f32" if a.dtype == "bf16" else a.dtype):
        return f"of {a.type} and {b.type} gives {op.result.type}"
    return ""


SPECS: dict[str, OpSpec] = {
    "const": OpSpec(0, ("values",), _no_check),
    "sizes": OpSpec(0, ("values",), _no_check),
    "iota": OpSpec(0, (), _no_check),
    "broadcast": OpSpec(1, (), _broadcast),
    "reshape": OpSpec(1, (), _no_check),
    "transpose": OpSpec(1, ("perm",), _transpose),
    "slice": OpSpec(1, ("begin", "strides"), _no_check),
    "pad": OpSpec(2, ("begin", "strides"), _pad),
    "window": OpSpec(2, ("size", "begin", "strides", "dilations", "inside"), _window),
    "concat": OpSpec(None, ("axis",), _no_check),
    "scan": OpSpec(1, ("kind", "axis", "exclusive", "reverse"), _scan),
    "scatter": OpSpec(3, ("kind", "drop_negative"), _scatter),
    "gather": OpSpec(2, ("axis", "batch_dims"), _no_check),
    "matmul": OpSpec(2, ("transpose_a", "transpose_b"), _matmul),
    **{
        f"reduce_{k}": OpSpec(1, ("axes",), _reduction)
        for k in ("sum", "prod", "max", "min", "all", "any")
    },
    **{f.name: OpSpec(f.arity, (), _elementwise) for f in FUNCTIONS.values()},
}


def verify_graph(graph: Graph) -> None:
    """Raises InternalError that names the op and what is wrong with it."""
    defined: set[Value] = {i.value for i in graph.inputs}
    for op in graph.ops:
        where = f"{graph.name}: {op.name} @ {op.source or '?'}"
        spec = SPECS.get(op.name)
        if spec is None:
            raise InternalError(f"{where}: tensor IR has no such op")
        if spec.operands is not None and len(op.operands) != spec.operands:
            raise InternalError(f"{where}: {len(op.operands)} operands, expected {spec.operands}")
        missing = [a for a in spec.attrs if a not in op.attrs]
        if missing:
            raise InternalError(f"{where}: attribute {missing[0]} is missing")
        for operand in op.operands:
            if operand not in defined:
                raise InternalError(f"{where}: an operand is used before it is defined")
        if op.result.dtype not in ITEM_BYTES:
            raise InternalError(f"{where}: no element type {op.result.dtype}")
        problem = spec.check(op)
        if problem:
            raise InternalError(f"{where}: {problem}")
        defined.update(op.results)
    for output in graph.outputs:
        if output not in defined:
            raise InternalError(f"{graph.name}: an output is not defined")
    for guard in graph.guards:
        unknown = (guard.left.symbols() | guard.right.symbols()) - set(graph.symbols)
        if unknown:
            raise InternalError(f"{graph.name}: guard {guard} speaks of {sorted(unknown)}")
