"""ONNX Runtime on the CPU. Inputs and outputs stay in its own values: no copy to numpy is timed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.engines import Arrays, Call


class OnnxRuntimeEngine:
    """One session, on all cores."""

    def __init__(self) -> None:
        self._session: Any = None
        self._empty: Any = None

    def load(self, kind: str, path: str) -> None:
        if kind != "onnx":
            raise ValueError(f"ONNX Runtime cannot load {kind}")
        self._session = _session(path)
        self._empty = _session(str(Path(path).parent / "empty.onnx"))

    def prepare(self, arrays: Arrays, client: int) -> Call:
        return _call(self._session, arrays)

    def prepare_case(self, size: int) -> tuple[Call, int]:
        raise ValueError("ONNX Runtime has no micro cases")

    def outputs(self, result: Any) -> Arrays:
        names = [given.name.split(":")[0] for given in self._session.get_outputs()]
        return {name: np.array(value.numpy()) for name, value in zip(names, result)}

    def empty(self) -> Call:
        return _call(self._empty, {"x": np.zeros(1, np.float32)})

    def version(self) -> str:
        return f"ONNX Runtime {onnxruntime.__version__}"

    def settle(self) -> None:
        """Nothing is compiled in the background."""

    def report(self) -> dict[str, Any]:
        return {}


def _session(path: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _call(session: Any, arrays: Arrays) -> Call:
    values = {
        given.name: onnxruntime.OrtValue.ortvalue_from_numpy(arrays[given.name.split(":")[0]])
        for given in session.get_inputs()
    }
    return lambda: session.run_with_ort_values(None, values)


def make(precision: str, options: Mapping[str, str]) -> OnnxRuntimeEngine:
    if precision != "f32":
        raise ValueError(f"ONNX Runtime has no {precision} on the CPU")
    return OnnxRuntimeEngine()
