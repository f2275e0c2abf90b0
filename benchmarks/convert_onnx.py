"""A SavedModel as ONNX, in the environment `onnx`: `python -m benchmarks.convert_onnx FOLDER FILE`.

tf2onnx with opset 17, then the repair of two ops that it writes and no runtime knows, Erfc and
Log1p. Beside the file stands empty.onnx, a graph that does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def repair(model: Any) -> None:
    """Replaces Erfc(x) by 1 - Erf(x) and Log1p(x) by Log(x + 1), in place."""
    graph, nodes = model.graph, []
    graph.initializer.append(numpy_helper.from_array(np.float32(1), "repair_one"))
    for node in graph.node:
        between = node.output[0] + "_repaired"
        if node.op_type == "Erfc":
            nodes.append(helper.make_node("Erf", [node.input[0]], [between]))
            nodes.append(helper.make_node("Sub", ["repair_one", between], [node.output[0]]))
        elif node.op_type == "Log1p":
            nodes.append(helper.make_node("Add", [node.input[0], "repair_one"], [between]))
            nodes.append(helper.make_node("Log", [between], [node.output[0]]))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def empty_model() -> Any:
    """x f32[1] to itself."""
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "y")]
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "empty", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def convert(folder: Path, file: Path) -> None:
    """Writes `file`, whole or not at all. Raises CalledProcessError."""
    half = file.with_suffix(f".{os.getpid()}.part")
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(folder)]
    command += ["--signature_def", "serving_default", "--tag", "serve"]
    subprocess.run([*command, "--opset", str(OPSET), "--output", str(half)], check=True)
    model = onnx.load(str(half))
    repair(model)
    onnx.save(model, str(half))
    onnx.save(empty_model(), str(file.with_name("empty.onnx")))
    half.replace(file)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.convert_onnx SAVED_MODEL FILE")
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
