"""A recipe in the making: typed values at hand, and ways to get more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.random.recipe import (
    Body,
    Call,
    Dim,
    Input,
    Node,
    Operand,
    Type,
    combine,
    operands,
    renumbered,
    shape_of,
)
from tests.random.source import Source

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i32", "i64", "i8", "i16", "u8")
#: How often a type is drawn where a rule takes several.
_WEIGHTS = {"f32": 12, "f64": 4, "f16": 3, "bf16": 3, "i32": 4, "i64": 4, "i8": 2, "i16": 2, "u8": 2, "bool": 3}  # fmt: skip
#: Most elements of a value, in any call.
MAX_ELEMENTS = 1 << 14
MAX_RANK = 5
SYMBOLS = ("a", "b", "c")
#: Static sizes; 1 among them, so that broadcasts of known dims come up.
STATIC = (1, 2, 3, 4, 5, 7, 8, 17)


@dataclass
class Root:
    """What all bodies of a recipe share."""

    src: Source
    calls: list[Call]
    inputs: list[Input] = field(default_factory=list)
    variables: list[Type] = field(default_factory=list)


class Maker:
    """One body in the making. `parent` is the body around it, of which values can be captured.

    Values have numbers of their own here; `finish` numbers them as a recipe does.
    """

    def __init__(self, root: Root, parent: Maker | None = None) -> None:
        self.root, self.parent, self.src = root, parent, root.src
        self.depth: int = parent.depth + 1 if parent else 0
        self.types: dict[int, Type] = {}
        self.params: list[int] = []
        self.captured: list[int] = []  # of the parent, one a parameter
        self.nodes: list[tuple[Node, list[int]]] = []
        #: Values that no parameter reaches: where the body is dead under a raw Switch, they live.
        self.rootless: set[int] = set()

    # -- values ------------------------------------------------------------------

    def _number(self, type_: Type) -> int:
        self.types[len(self.types)] = type_
        return len(self.types) - 1

    def new_input(self, type_: Type, kind: str = "any", high: Dim = 0, values: Any = None) -> int:
        """A fresh input of the graph, captured into this body if it is an inner one."""
        if self.parent is not None:
            return self.capture(self.parent.new_input(type_, kind, high, values))
        known = [isinstance(d, int) and self.src.chance(35) for d in type_.dims]
        self.root.inputs.append(Input(type_, known, kind, high, values, len(self.root.inputs)))
        self.params.append(self._number(type_))
        return self.params[-1]

    def capture(self, value: int) -> int:
        """The parent's value in this body."""
        assert self.parent is not None
        if value in self.captured:
            return self.params[self.captured.index(value)]
        self.captured.append(value)
        self.params.append(self._number(self.parent.types[value]))
        return self.params[-1]

    def parameter(self, parent_value: int) -> int:
        """A parameter of its own for the parent's value: a loop variable."""
        assert self.parent is not None
        self.captured.append(parent_value)
        self.params.append(self._number(self.parent.types[parent_value]))
        return self.params[-1]

    def new_variable(self, type_: Type) -> int:
        """A fresh variable; its number among the recipe's variables."""
        self.root.variables.append(type_)
        return len(self.root.variables) - 1

    def add(
        self,
        op: str,
        inputs: Sequence[Operand],
        outs: Sequence[Type],
        attrs: dict[str, Any] | None = None,
        bodies: dict[str, Body] | None = None,
    ) -> list[int]:
        """A node; the numbers of its results. Some nodes get a control edge from an earlier value."""
        node = Node(op, list(inputs), attrs or {}, list(outs), [], bodies or {})
        if self.nodes and self.src.chance(4):
            rooted = [v for v in self.types if v not in self.rootless]
            node.after = [self.src.of(rooted)] if rooted else []
        results = [self._number(t) for t in outs]
        self.nodes.append((node, results))
        used = [*operands(node.inputs), *node.after]
        if all(v in self.rootless for v in used):
            self.rootless.update(results)
        return results

    # -- choices -----------------------------------------------------------------

    def all(
        self, dtypes: Iterable[str] | None = None, min_rank: int = 0, max_rank: int = MAX_RANK
    ) -> list[int]:
        """Values at hand of these types and ranks."""
        wanted = None if dtypes is None else set(dtypes)
        return [
            v
            for v, t in self.types.items()
            if (wanted is None or t.dtype in wanted) and min_rank <= len(t.dims) <= max_rank
        ]  # fmt: skip

    def dtype(self, dtypes: Sequence[str]) -> str:
        """One of the types, f32 and its like more often."""
        return self.src.of([d for d in dtypes for _ in range(_WEIGHTS.get(d, 1))])

    def dtype_names(self) -> tuple[str, ...]:
        """All types of values at hand, for ops that take any."""
        return tuple(dict.fromkeys(t.dtype for t in self.types.values())) or ("f32",)

    def dim(self) -> Dim:
        """A symbol, its twin, or a number."""
        choice = self.src.integer(0, 9)
        if choice < 5:
            return self.src.of(SYMBOLS)
        return self.src.of(SYMBOLS) + "_" if choice == 5 else self.src.of(STATIC)

    def dims(self, min_rank: int = 0, max_rank: int = 4) -> tuple[Dim, ...]:
        """Random dims that fit."""
        ranks = [r for r in (0, 1, 1, 2, 2, 2, 2, 3, 3, 4) if min_rank <= r <= max_rank]
        rank = self.src.of(ranks or [min_rank])
        for _ in range(4):
            found = tuple(self.dim() for _ in range(rank))
            if self.fits(found):
                return found
        return tuple(self.src.of((1, 2, 3)) for _ in range(rank))

    def pick(
        self, dtypes: Sequence[str], min_rank: int = 0, max_rank: int = 4, fresh: int = 10
    ) -> int:
        """A value of one of the types: mostly one at hand, the newest most often; else a new input."""
        found = self.all(dtypes, min_rank, max_rank)
        if found and not self.src.chance(fresh):
            # Types that the rule takes are drawn evenly rather than as the pool happens to hold them.
            if self.src.chance(40):
                found = found[-4:]
            return self.src.of(found)
        return self.new_input(Type(self.dtype(dtypes), self.dims(min_rank, max_rank)))

    def same(self, type_: Type, fresh: int = 15) -> int:
        """A value of exactly this type."""
        found = [v for v, t in self.types.items() if t == type_]
        return self.src.of(found) if found and not self.src.chance(fresh) else self.new_input(type_)

    def partner(self, value: int) -> Operand:
        """An operand that broadcasts with the value: at hand, a Const, or a new input."""
        type_ = self.types[value]
        choice = self.src.integer(0, 9)
        if choice == 0:
            return self.scalar(type_.dtype)
        if choice < 8:
            found = [
                v for v, t in self.types.items()
                if t.dtype == type_.dtype and (joined := broadcast(t.dims, type_.dims)) is not None and self.fits(joined)
            ]  # fmt: skip
            if found:
                return self.src.of(found)
        return self.new_input(Type(type_.dtype, self.part_of(type_.dims)))

    def part_of(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Dims that broadcast to these: fewer of them, some 1, some twins."""
        kept = dims[self.src.integer(0, len(dims)) if self.src.chance(40) else 0 :]
        result: list[Dim] = []
        for d in kept:
            choice = self.src.integer(0, 9)
            result.append(1 if choice < 2 else f"{d}_" if choice == 2 and d in SYMBOLS else d)
        return tuple(result)

    def scalar(self, dtype: str) -> Operand:
        """A Const of rank 0."""
        return {"const": self.number(dtype), "dtype": dtype, "dims": []}

    def number(self, dtype: str) -> Any:
        """A number of the type."""
        if dtype == "bool":
            return self.src.chance(50)
        if dtype == "u8":
            return self.src.of((0, 1, 2, 3, 255))
        if dtype in INTEGERS:
            return self.src.of((0, 1, 2, 3, -1, -2, 7, 100))
        return self.src.of((0.5, 0.0, 1.0, -1.0, 2.0, 1e-3, 3.0, -0.7))

    def constant(self, values: Any, dtype: str = "i32") -> Operand:
        """A Const of rank 0 or 1."""
        dims = [len(values)] if isinstance(values, (list, tuple)) else []
        return {"const": list(values) if dims else values, "dtype": dtype, "dims": dims}

    def fits(self, dims: Sequence[Dim]) -> bool:
        """Whether a value of these dims is small enough in every call, and no size is negative."""
        return fits(dims, self.root.calls)

    # -- the end -----------------------------------------------------------------

    def finish(self, outputs: Sequence[int]) -> Body:
        """The body, numbered as recipes are."""
        number = {v: i for i, v in enumerate(self.params)}
        nodes = []
        for node, results in self.nodes:
            node.inputs = renumbered(node.inputs, number)
            node.after = [number[v] for v in node.after]
            for r in results:
                number[r] = len(number)
            nodes.append(node)
        return Body([self.types[p] for p in self.params], nodes, [number[o] for o in outputs])


def fits(dims: Sequence[Dim], calls: Sequence[Call]) -> bool:
    """Whether a value of these dims is small enough in every call, and no size is negative."""
    if len(dims) > MAX_RANK:
        return False
    for call in calls:
        total = 1
        for size in shape_of(tuple(dims), call.sizes):
            if size < 0:
                return False
            total *= size
        if total > MAX_ELEMENTS:
            return False
    return True


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The dims of two values broadcast together, or None where they may not agree."""
    rank = max(len(a), len(b))
    result: list[Dim] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b):
        if x == y or y == 1 or y == f"{x}_":
            result.append(x)
        elif x == 1 or x == f"{y}_":
            result.append(y)
        else:
            return None
    return tuple(result)


def product_of(dims: Iterable[Dim]) -> Dim:
    """The number of elements, as a dim."""
    total: Dim = 1
    for d in dims:
        total = combine("*", total, d)
    return total


#: Adds nodes of one op to the body; False if nothing fitting was at hand.
Builder = Callable[[Maker, Any], bool]
