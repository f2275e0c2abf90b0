"""Elements that are followed go where numpy puts them."""

from __future__ import annotations

import numpy as np
import pytest

from tf_disc.compiler.ir.builder import GraphBuilder
from tf_disc.compiler.ir.dims import Dim, as_dim
from tf_disc.compiler.ir.graph import Graph, Value
from tf_disc.compiler.ir.types import tensor


def followed(b: GraphBuilder, name: str, *shape: int) -> tuple[Value, np.ndarray]:
    """A value of symbols, and the same symbols in numpy."""
    names = [f"{name}{i}" for i in range(int(np.prod(shape)))]
    value = Value(tensor("i32", [as_dim(n) for n in shape]))
    b.contents[value] = tuple(Dim.symbol(n) for n in names)
    return value, np.array(names).reshape(shape)


def check(b: GraphBuilder, value: Value, expected: np.ndarray) -> None:
    assert [d.value for d in value.dims] == list(expected.shape)
    assert [str(d) for d in b.contents[value]] == expected.ravel().tolist()


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(Graph("g"), {})


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_transpose(b: GraphBuilder, perm: tuple[int, ...]) -> None:
    value, array = followed(b, "v", 2, 3, 4)
    check(b, b.transpose(value, perm), array.transpose(perm))


def test_slice(b: GraphBuilder) -> None:
    value, array = followed(b, "v", 3, 5)
    check(b, b.slice(value, [2, 1], [2, 2], [-1, 3]), array[2:0:-1, 1:5:3])
    check(b, b.slice(value, [1, 0], [0, 5], [1, 1]), array[1:1])


@pytest.mark.parametrize("axis", [0, 1])
def test_concat(b: GraphBuilder, axis: int) -> None:
    (x, first), (y, second) = followed(b, "v", 2, 3), followed(b, "w", 2, 3)
    check(b, b.concat([x, y], axis), np.concatenate([first, second], axis))


def test_broadcast_of_one_element(b: GraphBuilder) -> None:
    value, array = followed(b, "v")
    check(b, b.broadcast(value, [as_dim(3)]), np.broadcast_to(array, (3,)))


@pytest.mark.parametrize(("kind", "number"), [("prod", 1), ("sum", 0)])
def test_reductions_of_nothing(b: GraphBuilder, kind: str, number: int) -> None:
    value, _ = followed(b, "v", 0)
    assert b.contents[b.reduce(kind, value, [0])] == (as_dim(number),)


def test_reductions_and_picks_of_values_are_followed(b: GraphBuilder) -> None:
    value, array = followed(b, "v", 3)
    assert b.contents[b.reduce("prod", value, [0])] == (
        Dim.symbol("v0") * Dim.symbol("v1") * Dim.symbol("v2"),
    )
    check(b, b.gather(value, b.constant([2, 0], "i32", [2]), 0, 0), array[[2, 0]])
