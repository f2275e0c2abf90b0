"""For users' test suites: that a function is compiled, and that it gives TensorFlow's values."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tf_disc import api
from tf_disc.errors import NotCompiledError


def assert_compiled(
    fn: Callable[..., Any], *args: Any, rtol: float = 1e-5, atol: float = 1e-5, **kwargs: Any
) -> Any:
    """Runs `fn(*args, **kwargs)` in TensorFlow and in tf_disc, and compares.

    `fn` is a Python function or a tf.function of tensors; it is traced anew for each, so it should
    not change state that it reads. Compiling is waited for. Floats agree within `rtol` and `atol`
    with TensorFlow whose `remapping` is off, NaN and infinity in the same places; everything else
    is equal, and so are dtypes and shapes.

    Returns tf_disc's result. Raises NotCompiledError (an AssertionError) if no kernel ran or a
    cluster fell back to TensorFlow, with the reasons; AssertionError if results differ.
    """
    import tensorflow as tf

    was_enabled = api.is_enabled()
    with _plain_tensorflow():
        expected = tf.function(lambda: fn(*args, **kwargs))()
    api.enable()
    try:
        with api.options(mode="sync"):
            before = api.report().as_dict()
            result = tf.function(lambda: fn(*args, **kwargs))()
            after = api.report().as_dict()
    finally:
        if not was_enabled:
            api.disable()
    _check_compiled(before, after)
    _check_equal(expected, result, rtol, atol)
    return result


def _check_compiled(before: dict[str, Any], after: dict[str, Any]) -> None:
    runs, fallbacks = (
        after["totals"][name] - before["totals"][name] for name in ("kernel_runs", "fallbacks")
    )
    if runs > 0 and fallbacks == 0:
        return
    calls = _new(_fallback_counts(before), _fallback_counts(after))
    nodes = _new(_left_counts(before), _left_counts(after))
    reasons = [f"  {count} calls of {id_}: {reason}" for (id_, reason), count in calls.items()]
    reasons += [f"  {count} nodes {op}: {reason}" for (op, reason), count in nodes.items()]
    raise NotCompiledError(
        f"tf_disc: the function ran {runs} kernels and fell back to TensorFlow {fallbacks} times; "
        "expected at least one kernel and no fallback.\n"
        + ("\n".join(reasons) or "  No graph of it reached the pass: too small, or not a graph.")
    )


def _fallback_counts(report: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (cluster["id"], reason): count
            for cluster in report["clusters"]
            for reason, count in cluster["fallbacks"].items()
        }
    )


def _left_counts(report: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter(
        {(left["op"], left["reason"]): left["count"] for left in report["left_to_tensorflow"]}
    )


def _new(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[Any, int]:
    return dict(after - before)


def _check_equal(expected: Any, result: Any, rtol: float, atol: float) -> None:
    import tensorflow as tf

    tf.nest.assert_same_structure(expected, result)
    pairs = zip(tf.nest.flatten(expected), tf.nest.flatten(result))
    for position, (left, right) in enumerate(pairs):
        a, b = np.asarray(left), np.asarray(right)
        what = f"output {position}"
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise AssertionError(
                f"tf_disc: {what} is {b.dtype}{list(b.shape)}; "
                f"TensorFlow gives {a.dtype}{list(a.shape)}"
            )
        if left.dtype.is_floating:
            a, b = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_allclose(b, a, rtol=rtol, atol=atol, err_msg=f"tf_disc: {what}")
        else:
            np.testing.assert_array_equal(b, a, err_msg=f"tf_disc: {what}")


@contextlib.contextmanager
def _plain_tensorflow() -> Iterator[None]:
    """No plugin, and none of TensorFlow's own pattern fusions, which are wrong in places."""
    import tensorflow as tf

    names = ("use_plugin_optimizers", "remapping")
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(dict.fromkeys(names, False))
    try:
        yield
    finally:
        # Not set means on.
        restored = {name: before.get(name, True) for name in names}
        tf.config.optimizer.set_experimental_options(restored)
