"""Runs a cluster file in plain TensorFlow, for comparison with its kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_TYPES = {
    "f32": "DT_FLOAT",
    "f64": "DT_DOUBLE",
    "i32": "DT_INT32",
    "i64": "DT_INT64",
    "bool": "DT_BOOL",
    "i8": "DT_INT8",
    "u8": "DT_UINT8",
    "i16": "DT_INT16",
    "f16": "DT_HALF",
    "bf16": "DT_BFLOAT16",
    "resource": "DT_RESOURCE",
}
_FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


def run_in_tensorflow(
    cluster: Mapping[str, Any], inputs: Sequence[npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """The cluster's outputs for `inputs`, without any graph optimizer. docs/contracts.md 3."""
    import tensorflow as tf

    v1 = tf.compat.v1
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    with tf.Graph().as_default() as graph:
        feeds, tensors = {}, {}
        for facts, value in zip(cluster["inputs"], inputs):
            if facts["kind"] == "resource":
                # The ops take the handle; what the kernel reads is the variable's value.
                variable = v1.get_variable(
                    facts["name"], initializer=value, use_resource=True, trainable=False
                )
                tensors[facts["name"]] = variable.handle
            elif facts["dtype"] == "bf16":
                # NumPy has the bits.
                held = v1.placeholder(tf.uint16, value.shape)
                feeds[held] = value
                tensors[facts["name"]] = tf.bitcast(held, tf.bfloat16)
            else:
                held = v1.placeholder(value.dtype, value.shape)
                feeds[held] = value
                tensors[facts["name"]] = held
        nodes = _graph_of(cluster, tensors)
        results = v1.import_graph_def(
            nodes,
            input_map={f"in/{name}": tensor for name, tensor in tensors.items()},
            return_elements=[_output_name(name) for name in cluster["outputs"]],
            name="cluster",
        )
        with v1.Session(graph=graph, config=config) as session:
            session.run(v1.global_variables_initializer())
            values: list[npt.NDArray[Any]] = session.run(results, feeds)
    return values


def _output_name(name: str) -> str:
    # An output may be an input handed on.
    return name if ":" in name else f"in/{name}:0"


def _graph_of(cluster: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
    """The GraphDef: placeholders in/NAME, which the import replaces, and the nodes."""
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef()
    graph.versions.producer = tf.compat.v1.get_default_graph().as_graph_def().versions.producer
    for name, tensor in tensors.items():
        node = graph.node.add(name=f"in/{name}", op="Placeholder")
        node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    for entry in cluster["nodes"]:
        node = graph.node.add(name=entry["name"], op=entry["op"])
        node.input.extend(name if ":" in name else f"in/{name}" for name in entry["inputs"])
        for name, value in entry["attrs"].items():
            _set_attr(node.attr[name], value)
    return graph


def _set_attr(attr: Any, value: Mapping[str, Any]) -> None:
    import tensorflow as tf

    (kind, content), *_ = value.items()
    if kind in ("i", "f", "b"):
        setattr(attr, kind, _FLOATS.get(content, content) if kind == "f" else content)
    elif kind == "s":
        attr.s = content.encode()
    elif kind == "type":
        attr.type = _type(content)
    elif kind == "shape":
        attr.shape.CopyFrom(_shape(content))
    elif kind == "tensor":
        attr.tensor.CopyFrom(_tensor(content))
    elif kind == "types":
        attr.list.type.extend(map(_type, content))
    elif kind == "ints":
        attr.list.i.extend(content)
    elif kind == "floats":
        attr.list.f.extend(_FLOATS.get(item, item) for item in content)
    elif kind == "bools":
        attr.list.b.extend(content)
    elif kind == "strings":
        attr.list.s.extend(item.encode() for item in content)
    elif kind == "shapes":
        attr.list.shape.extend(map(_shape, content))
    else:
        raise tf.errors.UnimplementedError(None, None, f"attribute of kind {kind!r}")
    if not content and kind in ("types", "ints", "floats", "bools", "strings", "shapes"):
        # An empty list is a value too.
        attr.list.SetInParent()


def _type(name: str) -> int:
    from tensorflow.core.framework import types_pb2

    return int(types_pb2.DataType.Value(_TYPES[name]))


def _shape(dims: Sequence[int | None] | None) -> Any:
    import tensorflow as tf

    return tf.TensorShape(None if dims is None else list(dims)).as_proto()


def _tensor(content: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    dtype = tf.dtypes.as_dtype(_type(content["dtype"]))
    values = [_FLOATS.get(v, v) if isinstance(v, str) else v for v in content["values"]]
    array = np.asarray(values).astype(dtype.as_numpy_dtype)
    # A splat tensor has one value for all elements.
    filled = array if array.size != 1 else np.full(content["dims"], array.reshape(()))
    return tf.make_tensor_proto(filled.reshape(content["dims"]), dtype=dtype)
