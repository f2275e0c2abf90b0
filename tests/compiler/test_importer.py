"""From a cluster file to tensor IR: symbols, guards, speculation, and what each refusal says."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.samples import SAMPLES
from tf_disc.compiler.errors import InternalError, ShapeError, UnsupportedError
from tf_disc.compiler.importer.cluster_file import import_cluster, load_cluster
from tf_disc.compiler.ir.graph import Graph
from tf_disc.compiler.ir.text import print_graph
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.record import RuleContext

F32 = np.float32


def add(x: tuple[int, ...], y: tuple[int, ...]) -> Graph:
    """x + y, all sizes unknown, with these hints."""
    w = ClusterWriter()
    a, b = w.tensor("x", np.zeros(x, F32)), w.tensor("y", np.zeros(y, F32))
    return import_cluster(w.cluster(w.node("AddV2", a, b, name="sum")))


def guards(graph: Graph) -> list[str]:
    """The guards as text."""
    return [str(g) for g in graph.guards]


# -- speculation -----------------------------------------------------------------------


def test_sizes_that_must_agree_become_one_symbol_with_a_guard() -> None:
    graph = add((3, 5), (3, 5))
    assert str(graph.outputs[0].type) == "f32[d0_0, d0_1]"
    assert guards(graph) == ["d1_0 == d0_0", "d1_1 == d0_1"]
    assert [g.reason for g in graph.guards] == ["sum: broadcast"] * 2
    assert [op.name for op in graph.ops] == ["add"], "nothing is broadcast"


def test_a_hint_of_1_against_another_becomes_a_constant() -> None:
    graph = add((3, 1), (3, 5))
    assert [str(v.value.type) for v in graph.inputs] == ["f32[d0_0, 1]", "f32[d0_0, d1_1]"]
    assert str(graph.outputs[0].type) == "f32[d0_0, d1_1]"
    assert sorted(guards(graph)) == ["d0_1 == 1", "d1_0 == d0_0"]
    graph = add((3, 5), (3, 1))
    assert [str(v.value.type) for v in graph.inputs] == ["f32[d0_0, d0_1]", "f32[d0_0, 1]"]
    assert sorted(guards(graph)) == ["d1_0 == d0_0", "d1_1 == 1"]


def test_axes_of_size_1_are_not_reduced() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((1, 3, 1, 5), F32), [1, None, 1, None])
    total = w.node("Sum", x, w.constant([0, 2, 3]), keep_dims=False)
    graph = import_cluster(w.cluster(total))
    assert [op.name for op in graph.ops if op.name != "const"] == ["reshape", "reduce_sum"]
    assert str(graph.outputs[0].type) == "f32[d0_1]"


def test_equal_hints_of_1_are_equal_and_stay_unknown() -> None:
    graph = add((1,), (1,))
    assert str(graph.outputs[0].type) == "f32[d0_0]"
    assert guards(graph) == ["d1_0 == d0_0"]


def test_a_speculation_reaches_what_was_imported_before_it() -> None:
    w = ClusterWriter()
    x, y, z = (w.tensor(n, np.zeros((4,), F32)) for n in "xyz")
    w.node("Neg", z, name="early")
    first = w.node("AddV2", y, z, name="first")
    second = w.node("AddV2", x, y, name="second")
    graph = import_cluster(w.cluster("early:0", first, second))
    assert {str(v.type) for v in graph.outputs} == {"f32[d0_0]"}
    sizes = {"d0_0": 4, "d1_0": 4, "d2_0": 4}
    assert all(g.holds(sizes) for g in graph.guards)
    for other in sizes:
        assert not all(g.holds({**sizes, other: 5}) for g in graph.guards), other


def test_known_sizes_are_guarded_and_never_speculated() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 8), F32), [None, 8])
    y = w.tensor("y", np.zeros((2, 8), F32))
    graph = import_cluster(w.cluster(w.node("AddV2", x, y)))
    assert str(graph.outputs[0].type) == "f32[d0_0, 8]"
    assert sorted(guards(graph)) == ["d0_1 == 8", "d1_0 == d0_0", "d1_1 == 8"]


def test_sizes_that_no_symbol_solves_are_guarded() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3, 4), F32))
    y = w.tensor("y", np.zeros((6, 4), F32))
    flat = w.node("Reshape", x, w.constant([-1, 4]), name="flat")
    graph = import_cluster(w.cluster(w.node("AddV2", flat, y)))
    assert "4*floordiv(d0_0*d0_1*d0_2, 4) == d0_0*d0_1*d0_2" in guards(graph)


def test_small_integer_inputs_say_sizes() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((4, 6), F32))
    shape = w.tensor("shape", np.array([3, 8], np.int32), [2])
    graph = import_cluster(w.cluster(w.node("Reshape", x, shape)))
    assert graph.symbols["v1_0"].kind == "value"
    (output,) = graph.outputs
    sizes = {"d0_0": 4, "d0_1": 6, "d1_0": 2, "v1_0": 3, "v1_1": 8}
    assert [d.evaluate(sizes) for d in output.dims] == [3, 8]
    assert all(g.holds(sizes) for g in graph.guards)
    assert not all(g.holds({**sizes, "v1_0": 4}) for g in graph.guards)
    assert not all(g.holds({**sizes, "v1_0": -3, "v1_1": -8}) for g in graph.guards)


# -- what is refused ---------------------------------------------------------------------


def test_contradictory_sizes_are_the_users_error() -> None:
    with pytest.raises(
        ShapeError,
        match=r"sum: broadcast: sizes 5 \(d1_0\) and 3 \(d0_0\) do not broadcast|sizes 3",
    ):
        add((3,), (5,))


def test_contradictory_inner_sizes_are_the_users_error() -> None:
    w = ClusterWriter()
    a, b = w.tensor("a", np.zeros((2, 3), F32)), w.tensor("b", np.zeros((4, 5), F32))
    node = w.node("MatMul", a, b, name="layer/product", transpose_a=False, transpose_b=False)
    message = "layer/product: inner sizes of the product: expected d0_1 == d1_0, but this call has 3 and 4"
    with pytest.raises(ShapeError, match=message):
        import_cluster(w.cluster(node))


def test_a_call_against_the_graphs_own_sizes() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 7), F32), [None, 8])
    with pytest.raises(ShapeError, match='input "x" axis 1: the graph says 8, this call has 7'):
        import_cluster(w.cluster(x))


def test_an_op_without_a_rule_names_the_node() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3), F32))
    with pytest.raises(
        UnsupportedError, match=r'MatrixInverse "attn/scores" \(f32\[d0_0, d0_1\]\) has no rule'
    ):
        import_cluster(w.cluster(w.node("MatrixInverse", x, name="attn/scores")))


def test_sizes_computed_from_data_name_the_node() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((6,), F32))
    big = w.tensor("big", np.zeros((2, 2), np.int32))
    top = w.node("Max", big, w.constant([0]), keep_dims=False)
    with pytest.raises(
        UnsupportedError, match="again: operand 1 of Reshape is computed from data of i32"
    ):
        import_cluster(w.cluster(w.node("Reshape", x, top, name="again")))


def test_a_shape_rule_that_disagrees_with_its_lowering_is_our_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def transposed(c: RuleContext) -> Any:
        return [c[0].dims[::-1]]

    monkeypatch.setitem(RULES, "Tanh", dataclasses.replace(RULES["Tanh"], shape=transposed))
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3), F32))
    with pytest.raises(InternalError, match="Tanh here: shape rule and lowering disagree"):
        import_cluster(w.cluster(w.node("Tanh", x, name="here")))


# -- damaged files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the cluster file is not JSON"),
        ("[]", "not of version 1"),
        ('{"version": 2}', "not of version 1"),
        ('{"version": 1, "name": "c", "inputs": [], "nodes": []}', 'has no "outputs"'),
    ],
)
def test_a_file_that_is_no_cluster(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        load_cluster(text)


def test_a_whole_file_loads() -> None:
    cluster = SAMPLES["dense_gelu"]()
    assert load_cluster(json.dumps(cluster)) == cluster


def test_an_undefined_operand_is_named() -> None:
    w = ClusterWriter()
    w.tensor("x", np.zeros((2,), F32))
    w.node("Neg", "y:0", name="negate")
    with pytest.raises(UnsupportedError, match='"y:0", used by negate, is not defined'):
        import_cluster(w.cluster("negate:0"))
    w.nodes.clear()
    with pytest.raises(UnsupportedError, match='"gone:0", used by the outputs, is not defined'):
        import_cluster(w.cluster("gone:0"))


def test_a_rule_that_fails_names_the_node() -> None:
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2,), F32))
    with pytest.raises(
        InternalError, match=r'AddV2 "half" \(f32\[d0_0\]\): its rule failed: IndexError'
    ):
        import_cluster(w.cluster(w.node("AddV2", x, name="half")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["inputs"][0].update(dtype="f99"), "input \"x\": dtype 'f99'"),
        (lambda c: c["inputs"][0].update(kind="thing"), "input \"x\": kind 'thing'"),
        (lambda c: c["inputs"][1].update(dims=[None, 48]), 'input "w": dims [None, 48]'),
        (lambda c: c["inputs"][0].update(sizes=[5]), 'input "x": sizes [5]'),
        (lambda c: c["inputs"][0].update(sizes=[5, -1]), 'input "x": sizes [5, -1]'),
        (lambda c: c["nodes"][0].update(inputs="x"), "node \"dense/MatMul\": inputs 'x'"),
        (
            lambda c: c["nodes"][0]["attrs"].update(transpose_a={"b": 1.5}),
            "attribute transpose_a {'b': 1.5}",
        ),
        (
            lambda c: c["nodes"][0]["attrs"].update(transpose_a={"x": 1}),
            "attribute transpose_a {'x': 1}",
        ),
        (
            lambda c: c["nodes"][2]["attrs"]["value"]["tensor"].update(values=[1, 2]),
            'node "const_2": attribute value: 2 values for 1 elements',
        ),
    ],
)
def test_damage_is_named(change: Any, message: str) -> None:
    cluster = SAMPLES["dense_gelu"]()
    import_cluster(cluster)
    change(cluster)
    with pytest.raises(UnsupportedError) as caught:
        import_cluster(cluster)
    assert str(caught.value).startswith("the cluster file is damaged: ")
    assert message in str(caught.value)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += _paths(item, (*path, i))
    return found


@pytest.mark.parametrize("name", ["dense_gelu", "moves"])
def test_damage_anywhere_is_refused_by_name(name: str) -> None:
    """Each part of a file lost or replaced: imported all the same, or refused in words."""
    whole = SAMPLES[name]()
    refused = 0
    for path in _paths(whole):
        for new in (None, "", -1, [], {}):
            damaged = copy.deepcopy(whole)
            place: Any = damaged
            for step in path[:-1]:
                place = place[step]
            if new is None:
                del place[path[-1]]
            else:
                place[path[-1]] = new
            try:
                import_cluster(damaged)
            except (UnsupportedError, InternalError):
                refused += 1
    assert refused > 100


def test_importing_twice_gives_the_same_text() -> None:
    for make in SAMPLES.values():
        assert print_graph(import_cluster(make())) == print_graph(import_cluster(make()))
