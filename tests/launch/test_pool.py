"""Outputs and arenas come from the block pool; tensors own what they got."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import Statistics, check, example, launch
from tests.launch.worker import Worker

Counters = Callable[[], Statistics]
ROWS, COLUMNS = 1024, 1024  # 4 MB


def pool(statistics: Counters) -> dict[str, int]:
    """The pool's counters."""
    counters: dict[str, int] = statistics().data["pool"]
    return counters


@pytest.fixture(autouse=True)
def empty_pool(native: ModuleType, worker: Worker) -> None:
    gc.collect()
    native.clear_pool()


def test_an_output_that_was_dropped_serves_the_next_call(
    cluster_id: str, statistics: Counters
) -> None:
    run = launch(cluster_id)
    x, v, expected = (tf.constant(a) for a in example(ROWS, COLUMNS))
    del expected
    run(x, v)
    before = pool(statistics)
    for _ in range(10):
        run(x, v)
    after = pool(statistics)
    assert after["fresh"] == before["fresh"]
    assert after["reused"] >= before["reused"] + 10
    assert after["kept_bytes"] >= 4 << 20


def test_a_tensor_that_lives_is_not_handed_out_again(cluster_id: str) -> None:
    run = launch(cluster_id)
    kept = []
    for rows in (ROWS, ROWS + 1, ROWS + 2):
        x, v, expected = example(rows, COLUMNS)
        kept.append((run(tf.constant(x), tf.constant(v)), expected))
    for result, expected in kept:
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_a_tensor_outlives_its_session(native: ModuleType, cluster_id: str) -> None:
    x, v, expected = example(ROWS, COLUMNS)
    with tf.Graph().as_default() as graph:
        run = launch(cluster_id)
        fed = tf.compat.v1.placeholder(tf.float32, [None, None])
        result = run(fed, v)
        with tf.compat.v1.Session(graph=graph) as session:
            array = session.run(result, {fed: x})
    del run, session
    gc.collect()
    native.clear_pool()
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_the_cap_holds(worker: Worker, cluster_id: str, statistics: Counters) -> None:
    run = launch(cluster_id)
    worker.configure(pool_mb=2)
    check(run, ROWS, COLUMNS)
    counters = pool(statistics)
    assert counters["cap_bytes"] == 2 << 20
    assert counters["kept_bytes"] <= 2 << 20
    assert counters["dropped"] > 0


def test_without_a_pool_tensorflow_allocates(
    worker: Worker, cluster_id: str, statistics: Counters
) -> None:
    run = launch(cluster_id)
    worker.configure(pool_mb=0)
    before = pool(statistics)
    check(run, ROWS, COLUMNS)
    after = pool(statistics)
    assert (after["reused"], after["fresh"]) == (before["reused"], before["fresh"])
    assert after["kept_bytes"] == 0


def test_an_idle_pool_is_trimmed(worker: Worker, cluster_id: str, statistics: Counters) -> None:
    run = launch(cluster_id)
    worker.configure(pool_trim_s=0.05)
    check(run, ROWS, COLUMNS)
    # The compile thread learns of the new period when the old one has passed, or with a compile.
    check(launch(cluster_id + "0"), ROWS, COLUMNS)
    end = time.monotonic() + 20
    while pool(statistics)["kept_bytes"] > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert pool(statistics)["trimmed"] > 0


def test_a_variable_keeps_an_output(cluster_id: str) -> None:
    run = launch(cluster_id)
    x, v, expected = example(ROWS, COLUMNS)
    variable = tf.Variable(np.zeros_like(expected))
    variable.assign(run(tf.constant(x), tf.constant(v)))
    for _ in range(3):
        run(tf.constant(x + 1), tf.constant(v))
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)
