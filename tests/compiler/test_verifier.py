"""The verifier names the op and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compiler.samples import SAMPLES, optimized
from tf_disc.compiler.errors import InternalError
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.dims import Dim
from tf_disc.compiler.ir.graph import Graph, Guard, Op, Value
from tf_disc.compiler.ir.text import parse_graph
from tf_disc.compiler.ir.types import TensorType, tensor
from tf_disc.compiler.ir.verifier import SPECS, verify_graph

TEXT = """graph @g {
  tensor %0: f32[d0_0, 4, 8] @ "x"
  tensor %1: f32[d0_0, 8, 6] @ "y"
  symbol d0_0 = dim(0, 0)
  guard d0_0 >= 1 @ "not empty"
  %2: f32[d0_0, 4, 8] = neg(%0) @ "negate"
  %3: f32[d0_0, 4, 6] = matmul(%2, %1) {transpose_a=false, transpose_b=false} @ "product"
  %4: f32[d0_0, 6, 4] = transpose(%3) {perm=[0, 2, 1]} @ "turn"
  %5: f32[d0_0, 6] = reduce_sum(%4) {axes=[2]} @ "sum"
  %6: f32[3, d0_0, 6] = broadcast(%5) @ "repeat"
  return %6
}
"""


def test_a_valid_graph_passes() -> None:
    verify_graph(parse_graph(TEXT))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_compiler_makes_passes(name: str) -> None:
    verify_graph(import_cluster(SAMPLES[name]()))
    verify_graph(optimized(SAMPLES[name]()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("neg(%0)", "negate(%0)", 'g: negate @ negate: tensor IR has no such op'),
        ("neg(%0)", "add(%0)", "g: add @ negate: 1 operands, expected 2"),
        ("f32[d0_0, 4, 8] = neg", "f32[d0_0, 5, 8] = neg", "g: neg @ negate: operand of shape f32[d0_0, 4, 8]"),
        ("{perm=[0, 2, 1]} ", "", "g: transpose @ turn: attribute perm is missing"),
        ("perm=[0, 2, 1]", "perm=[0, 2, 2]", "g: transpose @ turn: perm (0, 2, 2) of f32[d0_0, 4, 6]"),
        ("perm=[0, 2, 1]", "perm=[0, 1, 2]", "g: transpose @ turn: gives f32[d0_0, 6, 4]"),
        ("axes=[2]", "axes=[1]", "g: reduce_sum @ sum: of f32[d0_0, 6, 4] gives f32[d0_0, 6]"),
        ("f32[3, d0_0, 6]", "f32[3, d0_0, 7]", "g: broadcast @ repeat: from f32[d0_0, 6] to f32[3, d0_0, 7]"),
        ("f32[3, d0_0, 6]", "f32[6]", "g: broadcast @ repeat: lowers the rank"),
        ("%1: f32[d0_0, 8, 6]", "%1: f32[1, 8, 6]", "g: matmul @ product: of f32[d0_0, 4, 8] and f32[1, 8, 6]"),
        ("guard d0_0", "guard d7_7", "g: guard d7_7 >= 1 speaks of ['d7_7']"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(InternalError) as caught:
        verify_graph(parse_graph(TEXT.replace(old, new)))
    assert str(caught.value).startswith(message)


def _swap(graph: Graph) -> None:
    graph.block.ops[0], graph.block.ops[1] = graph.block.ops[1], graph.block.ops[0]


def _lose(graph: Graph) -> None:
    graph.outputs = [Value(tensor("f32", []))]


def _dtype(graph: Graph) -> None:
    graph.ops[0].result.type = TensorType("f99", graph.ops[0].result.dims)


def _guard(graph: Graph) -> None:
    graph.guards.append(Guard(Dim.symbol("v9_9"), "==", Dim.const(1), "nothing"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_swap, "g: matmul @ product: an operand is used before it is defined"),
        (_lose, "g: an output is not defined"),
        (_dtype, "g: neg @ negate: no element type f99"),
        (_guard, "g: guard v9_9 == 1 speaks of ['v9_9']"),
    ],
)
def test_what_text_cannot_say_is_named(damage: Callable[[Graph], None], message: str) -> None:
    graph = parse_graph(TEXT)
    damage(graph)
    with pytest.raises(InternalError) as caught:
        verify_graph(graph)
    assert str(caught.value).startswith(message)


def test_every_spec_says_what_it_needs() -> None:
    for name, spec in SPECS.items():
        operands = [Value(tensor("f32", [2, 2])) for _ in range((spec.operands or 1) + 1)]
        graph = Graph("g")
        op = Op(name, operands, [tensor("f32", [2, 2])])
        graph.block.ops = [op]
        if spec.operands is not None or spec.attrs:
            with pytest.raises(InternalError, match=f"g: {name} @ "):
                verify_graph(graph)
