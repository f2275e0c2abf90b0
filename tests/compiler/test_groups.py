"""What holds of the groups of any graph: every op has one place, and groups run after what they read."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.compiler.random_graphs import RandomCluster, clusters
from tests.compiler.samples import SAMPLES, optimized
from tests.compiler.test_memory import read_by
from tf_disc.compiler.ir.dims import product
from tf_disc.compiler.ir.graph import Graph, Value
from tf_disc.compiler.passes.groups import form_groups
from tf_disc.compiler.passes.materialize import storage_of
from tf_disc.compiler.passes.views import FULL, INDEX_MAPS, splits


def check_groups(graph: Graph) -> None:
    """Raises AssertionError for a group that could not run."""
    groups, inlined = form_groups(graph)
    placed = [op for group in groups for op in group.all_ops]
    computing = [op for op in graph.ops if op.name not in INDEX_MAPS]
    assert len(placed) == len(set(placed)), "an op is in two groups"
    assert set(placed) | inlined == set(computing) and not set(placed) & inlined
    assert not inlined & {storage_of(v).op for v in graph.outputs}, "an output is stored by nobody"
    inputs = {item.value for item in graph.inputs}
    done: set[Value] = set(inputs)
    for group in groups:
        members = {op.result for op in group.all_ops}
        for value in read_by(group, set(inlined)):
            constant = value.op is not None and value.op.name in ("const", "iota", "sizes")
            assert value in done or constant, f"group {group.name} runs before what it reads"
        done |= members
        if group.kind not in ("loop", "attention"):
            continue
        assert group.rows is not None and group.columns is not None
        for op in group.ops:
            full = group.levels[op.result] == FULL
            count = product(op.result.dims)
            assert count == (group.rows * group.columns if full else group.rows)
            assert not full or splits(op.result.dims, group.rows) is not None


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(clusters())
def test_random_groups_can_run(case: tuple[RandomCluster, dict[str, int]]) -> None:
    check_groups(optimized(case[0].cluster))


def test_groups_of_samples_can_run() -> None:
    for make in SAMPLES.values():
        check_groups(optimized(make()))
