"""Holds a cluster file against its form (docs/contracts.md 3), so that the importer can rely on it.

A file comes from another process: what is damaged is refused by the name of the place, not by an
exception from somewhere inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_disc.compiler.errors import UnsupportedError
from tf_disc.compiler.ir.types import ITEM_BYTES

DTYPES = tuple(ITEM_BYTES)
KINDS = ("tensor", "weight", "const", "resource")
_ATTRIBUTE_TYPES: dict[str, tuple[type, ...]] = {
    "type": (str,), "i": (int,), "f": (float, int, str), "b": (bool,), "s": (str,),
    "shape": (list, type(None)), "types": (list,), "ints": (list,), "floats": (list,),
    "strings": (list,), "shapes": (list,), "bools": (list,), "tensor": (dict,),
}  # fmt: skip


def check_file(cluster: Any) -> None:
    """Raises UnsupportedError that names the first place that is not as docs/contracts.md 3 says."""
    if not isinstance(cluster, Mapping) or cluster.get("version") != 1:
        raise UnsupportedError(
            "the cluster file is not of version 1; use the tf_disc that wrote it"
        )
    for key, type_ in (("name", str), ("inputs", list), ("nodes", list), ("outputs", list)):
        _require(key in cluster, f'the cluster file has no "{key}"')
        _require(isinstance(cluster[key], type_), f'"{key}" is {_short(cluster[key])}')
    for item in cluster["inputs"]:
        _check_input(item)
    for node in cluster["nodes"]:
        _check_node(node)
    _require(_texts(cluster["outputs"]), f'"outputs" is {_short(cluster["outputs"])}')


def _check_input(item: Any) -> None:
    where = f"input {_short(item)}"
    _require(isinstance(item, Mapping), where)
    _require(isinstance(item.get("name"), str) and item["name"] != "", f"{where}: no name")
    where = f'input "{item["name"]}"'
    _require(item.get("dtype") in DTYPES, f"{where}: dtype {_short(item.get('dtype'))}")
    _require(item.get("kind") in KINDS, f"{where}: kind {_short(item.get('kind'))}")
    dims, sizes = item.get("dims"), item.get("sizes")
    unknown = item["kind"] in ("tensor", "resource")
    _require(_sizes(dims, unknown=unknown), f"{where}: dims {_short(dims)}")
    _require(_sizes(sizes) and len(sizes) == len(dims), f"{where}: sizes {_short(sizes)}")
    if item["kind"] == "const":
        _check_elements(item, "value", where)
    hints = item.get("values", [])
    _require(_numbers(hints, "i64"), f"{where}: values {_short(hints)}")


def _check_node(node: Any) -> None:
    _require(
        isinstance(node, Mapping) and isinstance(node.get("name"), str), f"node {_short(node)}"
    )
    where = f'node "{node["name"]}"'
    _require(isinstance(node.get("op"), str), f"{where}: op {_short(node.get('op'))}")
    _require(_texts(node.get("inputs")), f"{where}: inputs {_short(node.get('inputs'))}")
    attrs = node.get("attrs", {})
    _require(isinstance(attrs, Mapping), f"{where}: attrs {_short(attrs)}")
    for key, value in attrs.items():
        at = f"{where}: attribute {key} {_short(value)}"
        _require(isinstance(value, Mapping) and len(value) == 1, at)
        ((form, content),) = value.items()
        _require(isinstance(content, _ATTRIBUTE_TYPES.get(form, ())), at)
        if form == "tensor":
            _require(content.get("dtype") in DTYPES and _sizes(content.get("dims")), at)
            _check_elements(content, "values", f"{where}: attribute {key}")


def _check_elements(item: Mapping[str, Any], key: str, where: str) -> None:
    """As many numbers as the dims say; one stands for all."""
    values, count = item.get(key), 1
    for d in item["dims"]:
        count *= d
    _require(_numbers(values, item["dtype"]), f"{where}: {key} {_short(values)}")
    assert isinstance(values, list)
    _require(len(values) in (1, count), f"{where}: {len(values)} values for {count} elements")


def _sizes(value: Any, *, unknown: bool = False) -> bool:
    return isinstance(value, list) and all(
        (unknown and d is None) or (isinstance(d, int) and not isinstance(d, bool) and d >= 0)
        for d in value
    )


def _numbers(value: Any, dtype: str) -> bool:
    if not isinstance(value, list):
        return False
    if dtype in ("f32", "f64", "f16", "bf16"):
        return all(isinstance(v, (int, float)) or v in ("nan", "inf", "-inf") for v in value)
    return all(isinstance(v, int) for v in value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise UnsupportedError(
            f"the cluster file is damaged: {what}. The cluster stays with TensorFlow"
        )
