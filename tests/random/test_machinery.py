"""The random graphs' own parts: what would hide a bug if it were wrong."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.random import compare, disturb
from tests.random.arrays import NUMPY
from tests.random.check import Side, UnsteadyError, check, plain_tensorflow
from tests.random.generate import draw_recipe
from tests.random.recipe import Body, Call, Input, Node, Recipe, Type, ops_of
from tests.random.shrink import shrink
from tests.random.source import from_seed

SIZES = {"a": 33, "b": 5, "c": 3, "a_": 1, "b_": 5, "c_": 3}
MATRIX = Type("f32", ("a", "b"))


def recipe_of(*nodes: Node, outputs: list[int], inputs: int = 2, special: bool = False) -> Recipe:
    items = [Input(MATRIX, [False, False], key=i) for i in range(inputs)]
    body = Body([MATRIX] * inputs, list(nodes), outputs)
    return Recipe(items, [], body, [Call(dict(SIZES), 5, special)], {"min_cluster_size": 1})


def node(op: str, *inputs: object, **attrs: object) -> Node:
    return Node(op, list(inputs), attrs, [MATRIX])


@pytest.mark.parametrize("seed", range(20))
def test_a_recipe_survives_its_text(seed):
    recipe = draw_recipe(from_seed(seed))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert draw_recipe(from_seed(seed)) == recipe


def test_a_recipe_of_another_version_is_refused():
    text = recipe_of(node("Tanh", 0), outputs=[2]).to_json().replace('"version": 1', '"version": 9')
    with pytest.raises(ValueError, match="a recipe of version 9"):
        Recipe.from_json(text)


@pytest.mark.parametrize("seed", range(30))
def test_the_interpreter_gives_tensorflows_values(seed):
    """Conds, loops, raw Switch, gradients and variables included; undisturbed, up to Grappler's rewrites."""
    recipe = draw_recipe(from_seed(seed))
    if check(recipe).unbuildable:
        pytest.skip("TensorFlow cannot build it")
    with plain_tensorflow():
        side = Side(recipe)
        for i in range(2):
            want = side.call(i)
            if want.error:
                continue
            try:
                (have,) = side.disturbed(i, range(1), 0.0)
            except UnsteadyError:
                pytest.skip(
                    "an op that TensorFlow refuses by itself, and that its optimizer dropped"
                )
            for a, b in zip(want.outputs, have, strict=True):
                assert compare.suspects(a, b, True).sum() <= 0.05 * a.size


def test_exact_ops_must_agree_in_every_bit():
    plain = np.float32([1, 2, np.nan, np.inf, 0.0])
    near = np.nextafter(plain, np.float32(np.inf))
    assert compare.suspects(plain, near, False).tolist() == [True, True, False, False, True]
    assert not compare.suspects(plain, plain, False).any()
    assert compare.suspects(np.int8([1, 2]), np.int8([1, 3]), True).tolist() == [False, True]
    with pytest.raises(ValueError, match="int64"):
        compare.suspects(np.int32([1]), np.int64([1]), False)


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_distance_counts_units_of_the_type(name):
    one = np.ones(1, NUMPY[name])
    eps = 2.0**-7 if name == "bf16" else np.finfo(NUMPY[name]).eps
    assert compare.distance(one, (one + 3 * eps).astype(NUMPY[name])) == 3


def disturbed(recipe: Recipe, runs: int = 32) -> list[np.ndarray]:
    with plain_tensorflow():
        side = Side(recipe)
        side.call(0)
        side.disturbed(0, range(1), 0.0)
        return [r[0] for r in [*side.disturbed(0, range(1), 0.0), *side.disturbed(0, range(runs))]]


def test_a_chain_of_exact_ops_has_no_spread():
    runs = disturbed(recipe_of(node("Mul", 0, 1), node("Sub", 2, 0), outputs=[3]))
    assert all((r == runs[0]).all() for r in runs)


def test_cancellation_widens_what_is_allowed():
    """tanh(x) - tanh(y) for y near x: few of the result's digits are determined."""
    near = {"const": 1 + 1e-5, "dtype": "f32", "dims": []}
    nodes = (node("Mul", 0, near), node("Tanh", 0), node("Tanh", 1), node("Sub", 2, 3))
    runs = disturbed(recipe_of(*nodes, outputs=[4], inputs=1))
    kept = runs[0] != 0
    allowed = np.max(np.abs(np.stack(runs) - runs[0]), 0)[kept] / np.abs(runs[0][kept])
    assert np.nanmedian(allowed) > 1e-3
    # And where nothing is lost, a wrong last digit but two is seen.
    runs = disturbed(recipe_of(node("Tanh", 0), outputs=[1], inputs=1))
    wrong = (runs[0] * np.float32(1 + 1e-5)).astype(np.float32)
    assert compare.outside(runs[0], wrong, runs).any()
    assert not compare.outside(runs[0], np.nextafter(runs[0], np.float32(9)), runs).any()


def test_a_floor_that_may_go_either_way_is_not_judged():
    plain, other = np.int32([3, 3]), np.int32([4, 4])
    runs = [np.int32([3, 3]), np.int32([4, 3])]
    assert compare.outside(plain, other, runs).tolist() == [False, True]


def test_nan_in_another_place_is_wrong():
    plain, found = np.float32([1, np.nan, np.inf]), np.float32([np.nan, 1, -np.inf])
    assert compare.outside(plain, found, [plain, plain]).all()
    assert not compare.outside(plain, plain, [plain, plain]).any()


class _Twisted(Side):
    """A side of which tf_disc's results are made wrong, as a bad lowering would."""

    def call(self, i):
        outcome = super().call(i)
        if tf.config.optimizer.get_experimental_options().get("use_plugin_optimizers", True):
            outcome.outputs = [_twist(o) for o in outcome.outputs]
        return outcome


def _twist(value):
    if value.dtype == np.float32:
        return np.where(value > 1, value * np.float32(1 + 1e-5), value).astype(np.float32)
    return value


@pytest.mark.parametrize("op", ["Tanh", "Exp", "Sum"])
def test_a_wrong_digit_is_found(monkeypatch, op):
    final = (
        Node("Sum", [2, {"const": [1], "dtype": "i32", "dims": [1]}], {"keep_dims": False}, [Type("f32", ("a",))])
        if op == "Sum"
        else node(op, 2)
    )  # fmt: skip
    recipe = recipe_of(node("AddV2", 0, 1), final, node("Square", 0), outputs=[2, 3, 4])
    assert not check(recipe).failure
    monkeypatch.setattr("tests.random.check.Side", _Twisted)
    assert check(recipe).kind == "value"


def test_a_fallback_is_a_failure_unless_tensorflow_refuses_the_call():
    scores = Node(
        "GatherV2",
        [0, 1, {"const": 0, "dtype": "i32", "dims": []}],
        {"batch_dims": 0},
        [Type("f32", (3, "b"))],
    )
    body = Body(
        [MATRIX, Type("i32", (3,))], [scores, Node("Tanh", [2], {}, [Type("f32", (3, "b"))])], [3]
    )
    items = [
        Input(MATRIX, [False] * 2),
        Input(body.params[1], [False], "values", values=[0, 1, 99]),
    ]
    bad = Recipe(items, [], body, [Call(dict(SIZES), 1)], {"min_cluster_size": 1})
    verdict = check(bad)
    assert verdict.errors == 1 and verdict.reasons and not verdict.failure
    items[1] = Input(body.params[1], [False], "values", values=[0, 1, 2])
    assert not check(bad).reasons


def test_a_kernel_that_cannot_be_compiled_is_a_failure(monkeypatch):
    monkeypatch.setattr(
        "tests.random.check._count", lambda verdict, native: verdict.reasons.update({"why": 2})
    )
    assert check(recipe_of(node("Tanh", 0), outputs=[2])).failure == 'fallback {"why": 2}'


def test_shrinking_leaves_the_op_that_matters():
    def has_erf(recipe: Recipe) -> bool:
        return any(n.op == "Erf" for n in recipe.body.nodes)

    recipe = next(r for i in range(99) if has_erf(r := draw_recipe(from_seed(i), "Erf")))
    smaller = shrink(recipe, has_erf, attempts=1000)
    assert list(ops_of(smaller.body)) == ["Erf"]
    assert len(smaller.calls) == 1 and len(smaller.inputs) == 1 and not smaller.variables
    assert not check(smaller).failure


def test_math_functions_are_inexact_and_arithmetic_is_not():
    assert disturb.inexact("Tanh") and disturb.inexact("MatMul") and disturb.inexact("Sum")
    assert (
        not disturb.inexact("AddV2")
        and not disturb.inexact("Transpose")
        and not disturb.inexact("OpOfNobody")
    )
