"""A random graph as plain data: what the generator draws, the builder executes, and a case file holds.

A recipe is JSON all the way down, so a failure can be cut smaller without drawing again, saved, and replayed after the
generator has changed. Values of a body are numbered: its parameters first, then the results of its nodes in order.

Sizes are symbols. A dim is a number or an expression over them (`"a"`, `"(a+b)"`); each call gives every symbol a number.
The twin `a_` of a symbol `a` is 1 or `a`, so `[a]` and `[a_]` broadcast in a way that only the call decides.

An operand is
- a number: a value of the body;
- `{"const": values, "dtype", "dims"}` or `{"random": seed, "dtype", "dims"}`: a Const;
- `{"sizes": [number or [value, axis], ...], "dtype"}`: a vector of sizes, computed in the graph from Shapes;
- `{"var": k}`: the handle of variable k;
- a list of operands, for an op that takes a list.

Ops that begin with `@` are not single nodes: `@cond`, `@while`, `@switch` (raw Switch and Merge), `@grad`, `@read` and
`@assign` of a variable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

Dim = int | str
Operand = Any
VERSION = 1

_FUNCTIONS: dict[str, Any] = {"__builtins__": {}, "max": max, "min": min}


@dataclass(frozen=True)
class Type:
    """An element type by its short name (`f32`), and dims."""

    dtype: str
    dims: tuple[Dim, ...]


@dataclass
class Node:
    """One op; `after` are values that it runs after (control edges), `bodies` the graphs inside it."""

    op: str
    inputs: list[Operand]
    attrs: dict[str, Any]
    outs: list[Type]
    after: list[int] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)


@dataclass
class Body:
    """Nodes over parameters; `outputs` are numbers of values."""

    params: list[Type]
    nodes: list[Node] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def types(self) -> list[Type]:
        """The type of every value, by number."""
        return [*self.params, *(out for node in self.nodes for out in node.outs)]


@dataclass
class Input:
    """An input of the graph. `known` says which sizes its signature states (numbers only can be).

    kind: `any`, `finite`, `unit` (positive), `index` (in [0, high)), `values` (given). `key` with a call's seed says what
    it holds, whichever other inputs there are.
    """

    type: Type
    known: list[bool]
    kind: str = "any"
    high: Dim = 0
    values: Any = None
    key: int = 0


@dataclass
class Call:
    """One call: the symbols' sizes, and what the inputs hold. `assign`: variables are assigned before it."""

    sizes: dict[str, int]
    seed: int
    special: bool = False
    assign: bool = False


@dataclass
class Recipe:
    """A graph and the calls to make of it."""

    inputs: list[Input]
    variables: list[Type]
    body: Body
    calls: list[Call]
    options: dict[str, Any] = field(default_factory=dict)
    #: Why calls may run in TensorFlow though it raises nothing; empty: they may not.
    fallback: str = ""
    note: str = ""

    def to_json(self) -> str:
        """Readable text: one node a line."""
        data = {"version": VERSION, **asdict(self)}
        return _layout(data, 0) + "\n"

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The recipe that `to_json` wrote. Raises ValueError for another version."""
        data = json.loads(text)
        version = data.pop("version")
        if version != VERSION:
            raise ValueError(f"a recipe of version {version}; this generator reads {VERSION}")
        return Recipe(
            inputs=[Input(**{**i, "type": _type(i["type"])}) for i in data["inputs"]],
            variables=[_type(t) for t in data["variables"]],
            body=_body(data["body"]),
            calls=[Call(**c) for c in data["calls"]],
            options=data["options"],
            fallback=data["fallback"],
            note=data["note"],
        )


def size_of(dim: Dim, sizes: dict[str, int]) -> int:
    """A dim in a call."""
    if isinstance(dim, int):
        return dim
    return int(eval(dim, _FUNCTIONS, sizes))  # expressions of our own making


def shape_of(dims: tuple[Dim, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    """Dims in a call."""
    return tuple(size_of(d, sizes) for d in dims)


def combine(symbol: str, a: Dim, b: Dim) -> Dim:
    """`a symbol b`, with numbers folded and the operands of sums and products in order."""
    if isinstance(a, int) and isinstance(b, int):
        return size_of(f"{a}{symbol}{b}", {})
    if symbol in "*+":
        neutral = 1 if symbol == "*" else 0
        if neutral in (a, b):
            return b if a == neutral else a
        a, b = sorted((a, b), key=str)
    return f"({a}{symbol}{b})"


def operands(inputs: list[Operand]) -> Iterator[int]:
    """All values that operands refer to."""
    for operand in inputs:
        if isinstance(operand, int):
            yield operand
        elif isinstance(operand, list):
            yield from operands(operand)
        elif "sizes" in operand:
            yield from (s[0] for s in operand["sizes"] if not isinstance(s, int))


def renumbered(inputs: list[Operand], number: dict[int, int]) -> list[Operand]:
    """Operands with every value's number replaced."""

    def one(operand: Operand) -> Operand:
        if isinstance(operand, int):
            return number[operand]
        if isinstance(operand, list):
            return [one(o) for o in operand]
        if "sizes" in operand:
            sizes = [s if isinstance(s, int) else [number[s[0]], s[1]] for s in operand["sizes"]]
            return {**operand, "sizes": sizes}
        return operand

    return [one(operand) for operand in inputs]


def ops_of(body: Body) -> Iterator[str]:
    """The ops of a body and of all bodies in it."""
    for node in body.nodes:
        yield node.op
        for inner in node.bodies.values():
            yield from ops_of(inner)


def _type(data: dict[str, Any]) -> Type:
    return Type(data["dtype"], tuple(data["dims"]))


def _body(data: dict[str, Any]) -> Body:
    nodes = [
        Node(
            n["op"],
            n["inputs"],
            n["attrs"],
            [_type(t) for t in n["outs"]],
            n["after"],
            {name: _body(b) for name, b in n["bodies"].items()},
        )
        for n in data["nodes"]
    ]
    return Body([_type(t) for t in data["params"]], nodes, data["outputs"])


def _layout(data: Any, depth: int) -> str:
    """JSON with short things on one line."""
    flat = json.dumps(data)
    if len(flat) + depth <= 110 or not isinstance(data, (dict, list)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(data, dict):
        parts = [f"{pad}{json.dumps(k)}: {_layout(v, depth + 1)}" for k, v in data.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * depth + "}"
    parts = [pad + _layout(v, depth + 1) for v in data]
    return "[\n" + ",\n".join(parts) + "\n" + " " * depth + "]"
