"""A kernel that is slower than TensorFlow is left alone, at the sizes where it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import tensorflow as tf

from tests.launch.launching import Statistics, V, X, affine, check, launch
from tests.launch.worker import Worker
from tf_disc import config
from tf_disc.report import Report

# 300 rows of 64, and the row of 64 that is added: 200 passes over them take the kernel a
# millisecond or more, where TensorFlow takes some ten microseconds.
ROWS, COLUMNS = 300, 64
CLASS = 1 << (ROWS * COLUMNS + COLUMNS).bit_length() - 1
# More than a trial takes; its calls come one after the other.
CALLS = 80


def compiled(native: ModuleType, cluster_id: str, options: str, rows: int = ROWS) -> Any:
    """A launch whose kernel is there."""
    run = launch(cluster_id, mode=options)
    check(run, rows, COLUMNS)
    assert native.wait_for_compiles(20.0)
    return run


def call(run: Any, times: int = CALLS, rows: int = ROWS) -> None:
    for _ in range(times):
        check(run, rows, COLUMNS)


def trial(found: Statistics, cluster_id: str, least: int = CLASS) -> dict[str, Any]:
    """What was found out about one size class of variant 0."""
    (only,) = [
        t
        for t in found.signature(cluster_id)["speed"]
        if (t["variant"], t["least_elements"]) == (0, least)
    ]
    result: dict[str, Any] = only
    return result


def test_a_slow_kernel_is_left_to_tensorflow(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    worker.set("kernel slow")
    run = compiled(native, cluster_id, "async")
    call(run)
    found = trial(statistics(), cluster_id)
    assert found["way"] == "tensorflow"
    assert found["kernel"]["count"] >= 3
    assert found["tensorflow"]["count"] >= 3
    assert found["kernel"]["min_us"] > found["tensorflow"]["median_us"]
    runs = statistics().cluster(cluster_id)["kernel_runs"]
    assert 0 < runs < 70  # it was used at first
    call(run)
    after = statistics()
    assert after.cluster(cluster_id)["kernel_runs"] == runs
    assert (
        after.reasons(cluster_id)[
            "the kernel is slower than TensorFlow at this size (never_slower)"
        ]
        >= CALLS
    )
    assert trial(after, cluster_id)["calls"] == 2 * CALLS
    # Nothing was compiled again for it.
    assert len(worker.requests()) == 1


def test_the_report_names_cluster_size_and_both_times(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    worker.set("kernel slow")
    call(compiled(native, cluster_id, "async"))
    found = trial(statistics(), cluster_id)
    passes = {"graphs": [], "nodes": 0, "in_clusters": 0, "dropped": 0}
    report = Report(passes, json.loads(native.launch_statistics()), config.defaults())
    (cluster,) = [c for c in report.as_dict()["clusters"] if c["id"] == cluster_id]
    assert found in cluster["signatures"][0]["speed"]
    # Clusters of other tests have lines, too.
    name = cluster_id.removeprefix("cluster_")
    sizes = f"{CLASS} to {2 * CLASS - 1}"
    (line,) = [s for s in str(report).splitlines() if name in s and sizes in s]
    assert f"{found['kernel']['median_us']:.1f}" in line
    assert f"{found['tensorflow']['median_us']:.1f}" in line


@pytest.mark.parametrize("options", ["async;never_slower=0", "sync", "sync;never_slower=1", "aot"])
def test_off_and_in_other_modes_the_kernel_stays(
    native: ModuleType,
    worker: Worker,
    cluster_id: str,
    statistics: Callable[[], Statistics],
    options: str,
) -> None:
    worker.set("kernel slow")
    compiled(native, cluster_id, "sync", rows=2)
    run = launch(cluster_id, mode=options)
    before = statistics().cluster(cluster_id)["kernel_runs"]
    call(run)
    assert statistics().cluster(cluster_id)["kernel_runs"] == before + CALLS
    assert statistics().signature(cluster_id)["speed"] == []


def test_a_fast_kernel_stays(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    run = compiled(native, cluster_id, "async", rows=2)
    call(run, rows=2)
    found = trial(statistics(), cluster_id, 128)
    assert found["way"] == "kernel", found
    runs = statistics().cluster(cluster_id)["kernel_runs"]
    call(run, rows=2)
    assert statistics().cluster(cluster_id)["kernel_runs"] == runs + CALLS


def test_each_size_has_its_own_verdict(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    worker.set("kernel slow")
    run = compiled(native, cluster_id, "async")
    call(run)
    runs = statistics().cluster(cluster_id)["kernel_runs"]
    # Of no rows even this kernel makes short work.
    call(run, rows=0)
    assert trial(statistics(), cluster_id)["way"] == "tensorflow"
    assert trial(statistics(), cluster_id, 64)["way"] == "kernel"
    assert statistics().cluster(cluster_id)["kernel_runs"] > runs + CALLS // 2
    call(run)
    assert trial(statistics(), cluster_id)["calls"] == 2 * CALLS


def test_nodes_of_a_cluster_share_the_verdict(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    worker.set("kernel slow")
    call(compiled(native, cluster_id, "async"))
    runs = statistics().cluster(cluster_id)["kernel_runs"]
    call(launch(cluster_id, mode="async"))
    assert statistics().cluster(cluster_id)["kernel_runs"] == runs


def test_a_verdict_hides_no_broken_guard(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    """Another variant is asked for, though calls that the first one could run are TensorFlow's."""
    worker.set("kernel slow_rows300")
    run = compiled(native, cluster_id, "async")
    call(run)
    assert trial(statistics(), cluster_id)["way"] == "tensorflow"
    worker.set("kernel any")
    check(run, ROWS + 1, COLUMNS)  # of the same class
    assert native.wait_for_compiles(20.0)
    assert len(worker.requests()) == 2
    runs = statistics().cluster(cluster_id)["kernel_runs"]
    check(run, ROWS + 1, COLUMNS)
    assert statistics().cluster(cluster_id)["kernel_runs"] == runs + 1
    call(run, 1)
    assert statistics().cluster(cluster_id)["kernel_runs"] == runs + 1


def test_an_error_in_a_timed_call_is_tensorflow_s_own(
    native: ModuleType, worker: Worker, cluster_id: str
) -> None:
    run = compiled(native, cluster_id, "async")
    plain = tf.function(affine, input_signature=[X, V])
    x, v = tf.ones([ROWS, COLUMNS]), tf.ones([COLUMNS - 1])
    for _ in range(30):
        check(run, ROWS, COLUMNS)
        with pytest.raises(tf.errors.InvalidArgumentError) as launched:
            run(x, v)
    with pytest.raises(tf.errors.InvalidArgumentError) as expected:
        plain(x, v)
    text = "Incompatible shapes: [300,64] vs. [63]"
    assert text in launched.value.message
    assert text in expected.value.message


def test_many_threads_settle_too(
    native: ModuleType, worker: Worker, cluster_id: str, statistics: Callable[[], Statistics]
) -> None:
    worker.set("kernel slow")
    run = compiled(native, cluster_id, "async")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: call(run, 50), range(6)))
    found = trial(statistics(), cluster_id)
    assert found["calls"] == 300
    assert found["way"] == "tensorflow", found
