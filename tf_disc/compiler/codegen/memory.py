"""Where every stored value lies: an output's buffer, the arena, an input, or a constant of the object.

The arena is planned with symbolic sizes: a value takes over the place of a dead one of the same size,
else it gets a place of its own. Offsets are sums of sizes that the host program computes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.passes.eliminate import may_refuse
from tf_disc.compiler.passes.groups import Group, sources
from tf_disc.compiler.passes.materialize import storage_of

#: Cache line; every place in the arena begins at a multiple.
ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """kind: "input" and "output" with a position, "const", or "arena" with an offset in bytes."""

    kind: str
    index: int = 0
    offset: Dim | None = None


@dataclass
class Memory:
    """Places by value, the values that each group stores, and the arena's size in bytes."""

    places: dict[Value, Place]
    stores: dict[int, list[Value]]
    arena_bytes: Dim


def _deep_sources(value: Value, inlined: set[Op]) -> list[Value]:
    found: list[Value] = []
    for op in sources(value):
        if op in inlined:
            for operand in op.operands:
                found += _deep_sources(operand, inlined)
        else:
            found.append(op.result)
    return found


def plan_memory(graph: Graph, groups: list[Group], inlined: set[Op]) -> Memory:
    """Assigns a place to everything that one group stores and another reads."""
    home: dict[Value, int] = {}
    for i, group in enumerate(groups):
        for op in group.all_ops:
            home[op.result] = i
    last: dict[Value, int] = {}
    for i, group in enumerate(groups):
        for op in group.all_ops:
            for operand in op.operands:
                for value in _deep_sources(operand, inlined):
                    if home[value] != i:
                        last[value] = i
    places: dict[Value, Place] = {
        item.value: Place("input", i) for i, item in enumerate(graph.inputs)
    }
    for op in graph.ops:
        if op.name == "const":
            places[op.result] = Place("const")
    outputs = {storage_of(v): i for i, v in enumerate(graph.outputs)}
    for value, i in outputs.items():
        places[value] = Place("output", i)
    stores: dict[int, list[Value]] = {}
    free: list[tuple[Dim, Dim]] = []
    end = as_dim(0)
    for i, group in enumerate(groups):
        stores[i] = []
        for op in group.all_ops:
            value = op.result
            if value not in last and value not in outputs and not may_refuse(op):
                continue
            stores[i].append(value)
            if value in outputs:
                continue
            size = (value.tensor.num_bytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
            reusable = next((f for f in free if f[0] == size), None)
            if reusable is not None:
                free.remove(reusable)
                offset = reusable[1]
            else:
                offset, end = end, end + size
            places[value] = Place("arena", 0, offset)
        # A place is free once the last group that reads it has run.
        for value, reader in last.items():
            place = places.get(value)
            if (
                reader == i
                and place is not None
                and place.kind == "arena"
                and place.offset is not None
            ):
                size = (value.tensor.num_bytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
                free.append((size, place.offset))
    return Memory(places, stores, end)
