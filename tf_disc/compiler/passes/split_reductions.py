"""Cuts long reductions of the first axes into chunks that are reduced apart, then joined in their order.

`reduce([r, c], axis 0)` becomes `reduce(reduce(pad([r, c]) as [r / 64, 64, c], axis 1), axis 0)`: the chunks are work
for several threads, and 64 rows of some columns stay in cache where all rows would not. The chunks do not depend
on the number of threads, so neither does the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_disc.compiler.ir.dims import Dim, as_dim, divided_up, product
from tf_disc.compiler.ir.functions import FUNCTIONS
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import FLOATS, TensorType, limits

#: Rows of a chunk of columns.
ROWS = 64
#: Elements of a chunk where everything is reduced to one: a few microseconds of one thread.
ELEMENTS = 16384


def split_reductions(graph: Graph) -> None:
    """Rewrites reductions of the leading axes of unknown or large size."""
    kept: list[Op] = []
    replaced: dict[Value, Value] = {}
    uses = graph.uses()

    def emit(
        source: Op, name: str, operands: Sequence[Value], dims: Sequence[Dim], **attrs: Any
    ) -> Value:
        type_ = TensorType(source.result.dtype, tuple(dims))
        op = Op(name, list(operands), [type_], attrs, source=source.source)
        kept.append(op)
        return op.result

    for op in graph.ops:
        op.operands = [replaced.get(v, v) for v in op.operands]
        chunk = _chunk(op, uses)
        if chunk is None:
            kept.append(op)
            continue
        x, rest = op.operands[0], op.result.dims
        length = product(x.dims[: len(x.dims) - len(rest)])
        count = divided_up(length, chunk)
        flat = emit(op, "reshape", [x], [length, *rest])
        nothing = emit(op, "const", [], [], values=(identity(op.name[7:], x.dtype),))
        ones, zeros = (1,) * len(flat.dims), (as_dim(0),) * len(flat.dims)
        padded = emit(op, "pad", [flat, nothing], [count * chunk, *rest], begin=zeros, strides=ones)
        chunks = emit(op, "reshape", [padded], [count, as_dim(chunk), *rest])
        partial = emit(op, op.name, [chunks], [count, *rest], axes=(1,))
        replaced[op.result] = emit(op, op.name, [partial], rest, axes=(0,))
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _chunk(op: Op, uses: dict[Value, list[Op]]) -> int | None:
    """Along how many elements to cut a reduction; None where it stays whole."""
    if not op.name.startswith("reduce_"):
        return None
    axes = op.attrs["axes"]
    if tuple(axes) != tuple(range(len(axes))):
        return None
    dims = op.operands[0].dims
    length = product(dims[: len(axes)]).value
    full = len(axes) == len(dims)
    chunk = ELEMENTS if full else ROWS
    if length is not None and length <= 2 * chunk:
        return None
    if full and _comes_back(op.result, op.operands[0].tensor.num_elements, uses):
        return None  # one row with its own epilogue: a single kernel reads it once
    return chunk


def _comes_back(value: Value, count: Dim, uses: dict[Value, list[Op]]) -> bool:
    """True when the value is broadcast over as many elements as it was made of."""
    stack, seen = [value], {value}
    while stack:
        for user in uses.get(stack.pop(), []):
            if user.name == "broadcast" and user.result.tensor.num_elements == count:
                return True
            small = user.name in FUNCTIONS or user.name in ("reshape", "broadcast")
            if small and user.result not in seen and user.result.tensor.num_elements.is_one:
                seen.add(user.result)
                stack.append(user.result)
    return False


def identity(kind: str, dtype: str) -> Any:
    """What changes nothing when it is reduced along."""
    if kind in ("sum", "prod"):
        number = 0 if kind == "sum" else 1
        return float(number) if dtype in FLOATS else number
    if kind in ("all", "any"):
        return kind == "all"
    if dtype in FLOATS:
        return float("-inf") if kind == "max" else float("inf")
    return limits(dtype)[0 if kind == "max" else 1]
