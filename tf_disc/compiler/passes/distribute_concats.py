"""Elementwise ops on a concat become elementwise ops on its pieces: the concat then stores what they give.

`f(concat(a, b), y)` is `concat(f(a, y's part), f(b, y's part))`. A concat computes what only it reads while it stores
(codegen/kernel.py), so that nothing of its size lies in memory between it and `f`. A rotary embedding,
``x * cosine + concat(-x2, x1) * sine``, reads x once or twice and writes once.
"""

from __future__ import annotations

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.functions import FUNCTIONS, is_checked
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import TensorType
from tf_disc.compiler.passes.eliminate import eliminate_dead
from tf_disc.compiler.passes.views import INDEX_MAPS

#: Copies of ops that one concat may lead to: each has a loop of its own.
MOST_COPIES = 64


def distribute_concats(graph: Graph) -> None:
    """Rewrites each concat with the elementwise ops that follow it."""
    uses = graph.uses()
    outputs = set(graph.outputs)
    replaced: dict[Value, Value] = {}
    roots: dict[Op, Op] = {}
    for op in graph.ops:
        if op.name == "concat":
            last = _last(op, uses, outputs)
            if last is not op:
                roots[last] = op
    kept: list[Op] = []
    for op in graph.ops:
        if op in roots:
            pieces = _Pieces(roots[op], uses, outputs, kept)
            replaced[op.result] = pieces.concat(op)
        kept.append(op)
    for op in kept:
        op.operands = [replaced.get(v, v) for v in op.operands]
    graph.block.ops = kept
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
    if roots:
        eliminate_dead(graph)


def _only_user(value: Value, uses: dict[Value, list[Op]], outputs: set[Value]) -> Op | None:
    users = uses.get(value, [])
    return users[0] if len(users) == 1 and value not in outputs else None


def _last(concat: Op, uses: dict[Value, list[Op]], outputs: set[Value]) -> Op:
    """The last of the elementwise ops that follow the concat, each the only reader of the one before."""
    last, chain = concat, 1
    while chain * len(concat.operands) <= MOST_COPIES:
        user = _only_user(last.result, uses, outputs)
        if (
            user is None
            or user.name not in FUNCTIONS
            or user.result.dims != concat.result.dims
            or is_checked(user.name, user.operands[-1].dtype)
            or any(_is_product(v) for v in user.operands)
        ):
            break
        last, chain = user, chain + 1
    return last


def _is_product(value: Value) -> bool:
    """True where a product is read, which has this op as its epilogue."""
    while value.op is not None and (value.op.name in INDEX_MAPS or value.op.name in FUNCTIONS):
        if not value.op.operands:
            return False
        value = value.op.operands[0]
    return value.op is not None and value.op.name == "matmul"


class _Pieces:
    """Values cut where a concat's operands meet."""

    def __init__(
        self, concat: Op, uses: dict[Value, list[Op]], outputs: set[Value], kept: list[Op]
    ) -> None:
        self.axis: int = concat.attrs["axis"]
        self.dims = concat.result.dims
        self.sizes = [v.dims[self.axis] for v in concat.operands]
        self.uses = uses
        self.outputs = outputs
        self.kept = kept
        self.copies = 0
        self._cut: dict[tuple[Value, int], Value] = {}

    def concat(self, last: Op) -> Value:
        """The concat of the pieces of the last op's result."""
        pieces = [self.piece(last.result, i, top=True) for i in range(len(self.sizes))]
        op = Op("concat", pieces, [last.result.type], {"axis": self.axis}, source=last.source)
        self.kept.append(op)
        return op.result

    def piece(self, value: Value, i: int, top: bool = False) -> Value:
        """Part i of a value of the concat's shape: computed of parts where only that is read, else a slice."""
        key = value, i
        if key not in self._cut:
            self._cut[key] = self._piece(value, i, top)
        return self._cut[key]

    def _piece(self, value: Value, i: int, top: bool) -> Value:
        op = value.op
        alone = top or _only_user(value, self.uses, self.outputs) is not None
        if op is not None and op.name == "concat" and alone and self._fits(op):
            return op.operands[i]
        if op is not None and op.name == "broadcast":
            return self._broadcast(op, i)
        if (
            op is not None
            and op.name in FUNCTIONS
            and op.name != "copy"
            and alone
            and self.copies < MOST_COPIES
            and not is_checked(op.name, op.operands[-1].dtype)
        ):
            self.copies += 1
            operands = [self.piece(v, i) for v in op.operands]
            return self._emit(op.name, operands, self._type(value, i), op)
        return self._slice(value, self.axis, i)

    def _fits(self, op: Op) -> bool:
        sizes = [v.dims[self.axis] for v in op.operands]
        return bool(op.attrs["axis"] == self.axis and sizes == self.sizes)

    def _broadcast(self, op: Op, i: int) -> Value:
        """A part of a broadcast is the broadcast of a part, or of all where the axis is repeated."""
        inner = op.operands[0]
        axis = self.axis - (len(self.dims) - len(inner.dims))
        repeated = axis < 0 or (inner.dims[axis].is_one and not self.dims[self.axis].is_one)
        if not repeated:
            inner = self._slice(inner, axis, i)
        return self._emit("broadcast", [inner], self._type(op.result, i), op)

    def _slice(self, value: Value, axis: int, i: int) -> Value:
        begin: list[Dim] = [as_dim(0)] * len(value.dims)
        for size in self.sizes[:i]:
            begin[axis] = begin[axis] + size
        dims = (*value.dims[:axis], self.sizes[i], *value.dims[axis + 1 :])
        attrs = {"begin": tuple(begin), "strides": (1,) * len(begin)}
        source = value.op.source if value.op is not None else ""
        op = Op("slice", [value], [TensorType(value.dtype, dims)], attrs, source=source)
        self.kept.append(op)
        return op.result

    def _type(self, value: Value, i: int) -> TensorType:
        dims = (*self.dims[: self.axis], self.sizes[i], *self.dims[self.axis + 1 :])
        return TensorType(value.dtype, dims)

    def _emit(self, name: str, operands: list[Value], type_: TensorType, like: Op) -> Value:
        attrs = {} if name == "broadcast" else dict(like.attrs)
        op = Op(name, operands, [type_], attrs, source=like.source)
        self.kept.append(op)
        return op.result
