"""The report names what stays with TensorFlow, each op with a reason in plain words."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tf_disc

STATE = tf.Variable(tf.zeros([4, 8]))


def count_up(y: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([STATE.assign_add(y)]):
        return tf.identity(y)


CASES = {
    "Where": (tf.where, "the size of its result depends on data"),
    "Unique": (
        lambda y: tf.unique(tf.reshape(tf.round(y), [-1]))[0],
        "the size of its result depends on data",
    ),
    "AsString": (tf.strings.as_string, "it works on strings or bytes"),
    "Equal": (lambda y: tf.strings.as_string(y) == "1", "no rule for T=string"),
    "RandomUniform": (
        lambda y: y + tf.random.uniform([4, 8]),
        "it draws random numbers, which are TensorFlow's to draw",
    ),
    "AssignAddVariableOp": (count_up, "it changes state, which a cluster never does"),
    "Complex": (lambda y: tf.complex(y, y), "it works on complex numbers"),
    "PyFunc": (lambda y: tf.numpy_function(np.sort, [y], tf.float32), "it calls Python"),
}


@pytest.mark.parametrize("op", CASES)
def test_the_reason_is_in_the_report(op: str) -> None:
    build, reason = CASES[op]

    @tf.function
    def fn(x: tf.Tensor) -> tf.Tensor:
        return build(tf.tanh(x) * 2.0 + tf.exp(-tf.square(x)))

    def counts() -> dict[tuple[str, str], int]:
        left = tf_disc.report().as_dict()["left_to_tensorflow"]
        return {(entry["op"], entry["reason"]): entry["count"] for entry in left}

    before = counts()
    fn(tf.ones([4, 8]))
    after = counts()
    new = {why for (name, why), n in after.items() if name == op and n > before.get((name, why), 0)}
    assert new == {reason}
    text = " ".join(str(tf_disc.report()).replace("│", " ").split())
    assert op in text
