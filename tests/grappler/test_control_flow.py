"""Switch and Merge: nodes in one launch must always be dead together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.grappler.graphs import GraphDef, chain, launches, nodes_in, optimize, placeholder, run
from tests.grappler.random_graph import random_graph
from tf_disc.grappler import optimize_graph


@pytest.fixture(autouse=True)
def _switch_and_merge(monkeypatch):
    """tf.cond and tf.while_loop as TF1 builds them, which is what Grappler sees of TF2's."""
    tf.compat.v1.disable_control_flow_v2()
    yield
    tf.compat.v1.enable_control_flow_v2()


def assert_same(build: Callable[[], Any], fetch: str, feeds: list[dict[str, Any]]) -> GraphDef:
    """The optimised graph gives what the plain one gives; returns it."""
    with tf.Graph().as_default() as graph:
        build()
    plain = graph.as_graph_def()
    optimized = optimize_graph(plain, [fetch])
    for feed in feeds:
        np.testing.assert_allclose(
            run(optimized, fetch + ":0", feed), run(plain, fetch + ":0", feed), rtol=1e-5
        )
    return optimized


def clusters(graph: GraphDef) -> list[set[str]]:
    """Names of the nodes of each launch, by their last part."""
    return [{n.rsplit("/", 1)[-1] for n in nodes_in(graph, one)} for one in launches(graph)]


def test_a_node_of_a_branch_does_not_take_its_surroundings_with_it():
    """{Exp, Add(Switch:1), Tanh} in one launch would be dead when the predicate is false."""

    def build():
        x = placeholder("x")
        p = tf.compat.v1.placeholder(tf.bool, [], name="p")
        e = tf.raw_ops.Exp(x=x, name="e")
        switch = tf.raw_ops.Switch(data=x, pred=p, name="switch")
        inside = tf.raw_ops.AddV2(x=e, y=switch.output_true, name="inside")
        merged = tf.raw_ops.Merge(inputs=[switch.output_false, inside], name="merge")
        t = tf.raw_ops.Tanh(x=e, name="t")
        tf.raw_ops.Atan(x=chain(merged.output + t, "after"), name="out")

    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    graph = assert_same(build, "out", [{"x:0": x, "p:0": p} for p in (False, True)])
    for cluster in clusters(graph):
        assert not ("inside" in cluster and cluster & {"e", "t", "after"})


def cond_graph() -> None:
    """out = after(cond(p, yes(a), no(a)) + a), a = before(x)."""
    x = placeholder("x")
    p = tf.compat.v1.placeholder(tf.bool, [], name="p")
    a = chain(x, "before")
    both = tf.cond(p, lambda: chain(a, "yes") * 2.0, lambda: chain(a, "no") * 3.0)
    tf.raw_ops.Atan(x=chain(both + a, "after"), name="out")


def test_cond_has_a_cluster_a_branch_and_one_on_each_side():
    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    graph = assert_same(cond_graph, "out", [{"x:0": x, "p:0": p} for p in (False, True)])
    found = clusters(graph)
    by_last = {last: c for last in ("before", "yes", "no", "after") for c in found if last in c}
    assert len(by_last) == 4 and len(found) == 4


def test_what_is_around_a_cond_is_one_cluster_where_the_branches_do_not_need_it():
    def build():
        x = placeholder("x")
        p = tf.compat.v1.placeholder(tf.bool, [], name="p")
        a = chain(x, "before")
        both = tf.cond(p, lambda: chain(x, "yes"), lambda: chain(x, "no"))
        tf.raw_ops.Atan(x=chain(both + a, "after"), name="out")

    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    graph = assert_same(build, "out", [{"x:0": x, "p:0": p} for p in (False, True)])
    assert any({"before", "after"} <= cluster for cluster in clusters(graph))


def test_nested_conds():
    def build():
        x = placeholder("x")
        p = tf.compat.v1.placeholder(tf.bool, [], name="p")
        q = tf.compat.v1.placeholder(tf.bool, [], name="q")

        def yes() -> tf.Tensor:
            y = chain(x, "outer")
            inner = tf.cond(q, lambda: chain(y, "deep"), lambda: tf.abs(y))
            return chain(inner + y, "rejoined")

        tf.raw_ops.Atan(x=tf.cond(p, yes, lambda: tf.abs(x)), name="out")

    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    feeds = [{"x:0": x, "p:0": p, "q:0": q} for p in (False, True) for q in (False, True)]
    graph = assert_same(build, "out", feeds)
    assert {"deep", "rejoined", "outer"} <= set().union(*clusters(graph))
    for cluster in clusters(graph):
        assert not ("deep" in cluster and cluster & {"outer", "rejoined"})


def while_graph() -> None:
    """Three values through a loop of n rounds, with work before, inside and after."""
    x = placeholder("x")
    n = tf.compat.v1.placeholder(tf.int32, [], name="n")
    a = chain(x, "before")
    _, y, z = tf.while_loop(
        lambda i, y, z: i < n,
        lambda i, y, z: (i + 1, chain(y + z, "body"), chain(z * 0.5, "other")),
        (tf.constant(0), a, a * 2.0),
        shape_invariants=(tf.TensorShape([]), a.shape, a.shape),
    )
    tf.raw_ops.Atan(x=chain(y + z + a, "after"), name="out")


def test_a_loop_body_is_one_cluster():
    x = np.linspace(-1, 1, 8, dtype="f4")[None] * 0.1
    graph = assert_same(while_graph, "out", [{"x:0": x, "n:0": n} for n in (0, 1, 4)])
    found = clusters(graph)
    assert [c for c in found if "body" in c and "other" in c]
    for cluster in found:
        assert not ("body" in cluster and cluster & {"before", "after"})
    assert {"before", "after"} <= set().union(*found)


def test_a_value_that_feeds_a_loop_and_one_that_takes_its_result():
    """From `a` to `y` the way leads through the loop's back edge only: no launch may hold both."""

    def build():
        x = placeholder("x")
        a = chain(x, "before")
        _, y = tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, tf.math.atan(y) + a),
            (tf.constant(0), x),
        )
        tf.raw_ops.Atan(x=chain(y + a, "after"), name="out")

    x = np.linspace(-1, 1, 8, dtype="f4")[None]
    found = clusters(assert_same(build, "out", [{"x:0": x}]))
    assert not any({"before", "after"} <= cluster for cluster in found)


def test_a_cond_inside_a_loop_inside_a_cond():
    def build():
        x = placeholder("x")
        p = tf.compat.v1.placeholder(tf.bool, [], name="p")

        def loop() -> tf.Tensor:
            def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                odd = tf.equal(i % 2, 1)
                return i + 1, tf.cond(odd, lambda: chain(y, "odd"), lambda: chain(y, "even", 4))

            _, y = tf.while_loop(lambda i, _: i < 5, body, (tf.constant(0), x))
            return chain(y, "end")

        tf.raw_ops.Atan(x=tf.cond(p, loop, lambda: chain(x, "not")), name="out")

    x = np.linspace(-1, 1, 8, dtype="f4")[None] * 0.1
    graph = assert_same(build, "out", [{"x:0": x, "p:0": p} for p in (False, True)])
    assert {"odd", "even", "end", "not"} <= set().union(*clusters(graph))


def test_random_graphs_of_conds_and_loops():
    """Whatever the pass does with them, results stay the same."""
    for seed in range(12):
        x = np.random.default_rng(seed).uniform(-1, 1, [2, 8]).astype("f4")
        feeds = [{"x:0": x, "p:0": p, "n:0": n} for p, n in [(True, 0), (False, 2), (True, 3)]]
        assert_same(lambda seed=seed: random_graph(seed), "out", feeds)


def test_launches_of_both_branches_are_optimised_once():
    graph = optimize(cond_graph, ["out"])
    assert optimize_graph(graph, ["out"]) == graph
