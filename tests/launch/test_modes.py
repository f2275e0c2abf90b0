"""async, sync and aot: who computes, and what the statistics say about it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import V, X, affine, check, example, launch


def test_sync_runs_the_kernel_from_the_first_call(worker, cluster_id, statistics):
    run = launch(cluster_id)
    for rows in [4, 1, 300, 0, 17, 4]:
        check(run, rows)
    check(run, 6, 0)
    check(run, 6, 1)
    cluster = statistics().cluster(cluster_id)
    assert (cluster["calls"], cluster["kernel_runs"], cluster["fallbacks"]) == (8, 8, {})
    signature = statistics().signature(cluster_id)
    assert signature["state"] == "ready"
    assert signature["source"] == "compiled"
    assert signature["signature"] == "f32[?, ?], f32[?]"
    assert signature["compile_ms"] > 0
    assert len(worker.requests()) == statistics().data["compiles"] == 1


def test_a_launch_that_constant_folding_tries_is_no_call(worker, cluster_id, statistics):
    """Folding runs nodes whose inputs are Consts on a device of its own, without functions."""
    run = launch(cluster_id)
    x, v, expected = example(3)
    folded = tf.function(lambda: run(tf.constant(x), tf.constant(v)) + 1.0)
    np.testing.assert_allclose(folded(), expected + 1, rtol=1e-6)
    cluster = statistics().cluster(cluster_id)
    assert (cluster["calls"], cluster["kernel_runs"], cluster["fallbacks"]) == (1, 1, {})


def test_async_runs_the_function_until_the_kernel_is_there(native, worker, cluster_id, statistics):
    worker.set("wait")
    run = launch(cluster_id, mode="async")
    for rows in [3, 4, 5]:
        check(run, rows)
    assert statistics().reasons(cluster_id) == {"compiling": 3}
    worker.go()
    assert native.wait_for_compiles(20.0)
    for rows in [3, 4, 5]:
        check(run, rows)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 3
    assert len(worker.requests()) == 1


def test_wait_for_compiles_gives_up(native, worker, cluster_id):
    worker.set("wait")
    check(launch(cluster_id, mode="async"), 3)
    assert not native.wait_for_compiles(0.05)


def test_aot_never_compiles(native, worker, cluster_id, statistics):
    run = launch(cluster_id, mode="aot")
    check(run, 3)
    assert native.wait_for_compiles(20.0)
    check(run, 4)
    assert worker.requests() == []
    assert statistics().reasons(cluster_id) == {
        "loading": 1,
        "mode=aot, and no artifact was shipped with the model": 1,
    }


def test_sync_after_aot_compiles(native, worker, cluster_id, statistics):
    check(launch(cluster_id, mode="aot"), 3)
    assert native.wait_for_compiles(20.0)
    check(launch(cluster_id, mode="sync"), 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1


def test_clusters_of_equal_code_compile_once(worker, cluster_id, statistics):
    ids = [cluster_id, cluster_id[:-4] + "beef"]
    for name in ids:
        check(launch(name), 3)
    assert len(worker.requests()) == 1
    assert statistics().data["memory_hits"] == 1
    assert statistics().signature(ids[1])["source"] == "memory"


def test_a_rank_is_a_signature_and_a_size_is_none(worker, cluster_id):
    specs = (tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.float32))
    run = launch(cluster_id, signature=specs)
    for rows in [2, 3, 4]:
        check(run, rows)
    assert len(worker.requests()) == 1
    # The fake's kernel is for matrices: that another rank got it must end as a reason.
    result = run(tf.ones([2, 3, 4]), tf.ones([4]))
    np.testing.assert_array_equal(result, np.full([2, 3, 4], 4.0, np.float32))
    assert len(worker.requests()) == 2


def test_dims_that_the_pass_knew_are_checked(worker, cluster_id, statistics):
    shapes = [tf.TensorShape([None, 5]).as_proto(), tf.TensorShape([5]).as_proto()]
    run = launch(cluster_id, input_shapes=shapes)
    check(run, 3, 5)
    check(run, 3, 6)
    (reason,) = statistics().reasons(cluster_id)
    assert reason == "input 0 has a size in dim 1 other than the expected 5"
    assert worker.requests()[0]["cluster"]["inputs"][0]["dims"] == [None, 5]


def test_constant_operands_are_signatures(worker, cluster_id):
    def body(x, v, axis):
        return tf.add(tf.multiply(x, 3.0), v) + 0.0 * tf.cast(axis, tf.float32)

    specs = (
        tf.TensorSpec([None, None], tf.float32),
        tf.TensorSpec([None], tf.float32),
        tf.TensorSpec([], tf.int32),
    )
    run = launch(cluster_id, body, specs, const_operands=[2])
    x, v, expected = example(3)
    for axis in [0, 1, 0, 1]:
        np.testing.assert_allclose(run(x, v, tf.constant(axis)), expected, rtol=1e-6)
    values = [request["cluster"]["inputs"][2] for request in worker.requests()]
    assert [value["value"] for value in values] == [[0], [1]]
    assert {value["kind"] for value in values} == {"const"}


def test_too_many_signatures_stop_compiling(worker, cluster_id, statistics):
    worker.set("unsupported")
    run = launch(cluster_id, const_operands=[1])
    for rows in range(70):
        x = np.ones([2, 2], np.float32)
        v = np.full([2], rows, np.float32)
        np.testing.assert_allclose(run(x, v), 3 * x + v)
    assert len(worker.requests()) == 64
    assert sum("64 signatures" in reason for reason in statistics().reasons(cluster_id)) == 1


@pytest.mark.parametrize("options", ["mode=fast", "mode", "mode=sync;mode"])
def test_bad_options_leave_tensorflow(worker, cluster_id, statistics, options):
    run = launch(cluster_id, mode=options.removeprefix("mode="))
    check(run, 3)
    (reason,) = statistics().reasons(cluster_id)
    assert reason.startswith("the node is malformed: ")


@pytest.mark.parametrize("attribute", ["weight_operands", "constant_weights"])
def test_an_attribute_out_of_range_leaves_tensorflow(worker, cluster_id, statistics, attribute):
    check(launch(cluster_id, **{attribute: [2]}), 3)
    assert statistics().reasons(cluster_id) == {
        f"the node is malformed: attribute {attribute} names input 2 of 2": 1
    }


def test_an_error_is_tensorflow_s_own(worker, cluster_id):
    run = launch(cluster_id)
    plain = tf.function(affine, input_signature=[X, V])
    x, v, _ = example(3, 5)
    with pytest.raises(tf.errors.InvalidArgumentError) as launched:
        run(x, v[:4])
    with pytest.raises(tf.errors.InvalidArgumentError) as expected:
        plain(x, v[:4])
    assert "Incompatible shapes: [3,5] vs. [4]" in launched.value.message
    assert "Incompatible shapes: [3,5] vs. [4]" in expected.value.message
    assert "tf_disc" not in launched.value.message
