"""Where every stored value lies: an output's buffer, the arena, an input, or a constant of the object.

The arena is planned with symbolic sizes: a value takes over the place of a dead one of the same size,
else it gets a place of its own. Offsets are sums of sizes that the host program computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_disc.compiler.codegen.kernel import few_rows
from tf_disc.compiler.ir.dims import Dim, as_dim, rounded_up
from tf_disc.compiler.ir.graph import Graph, Op, Value
from tf_disc.compiler.ir.types import ITEM_BYTES
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


class _Arena:
    """`free`: sizes and offsets of places that nobody needs any more; `end`: bytes so far."""

    def __init__(self) -> None:
        self.free: list[tuple[Dim, Dim]] = []
        self.end = as_dim(0)

    def take(self, num_bytes: Dim) -> tuple[Dim, Dim]:
        """A free place of the size, else a new one at the end: its size and offset."""
        size = rounded_up(num_bytes, ALIGNMENT)
        place = next((f for f in self.free if f[0] == size), None)
        if place is not None:
            self.free.remove(place)
            return place
        place = size, self.end
        self.end = self.end + size
        return place


def plan_memory(
    graph: Graph,
    groups: list[Group],
    inlined: set[Op],
    prologues: Mapping[Op, Group] | None = None,
) -> Memory:
    """Assigns a place to everything that one group stores and another reads.

    What a prologue reads is read once more where its product runs.
    """
    later = {
        prologues[op]: i
        for i, group in enumerate(groups)
        for op in group.tiles
        if prologues and op in prologues
    }
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
                        last[value] = max(later.get(group, i), last.get(value, i))
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
    arena = _Arena()
    for i, group in enumerate(groups):
        stores[i] = []
        borrowed: list[tuple[Dim, Dim]] = []
        for op in group.tiles if group.kind == "loop" else ():
            # With few rows the product is whole before the loop runs (product_kernel.split_kernels).
            m, n = op.result.dims
            rows = Dim.call("min", m, few_rows())
            place = arena.take(rows * n * ITEM_BYTES[op.result.dtype])
            borrowed.append(place)
            places[op.result] = Place("arena", 0, place[1])
        for op in group.all_ops:
            value = op.result
            if value not in last and value not in outputs and not may_refuse(op):
                continue
            stores[i].append(value)
            if value not in outputs:
                places[value] = Place("arena", 0, arena.take(value.tensor.num_bytes)[1])
        arena.free += borrowed
        # A place is free once the last group that reads it has run.
        for value, reader in last.items():
            found = places.get(value)
            if reader == i and found is not None and found.offset is not None:
                arena.free.append((rounded_up(value.tensor.num_bytes, ALIGNMENT), found.offset))
    return Memory(places, stores, arena.end)
