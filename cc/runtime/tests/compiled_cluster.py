"""Compiles one small cluster and writes its artifact, for compiled_cluster_test.cc.

`python cc/runtime/tests/compiled_cluster.py TARGET PATH`: the manifest, a NUL, the object.
y = tanh(x[n, 64] x w[64, 48] + b[48]); s = softmax(y).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
os.environ["TF_DISC"] = "0"

from tf_disc.compiler.pipeline import compile_cluster


def _node(name: str, op: str, *inputs: str, **flags: bool) -> dict[str, Any]:
    attrs = {"T": {"type": "f32"}} | {key: {"b": flag} for key, flag in flags.items()}
    return {"name": name, "op": op, "inputs": list(inputs), "attrs": attrs}


def _input(name: str, kind: str, dims: list[int | None], sizes: list[int]) -> dict[str, Any]:
    return {"name": name, "dtype": "f32", "kind": kind, "dims": dims, "sizes": sizes}


CLUSTER = {
    "version": 1,
    "name": "cluster_00000000000000aa",
    "inputs": [
        _input("x", "tensor", [None, 64], [100, 64]),
        _input("w", "weight", [64, 48], [64, 48]),
        _input("b", "tensor", [None], [48]),
    ],
    "nodes": [
        _node("product", "MatMul", "x", "w", transpose_a=False, transpose_b=False),
        _node("sum", "BiasAdd", "product:0", "b"),
        _node("y", "Tanh", "sum:0"),
        _node("s", "Softmax", "y:0"),
    ],
    "outputs": ["y:0", "s:0"],
}


def main(target: str, path: str) -> None:
    artifact = compile_cluster(CLUSTER, target=target)
    Path(path).write_bytes(artifact.manifest.encode() + b"\0" + artifact.object)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
