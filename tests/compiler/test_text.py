"""IR text: what is printed parses to what prints the same, at both levels; what is no IR names its line."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.compiler.random_graphs import RandomCluster, clusters
from tests.compiler.samples import SAMPLES, grouped, optimized
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.dims import Dim, parse_dim
from tf_disc.compiler.ir.graph import Block, Graph, Guard, Input, Op, SymbolSource, Value
from tf_disc.compiler.ir.text import (
    ParseError,
    attr_text,
    parse_attr,
    parse_block,
    parse_graph,
    print_block,
    print_graph,
)
from tf_disc.compiler.ir.types import LoopType, parse_type, split_top, tensor
from tf_disc.compiler.ir.verifier import verify_graph


@pytest.mark.parametrize("name", SAMPLES)
def test_graphs_round_trip(name: str) -> None:
    for graph in (import_cluster(SAMPLES[name]()), optimized(SAMPLES[name]())):
        text = print_graph(graph)
        again = parse_graph(text)
        verify_graph(again)
        assert print_graph(again) == text


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_round_trip(name: str) -> None:
    for kernel in grouped(optimized(SAMPLES[name]()))[2]:
        for sources in (True, False):
            text = print_block(kernel.body, sources=sources)
            assert print_block(parse_block(text), sources=sources) == text


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_random_clusters_round_trip(case: tuple[RandomCluster, dict[str, int]]) -> None:
    graph = optimized(case[0].cluster)
    text = print_graph(graph)
    assert print_graph(parse_graph(text)) == text
    for kernel in grouped(graph)[2]:
        text = print_block(kernel.body)
        assert print_block(parse_block(text)) == text


NAMES = st.text(st.sampled_from('ab/:"\\{}[]()<>|@,=% \n\té'), max_size=12)


@settings(max_examples=60, deadline=None, derandomize=True)
@example('a" @ "b', 'a: f32[1] @ "b', 'a == b @ "c" >= d', "} @ {")
@given(NAMES, NAMES, NAMES, NAMES)
def test_any_name_may_stand_in_the_text(
    source: str, input_name: str, reason: str, attr: str
) -> None:
    a = Dim.symbol("d0_0")
    x = Value(tensor("f32", [a]))
    op = Op(
        "neg", [x], [tensor("f32", [a])], {"note": attr, "list": (attr, 1, (attr,))}, source=source
    )
    graph = Graph(
        "g", [Input(input_name, "tensor", x)], {"d0_0": SymbolSource("dim", 0, 0)}, [Guard(a, ">=", a, reason)],
        Block(), [op.result],
    )  # fmt: skip
    graph.block.ops = [op]
    text = print_graph(graph)
    again = parse_graph(text)
    assert print_graph(again) == text
    (read,) = again.ops
    assert (read.source, again.inputs[0].name, again.guards[0].reason) == (
        source,
        input_name,
        reason,
    )
    assert read.attrs == op.attrs


ATTRIBUTES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | NAMES
    | st.sampled_from(["d0_0", "2*a - 1", "max(0, a - b)"]).map(parse_dim),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=6,
)


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, and where NaN is NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b) and str(a) == str(b)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ATTRIBUTES)
def test_attributes_of_all_kinds_round_trip(value: Any) -> None:
    assert same(parse_attr(attr_text(value)), value)


def test_an_attribute_without_text_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no text form for an attribute of type set"):
        attr_text({1})


TYPES = (
    tensor("f32", []),
    tensor("bool", [1, Dim.call("max", 0, Dim.symbol("a")), 3]),
    LoopType("i64", True),
    LoopType("ptr"),
)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_round_trip(type_: Any) -> None:
    assert parse_type(str(type_)) == type_


def test_split_top_keeps_brackets_and_quotes_whole() -> None:
    assert split_top('a, f(b, c), "d, \\"e", [1, <g>], "\\\\", h') == [
        "a", "f(b, c)", '"d, \\"e"', "[1, <g>]", '"\\\\"', "h",
    ]  # fmt: skip


GRAPH = """graph @g {
  tensor %0: f32[d0_0, 8] @ "x"
  symbol d0_0 = dim(0, 0)
  guard d0_0 >= 1 @ "not empty"
  %1: f32[d0_0, 8] = neg(%0) @ "node"
  return %1
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("graph @g {", "grap @g {", "line 1: expected 'graph @name {'"),
        ("f32[d0_0, 8] @", "f99[d0_0, 8] @", "line 2: not a type: 'f99"),
        ("guard d0_0 >= 1", "guard d0_0 + >= 1", "line 4: not a dim"),
        ("neg(%0)", "neg(%7)", "line 5: %7 is used before it is defined"),
        ("%1: f32", "%0: f32", "line 5: %0 is defined twice"),
        ("= neg(%0)", "= neg %0", "line 5: not an op"),
        ("neg(%0)", "neg(%0) {axis=one}", "line 5: "),
        ("return %1", "return %2", "line 6: %2 is used before it is defined"),
        ("  return %1\n}\n", "", "line 6: the text ends too early"),
        ("}\n", "", "line 7: the text ends too early"),
        ("}\n", "{\n", "line 7: expected '}'"),
    ],
)
def test_text_that_is_no_graph_names_its_line(old: str, new: str, message: str) -> None:
    assert print_graph(parse_graph(GRAPH)) == GRAPH
    text = GRAPH[: GRAPH.rindex(old)] + new + GRAPH[GRAPH.rindex(old) + len(old) :]
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    assert str(caught.value).startswith(message)


def test_a_block_begins_with_its_arguments() -> None:
    with pytest.raises(ParseError, match="line 1: a block begins with its arguments in bars"):
        parse_block("%0: i64 = iconst() {value=1}\n")
