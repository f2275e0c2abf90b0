"""An op table for tests of the pass: what it says is the tests' own business, not the compiler's."""

from __future__ import annotations

from typing import Any

_FLOATS = ["f32"]
_NUMBERS = ["f32", "f64", "i32", "i64"]
_INDEX = ["i32", "i64"]
_ANY = ["f32", "f64", "i32", "i64", "bool"]


def row(op: str, cost: str, dtypes: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    """One row of the table (docs/contracts.md 1); `more` overrides what is empty by default."""
    empty: dict[str, Any] = {
        "attrs": {},
        "by_value": [],
        "by_length": [],
        "weights": [],
        "resources": [],
        "alone": False,
        "constant": "no",
    }
    return {"op": op, "cost": cost, "dtypes": dtypes, **empty, **more}


_UNARY = "Exp Log Tanh Sigmoid Rsqrt Sqrt Square Neg Erf Erfc Relu Softmax Abs"
_BINARY = "Add AddV2 Sub Mul RealDiv Maximum Minimum SquaredDifference"

TABLE: list[dict[str, Any]] = [
    *(row(op, "real", {"T": _FLOATS}, alone=op == "Softmax") for op in _UNARY.split()),
    *(row(op, "real", {"T": _NUMBERS}, constant="folds") for op in _BINARY.split()),
    *(
        row(op, "real", {"T": _FLOATS, "Tidx": _INDEX}, by_value=[1], alone=True)
        for op in ["Mean", "Sum", "Max", "Min"]
    ),
    row("_UnaryOpsComposition", "real", {"T": _FLOATS}),
    row("AddN", "real", {"T": _FLOATS}),
    row("BiasAdd", "real", {"T": _FLOATS}, attrs={"data_format": ["NHWC"]}),
    row("Cast", "real", {"SrcT": _ANY, "DstT": _ANY}),
    row("Greater", "real", {"T": _NUMBERS}),
    row("SelectV2", "real", {"T": _FLOATS}),
    row("MatMul", "heavy", {"T": _FLOATS}, weights=[1]),
    row("BatchMatMulV2", "heavy", {"T": _FLOATS}, weights=[1]),
    row("Transpose", "move", {"T": _ANY, "Tperm": _INDEX}, by_value=[1], alone=True),
    row("ConcatV2", "move", {"T": _ANY, "Tidx": _INDEX}, by_value=[-1]),
    row("Pack", "shape", {"T": _ANY}, constant="folds"),
    row("Split", "move", {"T": _ANY}, by_value=[0]),
    row(
        "StridedSlice",
        "shape",
        {"T": _ANY, "Index": _INDEX},
        by_length=[1, 2],
        by_value=[3],
    ),
    row("Range", "shape", {"Tidx": _INDEX}, constant="folds"),
    row("Rank", "shape", {"T": _ANY}, constant="always"),
    row("BroadcastGradientArgs", "shape", {"T": _INDEX}, by_length=[0, 1], constant="always"),
    row("Shape", "shape", {"T": _ANY, "out_type": _INDEX}, constant="sizes"),
    row("Reshape", "free", {"T": _ANY, "Tshape": _INDEX}, by_length=[1]),
    row("ExpandDims", "free", {"T": _ANY, "Tdim": _INDEX}, by_value=[1]),
    row("Identity", "free", {"T": _ANY}),
    row("GatherV2", "move", {"Tparams": _ANY, "Tindices": _INDEX}, by_value=[2]),
    row("ResourceGather", "move", {"dtype": _FLOATS, "Tindices": _INDEX}, resources=[0]),
]
