"""What a rule is: all that tf_disc knows of one TensorFlow op, in one record.

The importer, the clustering pass (through `op_table`), docs/ops.md and the tests read
the same record. docs/adding_an_op.md shows how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tf_disc.compiler.errors import UnsupportedError
from tf_disc.compiler.ir.builder import GraphBuilder
from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.graph import Value

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Arg:
    """One operand of an example. `values` fixes the contents; else they are drawn for the dtype.

    kind: "any" (normal numbers with NaN, inf and signed zeros mixed in), "unit" (positive, finite), "finite",
    "nonzero" (of integers). `high` > 0: integers in [0, high).
    """

    dtype: str
    dims: tuple[int, ...] = ()
    kind: str = "any"
    values: Any = None
    high: int = 0


@dataclass(frozen=True)
class Example:
    """One call of the op: operands in the op's order, and attributes by their TensorFlow names."""

    args: tuple[Arg, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""  # the error class's name, where TensorFlow refuses the call


def i32(*values: int) -> Arg:
    """An operand of fixed integers: a shape, a list of axes."""
    return Arg("i32", (len(values),), values=values)


def i32_pairs(*values: int) -> Arg:
    """An operand of a fixed pair an axis: paddings, crops."""
    return Arg("i32", (len(values) // 2, 2), values=values)


def scalar_i32(value: int) -> Arg:
    """An operand of one fixed integer: an axis, a count."""
    return Arg("i32", (), values=value)


class RuleContext:
    """What a rule's functions see of the node in hand."""

    def __init__(
        self,
        builder: GraphBuilder,
        name: str,
        op: str,
        inputs: Sequence[Value],
        attrs: Mapping[str, Any],
    ) -> None:
        self.b = builder
        self.name = name
        self.op = op
        self.inputs = list(inputs)
        self._attrs = attrs

    def __getitem__(self, position: int) -> Value:
        return self.inputs[position]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's plain value (docs/contracts.md 3), or the default."""
        found = self._attrs.get(name)
        if found is None:
            return default
        return next(iter(found.values()))

    def constant(self, position: int) -> list[int]:
        """The integers of a by-value operand, flat."""
        value = self.inputs[position]
        if value not in self.b.constants:
            raise self.unsupported(f"operand {position} ({value.type}) must be a constant")
        return [int(v) for v in self.b.constants[value]]

    def axes(self, position: int, rank: int) -> list[int]:
        """A by-value operand as axes in [0, rank)."""
        return [self.axis(a, rank) for a in self.constant(position)]

    def axis(self, axis: int, rank: int) -> int:
        """One axis, counted from the front."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"axis {axis} is not in [-{rank}, {rank})")
        return axis % rank

    def sizes(self, position: int) -> tuple[Dim, ...]:
        """The symbolic elements of an integer operand that says sizes."""
        return self.b.known_contents(self.inputs[position], f"operand {position} of {self.op}")

    def unsupported(self, why: str) -> UnsupportedError:
        """An error that names the node."""
        types = ", ".join(str(v.type) for v in self.inputs)
        return UnsupportedError(
            f'{self.op} "{self.name}" ({types}): {why}. The cluster stays with TensorFlow; see docs/adding_an_op.md'
        )


ShapeRule = Callable[[RuleContext], Sequence[Dims]]
Lowering = Callable[[RuleContext], Value | Sequence[Value]]


@dataclass(frozen=True)
class OpRule:
    """One op.

    `shape` gives the results' shapes and states what sizes must agree; `lower` builds core ops. The importer
    holds the two against each other. The other fields are docs/contracts.md 1.
    """

    op: str
    dtypes: Mapping[str, tuple[str, ...]]
    shape: ShapeRule
    lower: Lowering
    examples: tuple[Example, ...]
    cost: str = "real"
    alone: bool = False
    attrs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_value: tuple[int, ...] = ()
    by_length: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    resources: tuple[int, ...] = ()
    constant: str = "no"
    notes: str = ""

    def table_entry(self) -> dict[str, Any]:
        """The record as the pass gets it."""
        return {
            "op": self.op,
            "dtypes": {k: list(v) for k, v in self.dtypes.items()},
            "attrs": {k: list(v) for k, v in self.attrs.items()},
            "by_value": list(self.by_value),
            "by_length": list(self.by_length),
            "weights": list(self.weights),
            "resources": list(self.resources),
            "cost": self.cost,
            "alone": self.alone,
            "constant": self.constant,
        }


# -- shape rules that many ops share ---------------------------------------------


def same_as_first(c: RuleContext) -> list[Dims]:
    """The first operand's shape."""
    return [c[0].dims]


def broadcast_all(c: RuleContext) -> list[Dims]:
    """All operands broadcast together."""
    return [c.b.broadcast_dims(*(v.dims for v in c.inputs))]
