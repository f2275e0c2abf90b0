"""The pass where Grappler calls it: functions, sessions, models of functions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.grappler.graphs import chain, graph_of, launches, nodes_in
from tf_disc.grappler import optimize_graph


def statistics(native: Any) -> list[dict[str, Any]]:
    """Records of graphs with clusters."""
    return [g for g in json.loads(native.pass_statistics())["graphs"] if g["clusters"]]


def test_registered_as_the_plugin(native):
    assert native.registration() == "plugin"


def test_a_function_is_optimised_twice_and_clustered_once(native):
    @tf.function
    def f(x):
        # Grappler does not look at graphs of less than four nodes.
        y = tf.math.atan(chain(x, "y"))
        return y, tf.math.atan(y), tf.math.atan(x)

    x = tf.linspace(-1.0, 1.0, 8)
    np.testing.assert_allclose(f(x)[0], np.arctan(np.exp(np.tanh(np.tanh(x)))), rtol=1e-5)
    (record,) = statistics(native)
    assert record["calls"] == 2 and len(record["clusters"]) == 1
    assert "Atan" in {g["op"] for g in record["left"]}


def test_control_flow_of_tensorflow_2(native):
    @tf.function
    def f(x, n):
        for i in tf.range(n):
            if i % 2 == 0:  # noqa: SIM108 -- autograph turns the statement into tf.cond
                x = chain(x, "even") * 0.5
            else:
                x = tf.tanh(chain(x, "odd") - 1.0)
        return tf.math.atan(x)

    def expected(x, n):
        for i in range(n):
            y = np.exp(np.tanh(np.tanh(x)))
            x = y * 0.5 if i % 2 == 0 else np.tanh(y - 1.0)
        return np.arctan(x)

    x = np.linspace(-1, 1, 8, dtype="f4")
    for n in range(4):
        np.testing.assert_allclose(f(x, tf.constant(n)), expected(x, n), rtol=1e-5)
    assert len(statistics(native)) >= 1


def test_a_session_with_feeds_and_fetches_inside(native):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")
        tf.math.atan(chain(chain(x, "a"), "b"), name="out")
    v = np.linspace(-1, 1, 16, dtype="f4").reshape(2, 8)

    def link(x):
        return np.exp(np.tanh(np.tanh(x)))

    with tf.compat.v1.Session(graph=graph) as session:
        for _ in range(2):
            a, out = session.run(["a:0", "out:0"], {"x:0": v})
            np.testing.assert_allclose(a, link(v), rtol=1e-5)
            np.testing.assert_allclose(out, np.arctan(link(link(v))), rtol=1e-5)
            fed = session.run("out:0", {"a:0": v})
            np.testing.assert_allclose(fed, np.arctan(link(v)), rtol=1e-5)
    assert statistics(native)


def test_reads_of_a_variable_around_an_assign(native):
    table = tf.Variable(np.arange(32, dtype="f4").reshape(8, 4) / 32)

    @tf.function
    def f(i):
        first = chain(tf.gather(table, i), "first")
        table.assign(table * 2.0)
        second = chain(tf.gather(table, i), "second")
        return first, second

    i = tf.constant([1, 3])
    rows = table.numpy()[[1, 3]]
    first, second = f(i)
    np.testing.assert_allclose(first, np.exp(np.tanh(np.tanh(rows))), rtol=1e-5)
    np.testing.assert_allclose(second, np.exp(np.tanh(np.tanh(rows * 2))), rtol=1e-5)
    assert sum(len(g["clusters"]) for g in statistics(native)) == 2


def test_a_launch_of_constants_only_survives_grapplers_constant_folding(native):
    """Folding evaluates stateless nodes of Consts on a device without a function library."""
    big = tf.constant(np.random.default_rng(1).random((64, 64), "f4"))

    @tf.function
    def f():
        return tf.math.atan(chain(tf.matmul(big, big), "y"))

    expected = np.arctan(np.exp(np.tanh(np.tanh(big.numpy() @ big.numpy()))))
    np.testing.assert_allclose(f(), expected, rtol=1e-4)


def test_equal_launches_may_be_merged_and_give_the_same(native):
    @tf.function
    def f(x):
        with tf.control_dependencies([tf.raw_ops.Atan(x=x)]):
            a = chain(x, "a")
        with tf.control_dependencies([tf.raw_ops.Atan(x=x)]):
            b = chain(x, "b")
        return tf.math.atan(a), tf.math.atan(b)

    a, b = f(tf.linspace(-1.0, 1.0, 8))
    np.testing.assert_array_equal(a, b)


def test_tf_data_is_left_alone(native):
    data = tf.data.Dataset.range(4).map(lambda i: chain(tf.cast(i, tf.float32) + [1.0, 2.0], "y"))
    assert len(list(data)) == 4
    assert not [g for g in statistics(native) if "Dataset_" in g["graph"]]


def test_gradients_of_a_function(native):
    w = tf.Variable(np.full((8, 8), 0.1, "f4"))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(tf.matmul(tf.tanh(x @ w), w)))
        gradient = tape.gradient(loss, w)
        w.assign_sub(1e-4 * gradient)
        return loss

    losses = [float(step(tf.ones([2, 8]))) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]
    assert statistics(native)


# --- Time


def large_graph(num_nodes: int) -> Callable[[], None]:
    """Products, chains and shape arithmetic."""

    def build() -> None:
        x = y = tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")
        w = tf.compat.v1.placeholder(tf.float32, [8, 8], name="w")
        for _ in range(num_nodes // 10):
            y = tf.reshape(tf.tanh(tf.matmul(y, w) * 1.01) + 0.1, tf.shape(y))
            y = y - tf.reduce_mean(y, axis=-1, keepdims=True)
        tf.identity(y + x, name="out")

    return build


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of this thread: neighbours do not count."""
    start = time.thread_time()
    result = work()
    return time.thread_time() - start, result


def test_time_of_both_calls_on_ten_thousand_nodes():
    graph = graph_of(large_graph(10_000))
    assert len(graph.node) > 10_000
    first, once = cpu_seconds(lambda: optimize_graph(graph, ["out"]))
    second, twice = cpu_seconds(lambda: optimize_graph(once, ["out"]))
    assert twice == once and len(nodes_in(once, launches(once)[0])) > 5_000
    # 0.3 s is what is promised on an idle machine (0.2 measured); the bound leaves room for
    # a busy one, and for parsing and printing the graph, which is in it.
    assert first + second < 1.0


def test_time_grows_no_faster_than_the_graph():
    graphs = [graph_of(large_graph(n)) for n in (2_000, 16_000)]
    small, large = (
        min(cpu_seconds(lambda g=g: optimize_graph(g, ["out"], remap=False))[0] for _ in range(3))
        for g in graphs
    )
    assert large < 8 * small * 3


@pytest.mark.parametrize("every", [5, 50])
def test_time_with_many_clusters(every):
    """Ops without a rule cut the chain, and long edges pass by the cuts."""

    def build() -> None:
        kept = [tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")]
        for i in range(5_000):
            y = tf.raw_ops.Atan(x=kept[-1]) if i % every == 0 else tf.tanh(kept[-1])
            kept.append(y + kept[len(kept) // 2] if i % 7 == 0 else y)
        tf.identity(tf.add_n(kept[-20:]), name="out")

    graph = graph_of(build)
    seconds, optimized = cpu_seconds(lambda: optimize_graph(graph, ["out"]))
    assert len(launches(optimized)) >= 5_000 // every // 4
    assert seconds < 1.5
