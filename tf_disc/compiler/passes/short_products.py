"""Products of numbers that bf16 has read them as bf16: half the memory, twice the arithmetic, and the same terms.

A product of f32 whose operands were all widened from bf16 (`cast` to f32 of a bf16 value, with index maps between)
reads the bf16 values themselves and still gives f32. That is so in graphs of bfloat16, and with
``precision="bf16"``, where the importer rounds the operands of products (GraphBuilder.matmul). The rounding moves below
index maps, into the loop that makes the value. A weight stays as it is: it is rounded where it is packed
(`packed`), once. For machines with instructions for products of bf16 alone.
"""

from __future__ import annotations

from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.short_values import MOVES, is_widened
from tf_disc.compiler.ir.types import TensorType
from tf_disc.compiler.passes.eliminate import eliminate_dead
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.views import has_dense_rows, strided_view


def short_products(graph: Graph) -> None:
    """Rewrites the products and drops the casts that nothing reads any more."""
    weights = {i.value for i in graph.inputs if i.kind == "weight"}
    rewriter = _Rewriter()
    for op in graph.ops:
        if op.name == "matmul" and op.result.dtype == "f32" and not op.attrs.get("packed"):
            rewriter.rewrite(op, weights)
        rewriter.kept.append(op)
    graph.block.ops = rewriter.kept
    eliminate_dead(graph)


class _Rewriter:
    def __init__(self) -> None:
        self.kept: list[Op] = []
        self._lowered: dict[Value, Value] = {}
        self._emitted: dict[tuple[str, Value, str], Value] = {}

    def rewrite(self, op: Op, weights: set[Value]) -> None:
        """Gives the product its short operands, where both have them."""
        a, b = op.operands
        if not is_widened(a) or not is_widened(b):
            return
        packed = _weight_of(op, b, weights)
        left = self.narrow(a)
        if packed is not None:
            view = strided_view(left)
            if view is None or not has_dense_rows(view):
                # Packed products read rows: the operand is written in their order.
                left = self.emit("copy", left, left.tensor, op.source)
            weight = packed if packed.dims == b.dims else self.reshaped(packed, b, op.source)
            op.operands = [left, weight]
            op.attrs = {**op.attrs, "packed": "bf16"}
        else:
            op.operands = [left, self.narrow(b)]

    def narrow(self, value: Value) -> Value:
        """The bf16 value that `value` was widened from."""
        op = value.op
        assert op is not None
        if op.name == "cast":
            return self.lowered(op.operands[0])
        return self.moved(op, self.narrow(op.operands[0]))

    def lowered(self, value: Value) -> Value:
        """A bf16 value, rounded before the index maps that it was rounded after."""
        if value in self._lowered:
            return self._lowered[value]
        op = value.op
        result = value
        if op is not None and op.name in MOVES:
            result = self.moved(op, self.lowered(op.operands[0]))
        elif op is not None and op.name == "cast":
            inner = op.operands[0].op
            if inner is not None and _passes(inner):
                source = inner.operands[0]
                cast = self.emit("cast", source, TensorType("bf16", source.dims), op.source)
                result = self.moved(inner, self.lowered(cast))
        self._lowered[value] = result
        return result

    def moved(self, op: Op, operand: Value) -> Value:
        """The index map `op` of another operand."""
        if op.operands[0] is operand:
            return op.result
        type_ = TensorType(operand.dtype, op.result.dims)
        others = op.operands[1:]
        if op.name == "window":
            (fill,) = others
            assert fill.op is not None
            others = [self.constant(fill.op, operand.dtype)]
        new = Op(op.name, [operand, *others], [type_], op.attrs, source=op.source)
        self.kept.append(new)
        return new.result

    def constant(self, op: Op, dtype: str) -> Value:
        """The constant of another element type."""
        new = Op("const", [], [TensorType(dtype, op.result.dims)], op.attrs, source=op.source)
        self.kept.append(new)
        return new.result

    def reshaped(self, value: Value, like: Value, source: str) -> Value:
        return self.emit("reshape", value, TensorType(value.dtype, like.dims), source)

    def emit(self, name: str, operand: Value, type_: TensorType, source: str) -> Value:
        key = name, operand, str(type_)
        if key not in self._emitted:
            op = Op(name, [operand], [type_], source=source)
            self.kept.append(op)
            self._emitted[key] = op.result
        return self._emitted[key]


def _passes(op: Op) -> bool:
    """True for an index map before which rounding is no more work: of a part of an input, the rest is not rounded."""
    return op.name in MOVES and (op.name != "slice" or storage_of(op.operands[0]).op is not None)


def _weight_of(op: Op, b: Value, weights: set[Value]) -> Value | None:
    """The weight whose rounded form the product multiplies by, if it can be packed."""
    if len(op.result.dims) != 2 or op.attrs["transpose_a"] or "out_perm" in op.attrs:
        return None
    if not all(d.value for d in b.dims):
        return None
    widened = storage_of(b)
    if widened.op is None or widened.op.name != "cast":
        return None
    short = storage_of(widened.op.operands[0])
    if short in weights:
        return short
    if short.op is not None and short.op.name == "cast" and short.op.operands[0].dtype == "f32":
        source = storage_of(short.op.operands[0])
        return source if source in weights else None
    return None
