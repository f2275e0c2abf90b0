"""OpenVINO on the CPU, hinted for latency. Its tensors share memory with the arrays: none is copied."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from benchmarks.engines import Arrays, Call


class OpenVinoEngine:
    """One compiled model, an infer request a client."""

    def __init__(self, precision: str) -> None:
        self._hints = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
        self._model: Any = None
        self._empty: Any = None
        self._requests: dict[int, Any] = {}

    def load(self, kind: str, path: str) -> None:
        if kind != "onnx":
            raise ValueError(f"OpenVINO cannot load {kind}")
        self._model = self._compile(path)
        self._empty = self._compile(str(Path(path).parent / "empty.onnx"))

    def prepare(self, arrays: Arrays, client: int) -> Call:
        if client not in self._requests:
            self._requests[client] = self._model.create_infer_request()
        request = self._requests[client]
        feeds = {
            given: openvino.Tensor(arrays[_own_name(given)], shared_memory=True)
            for given in self._model.inputs
        }
        return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)

    def prepare_case(self, size: int) -> tuple[Call, int]:
        raise ValueError("OpenVINO has no micro cases")

    def outputs(self, result: Any) -> Arrays:
        return {
            _own_name(port): np.array(value)
            for port, value in zip(self._model.outputs, result.values())
        }

    def empty(self) -> Call:
        request = self._empty.create_infer_request()
        feed = {0: openvino.Tensor(np.zeros(1, np.float32), shared_memory=True)}
        return lambda: request.infer(feed, share_inputs=True, share_outputs=True)

    def version(self) -> str:
        return f"OpenVINO {openvino.__version__}"

    def settle(self) -> None:
        """Nothing is compiled in the background."""

    def report(self) -> dict[str, Any]:
        return {}

    def _compile(self, path: str) -> Any:
        model = openvino.convert_model(path)
        return openvino.Core().compile_model(model, "CPU", self._hints)


def _own_name(port: Any) -> str:
    return min(port.get_names(), key=len).split(":")[0]


def make(precision: str, options: Mapping[str, str]) -> OpenVinoEngine:
    return OpenVinoEngine(precision)
