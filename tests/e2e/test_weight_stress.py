"""A weight that was changed, in any way that TensorFlow has, is never multiplied as it was before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted

RNG = np.random.default_rng(3)
#: Numbers that bf16 has, so that both precisions give the same products.
BASE = RNG.integers(-8, 9, (96, 80)).astype(np.float32)
X = tf.constant(RNG.integers(-4, 5, (24, 96)).astype(np.float32))
#: What the function gives for the weight BASE.
UNIT = X.numpy() @ BASE

Update = Callable[[tf.Variable, float, float, Path], None]


def _sgd(variable: tf.Variable, old: float, new: float, folder: Path) -> None:
    optimizer = tf.keras.optimizers.SGD(1.0)
    optimizer.apply_gradients([(tf.constant((old - new) * BASE), variable)])


def _restored(variable: tf.Variable, old: float, new: float, folder: Path) -> None:
    path = tf.train.Checkpoint(weight=tf.Variable(new * BASE)).write(str(folder / "weight"))
    tf.train.Checkpoint(weight=variable).read(path).assert_consumed()


def _scattered(variable: tf.Variable, old: float, new: float, folder: Path) -> None:
    indices = tf.reshape(tf.range(len(BASE)), [-1, 1])
    variable.scatter_nd_update(indices, tf.constant(new * BASE))


#: Each makes `new * BASE` of a variable that is `old * BASE`.
UPDATES: dict[str, Update] = {
    "assign": lambda v, old, new, folder: v.assign(new * BASE),
    "assign_add": lambda v, old, new, folder: v.assign_add((new - old) * BASE),
    "assign_sub": lambda v, old, new, folder: v.assign_sub((old - new) * BASE),
    "numpy": lambda v, old, new, folder: v.assign((new * BASE).tolist()),
    "sgd": _sgd,
    "checkpoint": _restored,
    # From here on TensorFlow copies the variable at each read.
    "strided": lambda v, old, new, folder: v[:].assign(new * BASE),
    "scatter": _scattered,
}


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_every_kind_of_update_between_calls(precision: str, tmp_path: Path) -> None:
    variable = tf.Variable(BASE)
    with tf_disc.options(precision=precision), counted() as counts:
        fn = tf.function(lambda x: tf.nn.relu(tf.matmul(x, variable)) - 1.0)
        old = 1.0
        for turn in range(3):
            for number, update in enumerate(UPDATES.values()):
                # Often enough to be packed and held, or not at all.
                for _ in range((0, 1, 5)[(turn + number) % 3]):
                    expected = np.maximum(old * UNIT, 0) - 1
                    np.testing.assert_array_equal(fn(X).numpy(), expected)
                new = float(RNG.integers(1, 9))
                update(variable, old, new, tmp_path)
                old = new
                np.testing.assert_array_equal(fn(X).numpy(), np.maximum(old * UNIT, 0) - 1)
    assert counts["kernel_runs"] > 40 and counts["fallbacks"] == 0


def test_optimizers_with_state_between_calls() -> None:
    """Their steps are their own; the function must see what the variable then is."""
    for make in (
        tf.keras.optimizers.Adam,
        tf.keras.optimizers.RMSprop,
        tf.keras.optimizers.Adagrad,
    ):
        variable = tf.Variable(BASE)
        optimizer = make(0.25)
        fn = tf.function(lambda x, v=variable: tf.nn.relu(tf.matmul(x, v)) - 2.0)
        for step in range(12):
            for _ in range(1 + step % 4):
                expected = np.maximum(X.numpy() @ variable.numpy(), 0) - 2
                np.testing.assert_allclose(fn(X).numpy(), expected, rtol=1e-5, atol=1e-3)
            gradient = tf.constant(RNG.standard_normal(BASE.shape).astype(np.float32))
            optimizer.apply_gradients([(gradient, variable)])


@pytest.mark.parametrize("kinds", [("assign", "assign_add", "sgd", "checkpoint"), ("scatter",)])
def test_updates_while_other_threads_call(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """A call gives the product of a weight that the variable had between the call's begin and its end."""
    variable = tf.Variable(BASE)
    fn = tf.function(lambda x: tf.nn.relu(tf.matmul(x, variable)) - 3.0)
    fn(X)
    #: All weights so far; those up to `done` were whole at some time.
    values, done = [1.0], [0]
    stop = threading.Event()
    problems: list[str] = []
    calls = [0] * 3

    def read(number: int) -> None:
        try:
            while not stop.is_set():
                first = done[0]
                found = fn(X).numpy()
                possible = values[first:]
                calls[number] += 1
                if not any(np.array_equal(found, np.maximum(v * UNIT, 0) - 3) for v in possible):
                    problems.append(f"none of {possible}")
                    return
        except Exception as error:  # told to the test, which fails with it
            problems.append(repr(error))

    threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for step in range(160):
        new = float(RNG.integers(1, 9))
        values.append(new)
        UPDATES[kinds[step % len(kinds)]](variable, values[-2], new, tmp_path)
        done[0] += 1
        # Now and then they rest, and the weight is packed.
        if step % 8 == 0:
            stop.wait(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert min(calls) > 10
    np.testing.assert_array_equal(fn(X).numpy(), np.maximum(values[-1] * UNIT, 0) - 3)
