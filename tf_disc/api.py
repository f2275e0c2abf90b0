"""enable, disable, options, report: what users call."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

from tf_disc import config, settings
from tf_disc.compiler.op_rules import op_table
from tf_disc.ops.library import load_library, require_library
from tf_disc.report import Report

_lock = threading.Lock()
_enabled = False
# What the user had set for the optimizer option that disable() uses.
_option_before_disable: bool | None = None

_PLUGIN_OPTION = "use_plugin_optimizers"


def enable(**options: Any) -> None:
    """Switches tf_disc on for functions traced from now on, and sets options for the process.

    `options` are those of docs/options.md. Calling it again changes the options given and keeps the
    rest. Raises OptionError (nothing is changed then), IncompatibleTensorFlowError, or TfDiscError
    if the native library is missing.
    """
    global _enabled, _option_before_disable
    layer = config.parse_options({"enabled": True, **options})
    with _lock:
        native = load_library()
        native.set_op_table(op_table())
        settings.attach(native, layer)
        if _option_before_disable is not None:
            _set_plugin_option(_option_before_disable)
            _option_before_disable = None
        _enabled = True


def disable() -> None:
    """Gives back plain TensorFlow for functions traced from now on, and re-optimises traced ones.

    It sets TensorFlow's own optimizer option `use_plugin_optimizers`, which stops the plugins of
    others too; `enable()` restores what was set before. Sessions of TensorFlow 1 do not read that
    option: for them the pass itself stands aside. Does nothing if tf_disc is not enabled.
    """
    global _enabled, _option_before_disable
    with _lock:
        if not _enabled:
            return
        settings.attach(require_library(), {"enabled": False})
        _option_before_disable = _plugin_option()
        _set_plugin_option(False)
        _enabled = False


def is_enabled() -> bool:
    """Whether functions traced now get clusters."""
    return _enabled and bool(settings.in_force()["enabled"])


@contextlib.contextmanager
def options(**values: Any) -> Iterator[None]:
    """Options for what is traced (and compiled) inside; a context manager and a decorator.

        with tf_disc.options(mode="sync", deny_ops=["Softmax"]):
            model(x)

    A function keeps the graph options it was first traced under: a context around a later call
    changes nothing for it. Options belong to the process, so other threads see them too. Raises
    OptionError.
    """
    layer = config.parse_options(values)
    settings.push_layer(layer)
    try:
        yield
    finally:
        settings.pop_layer(layer)


def report() -> Report:
    """What tf_disc did in this process so far: clusters, kernels, fallbacks, what stayed and why.

    Prints as tables; `as_dict()` gives plain data. Raises TfDiscError if tf_disc was never enabled.
    """
    native = require_library()
    return Report(
        passes=json.loads(native.pass_statistics()),
        launches=json.loads(native.launch_statistics()),
        options=settings.in_force(),
        cpu=native.host_target(),
    )


def wait_for_compiles(timeout_s: float = 600.0) -> bool:
    """Waits until nothing is being compiled. Returns whether that was so within `timeout_s`."""
    return bool(require_library().wait_for_compiles(float(timeout_s)))


def clear_weight_cache() -> None:
    """Frees all packed weights; they are packed again when next used."""
    require_library().clear_weight_cache()


def _plugin_option() -> bool:
    import tensorflow as tf

    # Not set by the user means on: it is TensorFlow's default.
    return bool(tf.config.optimizer.get_experimental_options().get(_PLUGIN_OPTION, True))


def _set_plugin_option(value: bool) -> None:
    import tensorflow as tf

    # TensorFlow merges what it is given into the user's other options.
    tf.config.optimizer.set_experimental_options({_PLUGIN_OPTION: value})
