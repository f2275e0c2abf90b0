"""The list of what has no rule: against the rules, against TensorFlow's registry, and how a name is found."""

from __future__ import annotations

import pytest
from tensorflow.python.framework import op_def_registry

from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.op_rules.left import LEFT, why_left

NAMES = [name for _, names in LEFT for name in names]


def test_a_rule_and_a_reason_exclude_each_other() -> None:
    assert not set(NAMES) & set(RULES)


def test_no_name_is_there_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", [n for n in NAMES if "*" not in n])
def test_an_exact_name_is_an_op(name: str) -> None:
    internal = name in ("_HostSend", "_HostRecv", "_Send", "_Recv", "DiscLaunch")
    assert internal or op_def_registry.get(name) is not None


@pytest.mark.parametrize(
    ("op", "part"),
    [
        ("TopKV2", "sorts"), ("Where", "depends on data"), ("RandomUniform", "random"), ("SegmentSum", "depends on data"),
        ("StringJoin", "strings"), ("AssignAddVariableOp", "changes state"), ("TensorListSetItem", "list"),
        ("SparseSegmentSum", "sparse"), ("Conv2DBackpropInput", "convolution"), ("MapDataset", "iterator"),
        ("StatelessRandomUniformV2", "random"), ("MatrixInverse", "matrices"), ("ScalarSummary", "reports"),
    ],
)  # fmt: skip
def test_reasons(op: str, part: str) -> None:
    assert part in (why_left(op) or "")


def test_an_op_of_no_kind_has_no_reason() -> None:
    assert why_left("Betainc") is None
