"""One SavedModel in a process of its own, timed on request.

Speed is compared with TensorFlow in a process where tf_disc was never imported: its presence alone
changes which of TensorFlow's own passes run.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


class TimedModel:
    """A signature of this process, called and timed with its inputs ready and outputs read."""

    def __init__(self, folder: Path) -> None:
        # Here, not above: the child chooses what is imported first.
        import tensorflow as tf

        self._constant = tf.constant
        self._model = tf.saved_model.load(str(folder))
        self._serve = self._model.signatures["serving_default"]

    def run(self, inputs: Arrays, num_times: int = 1) -> tuple[dict[str, Any], list[float]]:
        """The outputs and the seconds of each of `num_times` calls."""
        tensors = {name: self._constant(value) for name, value in inputs.items()}
        seconds = []
        for _ in range(num_times):
            start = time.perf_counter()
            outputs = {name: value.numpy() for name, value in self._serve(**tensors).items()}
            seconds.append(time.perf_counter() - start)
        return outputs, seconds


def _serve_requests(connection: Connection, folder: Path, plugin: bool) -> None:
    if plugin:
        import tf_disc

        tf_disc.enable()
    model = TimedModel(folder)
    connection.send("ready")
    while (request := connection.recv()) is not None:
        if request == "settle":
            import tf_disc

            connection.send(tf_disc.wait_for_compiles())
        elif request == "report":
            import tf_disc

            connection.send(tf_disc.report().as_dict())
        else:
            connection.send(model.run(*request))


class PeerModel:
    """The same in a child process, with or without tf_disc. A context manager."""

    def __init__(self, folder: Path, plugin: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve_requests, args=(theirs, folder, plugin), daemon=True
        )
        self._process.start()
        theirs.close()
        self._connection.recv()

    def __enter__(self) -> PeerModel:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.is_alive():
            self._connection.send(None)
        self._process.join(10)
        self._connection.close()

    def run(self, inputs: Arrays, num_times: int = 1) -> tuple[dict[str, Any], list[float]]:
        """As TimedModel.run. Raises EOFError if the child died."""
        self._connection.send((dict(inputs), num_times))
        outputs, seconds = self._connection.recv()
        return outputs, seconds

    def settle(self) -> bool:
        """Waits until nothing is being compiled there."""
        self._connection.send("settle")
        return bool(self._connection.recv())

    def report(self) -> dict[str, Any]:
        """`tf_disc.report().as_dict()` there."""
        self._connection.send("report")
        report: dict[str, Any] = self._connection.recv()
        return report


def largest_difference(a: Arrays, b: Arrays) -> float:
    """Over all outputs; infinite where NaN or infinity stand in different places."""
    worst = 0.0
    for name, left in a.items():
        right = b[name]
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        difference = np.where(same, 0.0, np.abs(left - right))
        worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0)))
    return worst
