"""Variables whose handle goes into the cluster, read while others update them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import X, affine, launch, ops


def read(handle: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


def affine_of_variable(x: tf.Tensor, handle: tf.Tensor) -> tf.Tensor:
    return affine(x, tf.reshape(read(handle), [-1]))


HANDLE = tf.TensorSpec([], tf.resource)


@pytest.fixture
def variable():
    return tf.Variable(np.arange(4, dtype=np.float32))


def test_a_handle_is_looked_up(worker, cluster_id, statistics, variable):
    run = launch(cluster_id, affine_of_variable, (X, HANDLE))
    x = np.ones([3, 4], np.float32)
    np.testing.assert_array_equal(run(x, variable.handle), 3 * x + variable.numpy())
    variable.assign_add(tf.ones([4]))
    np.testing.assert_array_equal(run(x, variable.handle), 3 * x + np.arange(1, 5))
    assert statistics().cluster(cluster_id)["kernel_runs"] == 2
    (request,) = worker.requests()
    assert request["cluster"]["inputs"][1] == {
        "name": "handle",
        "dtype": "f32",
        "kind": "resource",
        "dims": [4],
        "sizes": [4],
    }


def test_another_size_of_a_variable_is_another_signature(worker, cluster_id):
    run = launch(cluster_id, affine_of_variable, (X, HANDLE))
    for size in [4, 5, 4]:
        variable = tf.Variable(np.full([size], size, np.float32))
        x = np.ones([3, size], np.float32)
        np.testing.assert_array_equal(run(x, variable.handle), 3 * x + size)
    assert len(worker.requests()) == 2


def test_a_variable_that_is_gone_is_tensorflow_s_error(worker, cluster_id, statistics):
    run = launch(cluster_id, affine_of_variable, (X, HANDLE))
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4], shared_name=cluster_id)
    with pytest.raises(tf.errors.FailedPreconditionError) as launched:
        run(np.ones([3, 4], np.float32), handle)
    assert cluster_id in launched.value.message
    assert "tf_disc" not in launched.value.message
    assert statistics().reasons(cluster_id) == {f'variable "{cluster_id}" was not found': 1}
    assert worker.requests() == []


def test_one_variable_twice_in_copy_on_read_mode(worker, cluster_id, variable):
    """Two shared locks of one mutex hang when a writer comes in between: it is locked once."""

    def body(x, handle, again):
        return affine(x, 0.5 * (read(handle) + read(again)))

    # A kernel with three inputs: its third is not read.
    text = (worker.folder / "any.manifest").read_text()
    (worker.folder / "three.manifest").write_text(
        text.replace("output 0", "input 2 f32 1\noutput 0")
    )
    (worker.folder / "three.o").symlink_to(worker.folder / "any.o")
    worker.set("kernel three")
    run = launch(cluster_id, body, (X, HANDLE, HANDLE))
    variable.scatter_update(tf.IndexedSlices(tf.constant([7.0]), tf.constant([0])))
    hammer(run, variable, lambda x: (x, variable.handle, variable.handle))


def hammer(run, variable, arguments) -> None:
    """Launches while another thread scatters 1, 2, 3 …: nothing hangs, and every number read is one that was written.

    TensorFlow's scatter takes the variable's lock shared, as readers do (`use_locking` is off by default), so the
    elements of one run may be of neighbouring updates, with us as with TensorFlow's own gather.
    """
    stop = threading.Event()
    errors: list[BaseException] = []
    written = [0.0]

    def update() -> None:
        while not stop.is_set():
            value = written[0] = written[0] + 1.0
            variable.scatter_update(
                tf.IndexedSlices(tf.fill([4], value), tf.range(4, dtype=tf.int32))
            )

    def launches() -> None:
        x = tf.zeros([50, 4])
        try:
            for _ in range(150):
                result = run(*arguments(x)).numpy()
                assert (result * 2 == np.round(result * 2)).all(), result
                assert result.min() >= -1.0, result
                assert result.max() <= max(written[0], 7.0) + 1.0, result
        except BaseException as error:
            errors.append(error)

    updater = threading.Thread(target=update)
    readers = [threading.Thread(target=launches) for _ in range(3)]
    updater.start()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    hung = any(reader.is_alive() for reader in readers)
    stop.set()
    updater.join(60)
    assert not hung
    assert not updater.is_alive()
    if errors:
        raise errors[0]


def test_scatter_updates_meanwhile(worker, cluster_id, statistics, variable):
    run = launch(cluster_id, affine_of_variable, (X, HANDLE))
    hammer(run, variable, lambda x: (x, variable.handle))
    assert statistics().cluster(cluster_id)["kernel_runs"] == 450


def test_dense_updates_meanwhile(worker, cluster_id, statistics, variable):
    run = launch(cluster_id, affine_of_variable, (X, HANDLE))
    stop = threading.Event()

    def update() -> None:
        while not stop.is_set():
            variable.assign_add(tf.ones([4]))

    updater = threading.Thread(target=update)
    variable.assign(tf.zeros([4]))
    updater.start()
    x = tf.zeros([50, 4])
    try:
        for _ in range(200):
            result = run(x, variable.handle).numpy()
            assert (result == result[0, 0]).all()
    finally:
        stop.set()
        updater.join(60)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 200


def test_weights_are_signatures_by_shape(worker, cluster_id):
    run = launch(cluster_id, weight_operands=[1])
    for size in [4, 5, 4]:
        x, v = np.ones([3, size], np.float32), np.full([size], size, np.float32)
        np.testing.assert_array_equal(run(x, v), 3 * x + v)
    inputs = [request["cluster"]["inputs"][1] for request in worker.requests()]
    assert [(i["kind"], i["dims"]) for i in inputs] == [("weight", [4]), ("weight", [5])]


def test_a_slice_that_is_not_aligned(worker, cluster_id, statistics):
    """A row of a matrix of 3 columns: aligned to its elements only."""
    table = tf.random.normal([7, 3])
    wrappers = ops()
    run = launch(cluster_id)

    @tf.function
    def sliced(table, row):
        return run(tf.zeros([2, 3]), tf.reshape(tf.slice(table, [row, 0], [1, 3]), [3]))

    for row in range(7):
        np.testing.assert_array_equal(
            sliced(table, tf.constant(row)), np.tile(table[row].numpy(), [2, 1])
        )
    assert wrappers is not None
    assert statistics().cluster(cluster_id)["kernel_runs"] == 7
