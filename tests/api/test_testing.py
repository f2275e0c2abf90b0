"""assert_compiled: what it accepts, and what it says when a function is not compiled or is wrong."""

import numpy as np
import pytest
import tensorflow as tf

import tf_disc
from tf_disc import testing
from tf_disc.errors import NotCompiledError


def chain(x):
    return tf.nn.softmax(tf.tanh(x) * 2.0 + tf.exp(-tf.square(x)))


@pytest.fixture(autouse=True, scope="module")
def _on():
    tf_disc.enable()
    yield
    tf_disc.disable()


def test_returns_the_result():
    x = tf.constant([[0.5, 1.0, -2.0]])
    result = testing.assert_compiled(chain, x)
    np.testing.assert_allclose(result, chain(x), rtol=1e-5)


def test_a_denied_op_is_named():
    with (
        tf_disc.options(deny_ops=["Softmax", "Tanh", "Exp", "Square", "Mul", "AddV2"]),
        pytest.raises(NotCompiledError, match="ran 0 kernels") as error,
    ):
        testing.assert_compiled(chain, tf.constant([[1.0, 2.0]]))
    assert "Softmax" in str(error.value)
    # Exp and its neighbours reach the pass as one _UnaryOpsComposition; denying a part denies the whole.
    assert "_UnaryOpsComposition: option deny_ops names it" in str(error.value)
    assert isinstance(error.value, AssertionError)


def test_no_compiled_work_at_all():
    with pytest.raises(NotCompiledError, match="expected at least one kernel"):
        testing.assert_compiled(lambda x: tf.identity(x), tf.constant(1.0))


def test_differences_are_found():
    calls = []

    def fn(x):
        # Another graph at each trace stands for a wrong kernel.
        calls.append(1)
        return chain(x) + float(len(calls))

    with pytest.raises(AssertionError, match="output 0"):
        testing.assert_compiled(fn, tf.constant([[1.0, 2.0]]))


def test_the_users_options_come_back():
    tf.config.optimizer.set_experimental_options({"remapping": False})
    try:
        testing.assert_compiled(chain, tf.constant([[1.0, 2.0]]))
        found = tf.config.optimizer.get_experimental_options()
        assert found["remapping"] is False
        assert found["use_plugin_optimizers"] is True
    finally:
        tf.config.optimizer.set_experimental_options({"remapping": True})


def test_works_while_disabled():
    tf_disc.disable()
    try:
        testing.assert_compiled(chain, tf.constant([[1.0, 2.0]]))
        assert not tf_disc.is_enabled()
    finally:
        tf_disc.enable()
