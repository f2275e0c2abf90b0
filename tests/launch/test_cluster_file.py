"""What the compiler is told: the cluster file that a launch writes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import V, X, affine, check, launch


def cluster_of(worker, cluster_id, body, signature=(X, V), arguments=None, **attributes):
    """The cluster file of one call, which itself falls back."""
    worker.set("unsupported")
    run = launch(cluster_id, body, signature, **attributes)
    run(*(arguments or [tf.ones([2, 3]), tf.ones([3])]))
    return worker.requests()[-1]["cluster"]


def node(cluster, op):
    (found,) = [n for n in cluster["nodes"] if n["op"] == op]
    return found


def test_the_whole_file(worker, cluster_id):
    check(launch(cluster_id), 3)
    (request,) = worker.requests()
    cluster = request.pop("cluster")
    assert request.keys() == {"target", "features", "precision", "dump"}
    assert request["target"].startswith("x86-64-v")
    assert (request["precision"], request["dump"]) == ("f32", "")
    cluster["name"] = "f"
    assert cluster == {
        "version": 1,
        "name": "f",
        "inputs": [
            {"name": "x", "dtype": "f32", "kind": "tensor", "dims": [None, None], "sizes": [3, 5]},
            {"name": "v", "dtype": "f32", "kind": "tensor", "dims": [None], "sizes": [5]},
        ],
        "nodes": [
            {
                "name": "Mul/y",
                "op": "Const",
                "inputs": [],
                "attrs": {
                    "dtype": {"type": "f32"},
                    "value": {"tensor": {"dtype": "f32", "dims": [], "values": [3]}},
                },
            },
            {
                "name": "Mul",
                "op": "Mul",
                "inputs": ["x", "Mul/y:0"],
                "attrs": {"T": {"type": "f32"}},
            },
            {
                "name": "Add",
                "op": "AddV2",
                "inputs": ["Mul:0", "v"],
                "attrs": {"T": {"type": "f32"}},
            },
            {
                "name": "Identity",
                "op": "Identity",
                "inputs": ["Add:0"],
                "attrs": {"T": {"type": "f32"}},
            },
        ],
        "outputs": ["Identity:0"],
    }


def test_outputs_are_numbered_flat(worker, cluster_id):
    def body(x, v):
        unique = tf.raw_ops.UniqueWithCounts(x=v)
        parts = tf.split(x, [1, 1, 1], axis=1)
        return parts[2] + parts[1] + tf.cast(unique.count, tf.float32) + unique.y

    cluster = cluster_of(worker, cluster_id, body)
    split = node(cluster, "SplitV")["name"]
    unique = node(cluster, "UniqueWithCounts")["name"]
    inputs = [text for n in cluster["nodes"] for text in n["inputs"]]
    assert {f"{split}:2", f"{split}:1", f"{unique}:2", f"{unique}:0"} <= set(inputs)


def test_attributes(worker, cluster_id):
    def body(x, v):
        y = tf.nn.max_pool2d(tf.reshape(x, [1, 2, 3, 1]), 2, 1, "SAME")
        z = tf.strided_slice(x, [0, 0], [2, 3], [1, 2], begin_mask=1)
        p = tf.raw_ops.PlaceholderWithDefault(input=v, shape=[None])
        return tf.reduce_sum(y) + tf.reduce_mean(z, 1) + tf.reduce_sum(p)

    cluster = cluster_of(worker, cluster_id, body)
    pool = node(cluster, "MaxPool")["attrs"]
    assert pool["ksize"] == {"ints": [1, 2, 2, 1]}
    assert pool["padding"] == {"s": "SAME"}
    assert pool["explicit_paddings"] == {"ints": []}
    assert node(cluster, "StridedSlice")["attrs"]["begin_mask"] == {"i": 1}
    assert node(cluster, "Mean")["attrs"]["keep_dims"] == {"b": False}
    assert node(cluster, "PlaceholderWithDefault")["attrs"]["shape"] == {"shape": [None]}
    names = [name for n in cluster["nodes"] for name in n["attrs"]]
    assert not [name for name in names if name.startswith("_")]


@pytest.mark.parametrize(
    ("dtype", "values", "written"),
    [
        (tf.float32, [0.1, -0.0], [0.1, -0.0]),
        (tf.float32, [float("nan"), float("inf"), -float("inf")], ["nan", "inf", "-inf"]),
        (tf.float64, [0.1, 1e300], [0.1, 1e300]),
        (tf.bfloat16, [1.5, -2.0], [1.5, -2]),
        (tf.float16, [0.5, 65504.0], [0.5, 65504]),
        (tf.int64, [2**62, -1], [2**62, -1]),
        (tf.int8, [-128, 127], [-128, 127]),
        (tf.uint8, [0, 255], [0, 255]),
        (tf.int16, [-5, 5], [-5, 5]),
        (tf.bool, [True, False], [True, False]),
        (tf.float32, [2.5] * 100, [2.5]),
        (tf.int32, [], []),
    ],
)
def test_constants(worker, cluster_id, dtype, values, written):
    def body(x, v):
        constant = tf.constant(values, dtype)
        return x + v + tf.reduce_sum(tf.cast(constant, tf.float32))

    cluster = cluster_of(worker, cluster_id, body)
    tensors = [n["attrs"]["value"]["tensor"] for n in cluster["nodes"] if n["op"] == "Const"]
    (tensor,) = [t for t in tensors if t["dims"] == [len(values)]][:1]
    assert tensor["values"] == written
    assert np.dtype(dtype.as_numpy_dtype).itemsize


def test_what_the_file_cannot_say_is_a_reason(worker, cluster_id, statistics):
    def body(x, v):
        text = tf.strings.length(tf.constant("four"))
        return affine(x, v) + 0.0 * tf.cast(text, tf.float32)

    check(launch(cluster_id, body), 3)
    (reason,) = statistics().reasons(cluster_id)
    assert reason == ("node Const (Const): attribute value: a constant of string cannot be written")
    assert worker.requests() == []


def test_a_call_of_a_function_is_a_reason(worker, cluster_id, statistics):
    inner = tf.function(affine, autograph=False)
    check(launch(cluster_id, lambda x, v: inner(x, v)), 3)
    (reason,) = statistics().reasons(cluster_id)
    assert reason.startswith("node PartitionedCall (")
    assert worker.requests() == []


def test_an_argument_handed_through(worker, cluster_id):
    worker.set("unsupported")
    run = launch(cluster_id, lambda x, v: [tf.identity(affine(x, v)), v])
    run(tf.ones([2, 3]), tf.ones([3]))
    cluster = worker.requests()[-1]["cluster"]
    assert len(cluster["outputs"]) == 2


def test_control_inputs_are_left_out(worker, cluster_id):
    def body(x, v):
        y = affine(x, v)
        with tf.control_dependencies([y]):
            return tf.identity(x)

    cluster = cluster_of(worker, cluster_id, body)
    assert not [text for n in cluster["nodes"] for text in n["inputs"] if "^" in text]


def test_names_and_sizes_are_no_part_of_the_key(worker, cluster_id, statistics):
    def renamed(x, v):
        with tf.name_scope("somewhere/else"):
            return tf.add(tf.multiply(x, 3.0, name="a"), v, name="b")

    check(launch(cluster_id), 3)
    check(launch(cluster_id[:-4] + "cafe", renamed), 9)
    assert len(worker.requests()) == 1
    assert statistics().data["memory_hits"] == 1


def test_dump(worker, cluster_id, tmp_path):
    dump = tmp_path / "dump"
    worker.configure(dump_dir=str(dump))
    run = launch(cluster_id)
    check(run, 3)
    check(run, 4)
    (folder,) = dump.iterdir()
    assert folder.name == f"{cluster_id}_0"
    (request,) = worker.requests()
    assert request["dump"] == str(folder)
    assert json.loads((folder / "cluster.json").read_text()) == request["cluster"]
    x, v = np.load(folder / "input_0.npy"), np.load(folder / "input_1.npy")
    np.testing.assert_array_equal(x.shape, [3, 5])
    np.testing.assert_array_equal(run(x, v), 3 * x + v)


def test_a_dump_that_cannot_be_written(worker, cluster_id, tmp_path, statistics):
    (tmp_path / "file").touch()
    worker.configure(dump_dir=str(tmp_path / "file" / "dump"))
    check(launch(cluster_id), 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1
    (problem,) = statistics().data["problems"]
    assert problem.startswith(f"cannot make a folder for {cluster_id} in ")
