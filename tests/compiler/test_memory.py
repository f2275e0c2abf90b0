"""No two values that are alive at one time share bytes of the arena."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.compiler.random_graphs import RandomCluster, clusters
from tests.compiler.samples import optimized
from tf_disc.compiler.codegen.kernel import MIN_SHARE_ROWS, SLOTS
from tf_disc.compiler.codegen.memory import ALIGNMENT, Memory, Place, plan_memory
from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Graph, Value
from tf_disc.compiler.ir.text import parse_graph
from tf_disc.compiler.passes.groups import Group, form_groups
from tf_disc.compiler.passes.views import INDEX_MAPS

Span = tuple[int, int]


def read_by(group: Group, inlined: set[object]) -> set[Value]:
    """Every value that a group reads, through index maps and the ops that it computes for itself."""
    found: set[Value] = set()
    members = {op.result for op in group.all_ops}

    def follow(value: Value) -> None:
        op = value.op
        if op is not None and (op.name in INDEX_MAPS or op in inlined):
            for operand in op.operands:
                follow(operand)
        elif value not in members:
            found.add(value)

    for op in group.all_ops:
        for operand in op.operands:
            follow(operand)
    return found


def overlaps(
    graph: Graph, groups: list[Group], inlined: set[object], memory: Memory, sizes: dict[str, int]
) -> list[str]:
    """What is wrong with the plan at these sizes, in words."""
    problems: list[str] = []
    reads = [read_by(group, inlined) for group in groups]
    spans: dict[Value, tuple[Span, Span]] = {}
    end = memory.arena_bytes.evaluate(sizes)
    for i in range(len(groups)):
        for value in memory.stores[i]:
            last = max((j for j, r in enumerate(reads) if value in r), default=i)
            place = memory.places[value]
            if place.kind != "arena":
                continue
            assert place.offset is not None
            begin = place.offset.evaluate(sizes)
            size = value.tensor.num_bytes.evaluate(sizes)
            if begin % ALIGNMENT or begin < 0 or begin + size > end:
                problems.append(f"[{begin}, {begin + size}) of an arena of {end}")
            spans[value] = ((i, last), (begin, begin + size))
        for op in groups[i].tiles if groups[i].kind == "loop" else ():
            # Whole for as long as the group runs, where rows are few.
            rows = min(sizes[str(SLOTS)] * MIN_SHARE_ROWS, op.result.dims[0].evaluate(sizes))
            size = 4 * rows * op.result.dims[1].evaluate(sizes)
            place = memory.places[op.result]
            assert place.offset is not None
            begin = place.offset.evaluate(sizes)
            spans[op.result] = ((i, i), (begin, begin + size))
    items = list(spans.items())
    for k, (_, (live, span)) in enumerate(items):
        for _, (other_live, other) in items[:k]:
            together = live[0] <= other_live[1] and other_live[0] <= live[1]
            if together and max(span[0], other[0]) < min(span[1], other[1]):
                problems.append(f"{span} and {other} in groups {live} and {other_live}")
    stored = {v for values in memory.stores.values() for v in values}
    inputs = {item.value for item in graph.inputs}
    for i, values in enumerate(reads):
        for value in values - inputs:
            if value not in stored and not (value.op is not None and value.op.name == "const"):
                problems.append(f"group {i} reads a value that nothing stores")
    return problems


def hints_of(graph: Graph, made: RandomCluster, sizes: dict[str, int]) -> dict[str, int]:
    """The values of the graph's symbols for a random cluster's sizes."""
    shapes = [[sizes.get(d, d) for d in shape] for _, shape in made.shapes]
    return {n: shapes[s.input][s.index] if s.kind == "dim" else 1 for n, s in graph.symbols.items()}


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_live_values_do_not_overlap(case: tuple[RandomCluster, dict[str, int]]) -> None:
    made, sizes = case
    graph = optimized(made.cluster)
    groups, inlined = form_groups(graph)
    memory = plan_memory(graph, groups, inlined)
    for change in ({}, {"a": 5, "b": 7, "c": 3}, {"a": 64, "b": 1, "c": 0}):
        at = {**hints_of(graph, made, {**sizes, **change}), str(SLOTS): 2}
        assert overlaps(graph, groups, set(inlined), memory, at) == []


CHAIN = """graph @chain {
  tensor %0: f32[d0_0, 8] @ "x"
  tensor %1: f32[8, 8] @ "m"
  symbol d0_0 = dim(0, 0)
  %2: f32[d0_0, 8] = matmul(%0, %1) {transpose_a=false, transpose_b=false} @ "one"
  %3: f32[d0_0, 8] = matmul(%2, %1) {transpose_a=false, transpose_b=false} @ "two"
  %4: f32[d0_0, 8] = matmul(%3, %1) {transpose_a=false, transpose_b=false} @ "three"
  %5: f32[d0_0, 8] = matmul(%4, %1) {transpose_a=false, transpose_b=false} @ "four"
  return %5
}
"""


def test_a_dead_values_place_is_taken_over() -> None:
    graph = parse_graph(CHAIN)
    groups, inlined = form_groups(graph)
    memory = plan_memory(graph, groups, inlined)
    one, two, three, four = (memory.places[op.result] for op in graph.ops)
    one_value = (as_dim(32) * Dim.symbol("d0_0") + 63) // 64 * 64
    assert memory.arena_bytes == one_value * 2
    assert one.offset == three.offset == 0 and two.offset == one_value
    assert four == Place("output", 0)
    assert overlaps(graph, groups, set(inlined), memory, {"d0_0": 5}) == []


def test_the_check_sees_an_overlap() -> None:
    graph = parse_graph(CHAIN)
    groups, inlined = form_groups(graph)
    memory = plan_memory(graph, groups, inlined)
    second = graph.ops[1].result
    memory.places[second] = Place("arena", 0, as_dim(64))
    (problem,) = overlaps(graph, groups, set(inlined), memory, {"d0_0": 5})[:1]
    assert problem == "(64, 224) and (0, 160) in groups (1, 2) and (0, 1)"
    assert overlaps(graph, groups, set(inlined), memory, {"d0_0": 2}) == []
