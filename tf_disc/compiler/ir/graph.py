"""The data of both IR levels: values, ops, blocks, and a graph with its symbols and guards.

Tensor IR (what is computed) and loop IR (how) share these classes, the printer and
the parser; which ops and types are legal at a level is said by ir/verifier.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.types import TensorType, Type


class Value:
    """One SSA value. `op` is None for a graph input or a block argument."""

    __slots__ = ("name", "op", "type")

    def __init__(self, type_: Type, op: Op | None = None, name: str = "") -> None:
        self.type = type_
        self.op = op
        self.name = name

    @property
    def tensor(self) -> TensorType:
        """Its type, at tensor level."""
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.tensor.dims

    @property
    def dtype(self) -> str:
        return self.type.dtype


class Op:
    """One operation. `source` is the name of the TensorFlow node that it came from."""

    __slots__ = ("attrs", "name", "operands", "regions", "results", "source")

    def __init__(
        self,
        name: str,
        operands: list[Value],
        types: list[Type],
        attrs: dict[str, Any] | None = None,
        regions: list[Block] | None = None,
        source: str = "",
    ) -> None:
        self.name = name
        self.operands = operands
        self.attrs = attrs or {}
        self.results = [Value(t, self) for t in types]
        self.regions = regions or []
        self.source = source

    @property
    def result(self) -> Value:
        """The only result."""
        return self.results[0]


class Block:
    """Ops in order, with arguments."""

    __slots__ = ("args", "ops")

    def __init__(self, args: list[Value] | None = None) -> None:
        self.args = args or []
        self.ops: list[Op] = []


@dataclass(frozen=True)
class SymbolSource:
    """Where the run-time value of a symbol is read: ``dim(input, axis)`` or ``value(input, element)``."""

    kind: str
    input: int
    index: int

    def __str__(self) -> str:
        return f"{self.kind}({self.input}, {self.index})"


@dataclass(frozen=True)
class Guard:
    """A relation that must hold for the kernel to be right: ``left relation right``, relation one of == >= !=."""

    left: Dim
    relation: str
    right: Dim
    reason: str = ""

    def holds(self, sizes: dict[str, int]) -> bool:
        a, b = self.left.evaluate(sizes), self.right.evaluate(sizes)
        return a == b if self.relation == "==" else a >= b if self.relation == ">=" else a != b

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@dataclass
class Input:
    """A cluster input. kind: tensor, weight, const or resource (docs/contracts.md)."""

    name: str
    kind: str
    value: Value


@dataclass
class Graph:
    """One cluster in tensor IR."""

    name: str
    inputs: list[Input] = field(default_factory=list)
    symbols: dict[str, SymbolSource] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    block: Block = field(default_factory=Block)
    outputs: list[Value] = field(default_factory=list)

    @property
    def ops(self) -> list[Op]:
        return self.block.ops

    def uses(self) -> dict[Value, list[Op]]:
        """Each value's users, one entry a use, in order."""
        found: dict[Value, list[Op]] = {}
        for op in self.ops:
            for operand in op.operands:
                found.setdefault(operand, []).append(op)
        return found


def walk(block: Block) -> Iterator[Op]:
    """All ops of a block and of the blocks inside it, outer first."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
