"""Models on disk, in the forms that the peers read: SavedModels, and ONNX files made from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import python_of
from benchmarks.peers import OWN
from benchmarks.workloads import WORKLOADS, Dims


class Artifacts:
    """Under `folder`: one SavedModel a model and what is made of it. Nothing is made twice."""

    def __init__(self, folder: Path, envs: Path) -> None:
        self._folder = folder.absolute()
        self._envs = envs

    def path(self, model: str, kind: str) -> Path:
        """The model as `saved_model` or `onnx`. Raises CalledProcessError if it cannot be made."""
        return self._onnx(model) if kind == "onnx" else self._saved_model(model)

    def flops(self, model: str, dims: Dims) -> int:
        """Floating-point operations of the model's products and convolutions at a size."""
        known = WORKLOADS[model].flops
        if known is not None:
            return known(dims)
        file = self._saved_model(model) / "work.json"
        return int(json.loads(file.read_text(encoding="utf-8"))["flops_a_row"]) * dims[0]

    def _saved_model(self, model: str) -> Path:
        folder = self._folder / model
        if not (folder / "work.json").exists():
            _run(OWN, self._envs, "benchmarks.models", str(self._folder), model)
        return folder

    def _onnx(self, model: str) -> Path:
        file = self._folder / f"{model}.onnx"
        if not file.exists():
            given = str(self._saved_model(model))
            _run("onnx", self._envs, "benchmarks.convert_onnx", given, str(file))
        return file


def _run(environment: str, envs: Path, module: str, *arguments: str) -> None:
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_DISC": "0"}
    command = [str(python_of(environment, envs)), "-m", module, *arguments]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
