"""Columns that a causal mask leaves out of an attention group's block of rows are not computed.

There `select(mask, scores, fill)` is the fill whatever the scores are, so each full value that is made of it is one number a
row, computed once: reductions take that number into account as often as there are such columns, and the
product behind adds it times the sum of their values, so that NaN, infinities and a fill that is not small act
as they would column by column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_disc.compiler.codegen.evaluation import COMBINE
from tf_disc.compiler.codegen.kernel import KernelBuilder
from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.graph import Op, Value
from tf_disc.compiler.ir.types import LoopType
from tf_disc.compiler.passes.causal import known_beyond
from tf_disc.compiler.passes.views import FULL, ROW, through_broadcast, trailing_reduction

#: Reductions that one more element changes in a way that is known for many.
_JOINED = ("max", "min", "any", "all")


@dataclass
class MaskedColumns:
    """`shift`: columns from row + shift on are masked by each of `masks`, ops of the group with the fill's position."""

    shift: Dim
    masks: dict[Op, int] = field(default_factory=dict)
    is_short: Value | None = None
    count: Value | None = None

    @staticmethod
    def find(k: KernelBuilder, given: list[Value], height: Dim) -> MaskedColumns | None:
        """What the group's masks leave out, if all that follows is known there."""
        found: MaskedColumns | None = None
        for op in k.group.ops:
            dims = op.result.dims
            if op.name != "select" or k.group.levels[op.result] != FULL or len(dims) < 2:
                continue
            if dims[-2] != height or dims[-1] != k.columns:
                continue
            for fill, truth in ((2, False), (1, True)):
                shift = known_beyond(op.operands[0], truth)
                if shift is None or (found is not None and found.shift != shift):
                    continue
                found = found or MaskedColumns(shift)
                found.masks[op] = fill
        if found is None:
            return None
        stored = [v for v in k.stores if v not in k.blocks and k.group.levels[v] == FULL]
        reductions = [op for op in k.group.ops if trailing_reduction(op)]
        kinds = {op.name.removeprefix("reduce_") for op in reductions}
        reduced = [op.operands[0] for op in reductions]
        known = all(found.is_known(k, v) for v in (*given, *reduced))
        sums = all(v.dtype == "f32" for v in reduced) and kinds <= {"sum", *_JOINED}
        sums = sums and all(v.dtype in ("f32", "bf16") for v in given)
        return found if known and sums and not stored else None

    def begin(self, k: KernelBuilder, end: Value) -> None:
        """Has the loops over columns end there, and reductions know of the others."""
        columns = k.size(k.columns)
        self.is_short = k.b.pure("lt", [end, columns], LoopType("bool"))
        left = k.b.int_op("isub", columns, end)
        self.count = k.b.pure("cast", [left], LoopType("f32"))
        k.columns_end = end
        k.join_rest = lambda kind, op, total: self.join(k, kind, op, total)

    def is_known(self, k: KernelBuilder, value: Value) -> bool:
        """True where a full value is one number a row beyond the mask."""
        if value in k.members and k.group.levels[value] == FULL:
            op = value.op
            assert op is not None
            if op in self.masks:
                return self.is_known(k, op.operands[self.masks[op]])
            if op.name == "select" and self.number(k, value) is not None:
                return True
            if op.name.startswith("reduce_"):
                return False
            return all(self.is_known(k, v) for v in op.operands)
        step = _source(k, value)
        return step is not None and (step[1] != FULL or self.is_known(k, step[0]))

    def value(self, k: KernelBuilder, value: Value) -> Value:
        """That number, at this row."""
        if value in k.members and k.group.levels[value] == FULL:
            op = value.op
            assert op is not None
            if op in self.masks:
                return self.value(k, op.operands[self.masks[op]])
            fill = self.number(k, value) if op.name == "select" else None
            if fill is not None:
                return k.constant(fill, value.dtype)
            operands = [self.value(k, v) for v in op.operands]
            if op.name == "copy":
                return operands[0]
            return k.b.pure(op.name, operands, LoopType(value.dtype))
        step = _source(k, value)
        assert step is not None
        inner, kind = step
        if kind == FULL:
            return self.value(k, inner)
        if kind == ROW:
            return k.evaluate(inner, ROW)
        return k.evaluate(inner, tuple(k.math.constant(0) for _ in inner.dims))

    def number(self, k: KernelBuilder, value: Value) -> float | None:
        """The same where it is a constant, whichever way another mask chooses."""
        op = value.op
        if op is None:
            return None
        if op.name in ("broadcast", "reshape"):
            return self.number(k, op.operands[0])
        if op.name == "const":
            return float(op.attrs["values"][0]) if value.tensor.num_elements.is_one else None
        if op in self.masks:
            return self.number(k, op.operands[self.masks[op]])
        if op.name != "select" or value not in k.members:
            return None
        a, b = (self.number(k, v) for v in op.operands[1:])
        return a if a == b else None

    def join(self, k: KernelBuilder, kind: str, op: Op, total: Value) -> Value:
        """A reduction of the columns that were walked, with the others."""
        assert self.is_short is not None and self.count is not None
        type_ = LoopType(op.result.dtype)
        element = self.value(k, op.operands[0])
        if kind == "sum":
            element = k.b.pure("mul", [self.count, element], type_)
        joined = k.b.pure(COMBINE[kind], [total, element], type_)
        return k.b.pure("select", [self.is_short, joined, total], type_)


def _source(k: KernelBuilder, value: Value) -> tuple[Value, str] | None:
    """What a value that is no full member is, one number a row at most: ("row"), or one number at all ("")."""
    while True:
        if value.tensor.num_elements.is_one and not _is_member(k, value):
            return value, ""
        if _is_member(k, value):
            return value, k.group.levels[value]
        op = value.op
        if op is None or op.name not in ("broadcast", "reshape"):
            return None
        inner = op.operands[0]
        if op.name == "broadcast":
            if inner.tensor.num_elements.is_one:
                return (inner, ROW) if _is_member(k, inner) else (inner, "")
            step = through_broadcast(value.dims, inner.dims, k.rows)
            if step == ROW:
                return inner, ROW
            if step is None:
                return None
        value = inner


def _is_member(k: KernelBuilder, value: Value) -> bool:
    return value in k.members
