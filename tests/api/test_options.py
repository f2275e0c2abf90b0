"""enable, disable and options: what they change, and what they put back."""

import threading

import pytest
import tensorflow as tf

import tf_disc
from tf_disc import settings


@pytest.fixture(autouse=True)
def _on():
    tf_disc.enable()
    yield
    tf_disc.enable(mode="async", min_cluster_size=3)


def test_enable_sets_options_and_keeps_the_rest():
    tf_disc.enable(mode="sync")
    tf_disc.enable(min_cluster_size=7)
    options = settings.in_force()
    assert (options["mode"], options["min_cluster_size"]) == ("sync", 7)


def test_a_wrong_option_changes_nothing():
    before = settings.in_force()
    with pytest.raises(tf_disc.OptionError, match="no option 'speed'"):
        tf_disc.enable(mode="sync", speed=11)
    with (
        pytest.raises(tf_disc.OptionError, match="expected one of f32, bf16"),
        tf_disc.options(mode="sync", precision="f16"),
    ):
        raise AssertionError("the context was entered")
    assert settings.in_force() == before


def test_context_nests_and_restores():
    before = settings.in_force()
    with tf_disc.options(mode="sync"):
        with tf_disc.options(mode="aot", deny_ops=["Softmax"]):
            assert settings.in_force()["mode"] == "aot"
        assert settings.in_force()["mode"] == "sync"
        assert settings.in_force()["deny_ops"] == ()
    assert settings.in_force() == before


def test_context_restores_after_an_error():
    before = settings.in_force()
    with pytest.raises(KeyError), tf_disc.options(mode="sync"):
        raise KeyError
    assert settings.in_force() == before


def test_decorator():
    @tf_disc.options(mode="sync")
    def mode():
        return settings.in_force()["mode"]

    assert mode() == "sync"
    assert mode() == "sync"
    assert settings.in_force()["mode"] == "async"


def test_contexts_of_two_threads_may_end_in_any_order():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with tf_disc.options(mode="aot"):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with tf_disc.options(mode="sync"):
        thread.start()
        assert inside.wait(10)
    assert settings.in_force()["mode"] == "aot"
    leave.set()
    thread.join()
    assert settings.in_force()["mode"] == "async"


def test_the_library_gets_every_graph_option():
    from tf_disc import _native

    with tf_disc.options(mode="sync", deny_ops=["Erf", "Softmax"], min_cluster_size=9):
        found = _native.current_options()
    assert found["mode"] == "sync"
    assert found["deny_ops"] == "Erf,Softmax"
    assert found["min_cluster_size"] == "9"
    assert found["enabled"] == "1"


def test_disable_and_enable_keep_the_users_optimizer_options():
    tf.config.optimizer.set_experimental_options({"debug_stripper": True})
    try:
        tf_disc.disable()
        assert not tf_disc.is_enabled()
        found = tf.config.optimizer.get_experimental_options()
        assert found["use_plugin_optimizers"] is False
        assert found["debug_stripper"] is True
        tf_disc.disable()
        tf_disc.enable()
        assert tf_disc.is_enabled()
        found = tf.config.optimizer.get_experimental_options()
        assert found["use_plugin_optimizers"] is True
        assert found["debug_stripper"] is True
    finally:
        tf.config.optimizer.set_experimental_options({"debug_stripper": False})


def test_enable_keeps_a_users_own_no():
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
    try:
        tf_disc.disable()
        tf_disc.enable()
        found = tf.config.optimizer.get_experimental_options()
        assert found["use_plugin_optimizers"] is False
    finally:
        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": True})


def test_a_context_can_switch_off():
    from tf_disc import _native

    with tf_disc.options(enabled=False):
        assert not tf_disc.is_enabled()
        assert _native.current_options()["enabled"] == "0"
    assert tf_disc.is_enabled()
