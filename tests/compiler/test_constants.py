"""Ops whose results are constants: what a record's `constant` promises, the compiler keeps.

The pass puts such an op and its by-value reader into one cluster, where the reader's rule has to find a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, TARGETS, Program
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.op_rules import RULES
from tf_disc.compiler.pipeline import compile_cluster

I32 = np.int32

#: One call an op, all operands constants: operands, attributes, result.
FOLDED: dict[str, tuple[tuple[Any, ...], dict[str, Any], Any]] = {
    "Add": (([1, 2], [3]), {}, [4, 5]),
    "AddV2": (([1, 2], 3), {}, [4, 5]),
    "Cast": (([1, 2],), {"DstT": "i64"}, [1, 2]),
    "ConcatV2": (([1, 2], [3], 0), {"N": 2}, [1, 2, 3]),
    "Div": (([-7, 7], 2), {}, [-3, 3]),
    "ExpandDims": ((3, 0), {}, [3]),
    "FloorDiv": (([-7, 7], 2), {}, [-4, 3]),
    "FloorMod": (([-1, 5], 4), {}, [3, 1]),
    "GatherV2": (([5, 6, 7], [2, 0], 0), {}, [7, 5]),
    "Identity": (([1, 2],), {}, [1, 2]),
    "InvertPermutation": (([2, 0, 1],), {}, [1, 2, 0]),
    "Max": (([1, 5, 2], [0]), {}, 5),
    "Maximum": (([1, 5], [4, 2]), {}, [4, 5]),
    "Min": (([3, 1, 2], [0]), {}, 1),
    "Minimum": (([1, 5], [4, 2]), {}, [1, 2]),
    "Mod": (([-7, 7], 2), {}, [-1, 1]),
    "Mul": (([2, 3], [4]), {}, [8, 12]),
    "Pack": ((3, 4), {"N": 2, "axis": 0}, [3, 4]),
    "PreventGradient": (([1],), {}, [1]),
    "Prod": (([2, 3, 4], [0]), {}, 24),
    "Range": ((1, 7, 2), {}, [1, 3, 5]),
    "Reshape": (([4], []), {}, 4),
    "Slice": (([1, 2, 3], [1], [2]), {}, [2, 3]),
    "Snapshot": (([1],), {}, [1]),
    "Squeeze": (([4],), {"squeeze_dims": (0,)}, 4),
    "StopGradient": (([1],), {}, [1]),
    "StridedSlice": (([1, 2, 3, 4], [3], [0], [-2]), {"end_mask": 1}, [4, 2]),
    "Sub": ((4, [0, 1]), {}, [4, 3]),
    "Sum": (([1, 2, 3], [0]), {}, 6),
    "TruncateDiv": (([-7, 7], 2), {}, [-3, 3]),
    "TruncateMod": (([-7, 7], 2), {}, [-1, 1]),
}


def constant_of(w: ClusterWriter, output: str) -> Any:
    """The elements of a cluster's only result, which must be a constant."""
    graph = import_cluster(w.cluster(output))
    (op,) = [op for op in graph.block.ops if graph.outputs[0] in op.results]
    assert op.name == "const", f"{op.name} is computed when the call runs"
    dims = [d.value for d in graph.outputs[0].dims]
    return np.broadcast_to(np.array(op.attrs["values"]), int(np.prod(dims))).reshape(dims)


@pytest.mark.parametrize("op", [op for op, rule in RULES.items() if rule.constant == "folds"])
def test_folds(op: str) -> None:
    assert op in FOLDED, f"{op} says that it folds: add a case to FOLDED"
    operands, attributes, expected = FOLDED[op]
    w = ClusterWriter()
    values = [w.constant(np.array(operand, I32)) for operand in operands]
    found = constant_of(w, w.node(op, *values, **attributes))
    np.testing.assert_array_equal(found, np.array(expected), strict=False)
    assert found.shape == np.shape(expected)


ALWAYS = {op for op, rule in RULES.items() if rule.constant == "always"}


def test_each_that_says_always_has_a_test_here() -> None:
    assert {"Rank", "BroadcastGradientArgs"} == ALWAYS


def test_axes_of_a_broadcast_s_gradient_are_constants_of_any_shapes() -> None:
    """Of shapes of which no size is known, and of one that is an input."""
    for from_input in (False, True):
        w = ClusterWriter()
        y = w.tensor("y", np.zeros((4, 3, 5), np.float32))
        if from_input:
            other = w.tensor("shape", np.array([3, 1], I32), [2])
            w.inputs[-1]["values"] = [3, 1]
        else:
            other = w.node("Shape", w.tensor("bias", np.zeros((3, 1), np.float32)))
        axes = w.node("BroadcastGradientArgs", w.node("Shape", y), other)
        np.testing.assert_array_equal(constant_of(w, axes.replace(":0", ":1")), [0, 2])


def test_rank_is_a_constant_of_any_tensor() -> None:
    w = ClusterWriter()
    assert constant_of(w, w.node("Rank", w.tensor("x", np.zeros((3, 5), np.float32)))) == 2


def test_a_permutation_computed_of_the_rank() -> None:
    """As Keras and tf.transpose write it for an unknown rank."""
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((2, 3, 4), np.float32))
    rank = w.node("Rank", x)
    numbers = w.node("Range", w.constant(0), rank, w.constant(1))
    last = w.node("Sub", w.node("Sub", rank, w.constant(1)), numbers)
    y = w.node("Transpose", x, last)
    (output,) = import_cluster(w.cluster(y)).outputs
    assert [str(d) for d in output.dims] == ["d0_2", "d0_1", "d0_0"]


def test_small_integers_wrap_around() -> None:
    """What an i8 cannot hold is not followed as a size."""
    w = ClusterWriter()
    x = w.tensor("x", np.zeros((300, 2), np.float32))
    small = w.node("Cast", w.node("Shape", x), DstT="i8")
    graph = import_cluster(w.cluster(w.node("Cast", small, DstT="i32")))
    assert [op.name for op in graph.block.ops][-1] == "cast"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", ["i32", "i64", "i8"])
def test_an_infinity_that_the_compiler_knows_becomes_the_lowest_number(
    target: str, to: str
) -> None:
    """The largest of no numbers, cast: LLVM folds it, and promises nothing of numbers out of range."""
    x = np.zeros((3, 0), np.float32)
    w = ClusterWriter("nothing")
    largest = w.node("Max", w.tensor("x", x, known=[None, 0]), w.constant([1]))
    program = Program(
        compile_cluster(w.cluster(w.node("Cast", largest, SrcT="f32", DstT=to)), target=target)
    )
    (found,) = program([x])
    np.testing.assert_array_equal(found, np.full(3, np.iinfo(NUMPY[to]).min))
