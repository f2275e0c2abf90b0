"""Runs a dumped cluster again, alone: compiled anew or as it was, and in TensorFlow beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tf_disc.errors import TfDiscError
from tf_disc.ops.library import load_library

Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class Replayed:
    """What one replay gave. `expected` is TensorFlow's, `stage_ms` empty for a dumped kernel."""

    cluster: dict[str, Any]
    outputs: Arrays
    expected: Arrays
    stage_ms: dict[str, float]


def load_inputs(folder: Path, cluster: dict[str, Any]) -> Arrays:
    """input_0.npy … of the dump. Raises TfDiscError that names a file that is missing."""
    arrays = []
    for position, facts in enumerate(cluster["inputs"]):
        path = folder / f"input_{position}.npy"
        if not path.exists():
            raise TfDiscError(
                f"tf_disc: {path} is missing (input {facts['name']!r}); a dump folder of "
                "TF_DISC_DUMP holds one file an input beside cluster.json."
            )
        arrays.append(np.load(path))
    return arrays


def replay(folder: Path, *, recompile: bool = True, dump: str = "") -> Replayed:
    """Replays the cluster of a dump folder. `dump`: a folder for the stages of the new compile.

    Raises TfDiscError for a folder that is no dump, compiler.errors.UnsupportedError for a cluster
    that the compiler refuses, RuntimeError where a guard or the run fails.
    """
    path = folder / "cluster.json"
    if not path.exists():
        raise TfDiscError(f"tf_disc: {path} is missing; is {folder} a folder of TF_DISC_DUMP?")
    cluster = json.loads(path.read_text(encoding="utf-8"))
    inputs = load_inputs(folder, cluster)
    native = load_library()
    stage_ms: dict[str, float] = {}
    if recompile:
        from tf_disc.compiler.pipeline import compile_cluster

        target, features = native.host_target()
        artifact = compile_cluster(
            cluster, target=target, features=features, precision=_precision(folder), dump=dump
        )
        manifest, kernel, stage_ms = artifact.manifest, artifact.object, artifact.stage_ms
    else:
        manifest, kernel = _dumped_kernel(folder)
    from tf_disc.tools.reference import run_in_tensorflow

    outputs = native.run_artifact(manifest, kernel, inputs)
    return Replayed(cluster, outputs, run_in_tensorflow(cluster, inputs), stage_ms)


def _precision(folder: Path) -> str:
    """What the dumped compile was asked for; f32 where it did not come so far as to say."""
    path = folder / "compile.json"
    return (
        str(json.loads(path.read_text(encoding="utf-8"))["precision"]) if path.exists() else "f32"
    )


def _dumped_kernel(folder: Path) -> tuple[str, bytes]:
    manifest, kernel = folder / "manifest.txt", folder / "kernel.o"
    if not manifest.exists() or not kernel.exists():
        raise TfDiscError(
            f"tf_disc: {folder} holds no kernel (manifest.txt and kernel.o): its compile failed. "
            "Replay it without --as-dumped to see why."
        )
    return manifest.read_text(encoding="utf-8"), kernel.read_bytes()


def difference(output: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """Largest absolute one; infinite for another dtype or shape, or NaN in another place."""
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return float("inf")
    if output.size == 0:
        return 0.0
    left, right = output.astype(np.float64), expected.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(left - right))
    return float(np.nan_to_num(apart, nan=np.inf).max())
