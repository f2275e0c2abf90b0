"""How a peer loads a model and calls it; each runs in the peer's own process and environment.

Nothing here may import what another peer has: a module imports its runtime and numpy, and the
engine of TensorFlow imports tf_disc only where it is the peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
Call = Callable[[], Any]


class Engine(Protocol):
    """A runtime with one model in it. Calls return when outputs are ready, in its own memory."""

    def load(self, kind: str, path: str) -> None:
        """Loads a model. `kind`: saved_model, onnx, or micro with the name of a case as path."""

    def prepare(self, arrays: Arrays, client: int) -> Call:
        """A call with inputs in place; each client may run its call at the same time as others'."""

    def prepare_case(self, size: int) -> tuple[Call, int]:
        """The same for a micro case, with the bytes of its inputs."""

    def outputs(self, result: Any) -> Arrays:
        """A call's result as arrays that are copies."""

    def empty(self) -> Call:
        """A call of a graph that does nothing, by the same way as the model's."""

    def version(self) -> str:
        """Of the runtime."""

    def settle(self) -> None:
        """Waits until nothing is compiled in the background any more."""

    def report(self) -> dict[str, Any]:
        """Counters, if the runtime has such; else empty."""


def make_engine(name: str, precision: str, options: Mapping[str, str]) -> Engine:
    """The engine of a module in this folder."""
    module = importlib.import_module(f"benchmarks.engines.{name}_engine")
    return cast(Engine, module.make(precision, options))
