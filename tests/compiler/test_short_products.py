"""precision="bf16", and graphs that are bfloat16: products of rounded operands, summed in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import NUMPY, RUNS_BF16, Program, host_target
from tests.compiler.interpreter import Interpreter
from tf_disc.compiler.importer.cluster_file import import_cluster
from tf_disc.compiler.ir.graph import Graph
from tf_disc.compiler.pipeline import PASSES, compile_cluster

FEATURES = "+avx512bf16"
pytestmark = pytest.mark.skipif(not RUNS_BF16, reason="this CPU has no AVX-512")
BF16 = NUMPY["bf16"]
RNG = np.random.default_rng(11)


def short(x: Any) -> Any:
    """Rounded to bf16, as f32."""
    return x.astype(BF16).astype(np.float32)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def compiled(cluster: dict[str, Any], precision: str = "bf16") -> Program:
    artifact = compile_cluster(
        cluster, target=host_target(), features=FEATURES, precision=precision
    )
    return Program(artifact)


def products(cluster: dict[str, Any], rounds: bool = True) -> list[Any]:
    graph: Graph = import_cluster(cluster, rounds_products=rounds)
    for run in PASSES.values():
        run(graph)
    return [op for op in graph.ops if op.name == "matmul"]


@pytest.mark.parametrize("rows", [0, 1, 3, 17, 65])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_weight_is_rounded_where_it_is_packed(rows: int, transposed: bool) -> None:
    x, weight = normal(rows, 40), normal(40, 24)
    stored = np.ascontiguousarray(weight.T) if transposed else weight
    w = ClusterWriter("dense")
    product = w.node("MatMul", w.tensor("x", x), w.weight("w", stored), transpose_b=transposed)
    cluster = w.cluster(w.node("Relu", product))
    (op,) = products(cluster)
    assert op.attrs["packed"] == "bf16"
    assert op.operands[0].dtype == "bf16" and op.operands[1].dtype == "f32"
    program = compiled(cluster)
    assert [g["packed"] for g in program.gemms] == ["bf16"]
    (found,) = program([x, stored])
    np.testing.assert_allclose(found, np.maximum(short(x) @ short(weight), 0), rtol=1e-5, atol=1e-5)


def test_f32_is_left_alone_without_bf16_hardware_or_precision() -> None:
    x, weight = normal(5, 40), normal(40, 24)
    w = ClusterWriter("dense")
    cluster = w.cluster(w.node("MatMul", w.tensor("x", x), w.weight("w", weight)))
    for options in ({"precision": "bf16"}, {"features": FEATURES}):
        program = Program(compile_cluster(cluster, target=host_target(), **options))
        assert [g["packed"] for g in program.gemms] == ["f32"]
        np.testing.assert_allclose(program([x, weight])[0], x @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f64", "i32", "i64"])
def test_other_types_are_never_rounded(dtype: str) -> None:
    x = (RNG.integers(-999, 999, (5, 7))).astype(NUMPY[dtype])
    y = (RNG.integers(-999, 999, (7, 6))).astype(NUMPY[dtype])
    w = ClusterWriter("typed")
    cluster = w.cluster(w.node("MatMul", w.tensor("x", x), w.tensor("y", y)))
    np.testing.assert_array_equal(compiled(cluster)([x, y])[0], x @ y)


def test_a_marked_node_keeps_f32() -> None:
    x, weight = normal(5, 40), normal(40, 24)
    w = ClusterWriter("marked")
    kept = w.node("MatMul", w.tensor("x", x), w.weight("w", weight), _tf_disc_f32=True)
    program = compiled(w.cluster(kept))
    assert [g["packed"] for g in program.gemms] == ["f32"]
    np.testing.assert_allclose(program([x, weight])[0], x @ weight, rtol=1e-5, atol=1e-5)


def attention(length: int, heads: int = 2, size: int = 8) -> tuple[dict[str, Any], list[Any]]:
    """Scores, softmax and mix of q, k, v that are slices of one product by a weight."""
    width = heads * size
    x, weight = normal(2, length, width), normal(width, 3 * width)
    w = ClusterWriter("attention")
    flat = w.node("Reshape", w.tensor("x", x), w.constant([-1, width]))
    product = w.node("MatMul", flat, w.weight("w", weight))
    parts = w.node("Reshape", product, w.constant([2, -1, 3, heads, size]))
    turned = w.node("Transpose", parts, w.constant([2, 0, 3, 1, 4]))

    def part(i: int) -> str:
        begin, end = w.constant([i]), w.constant([i + 1])
        return w.node(
            "StridedSlice", turned, begin, end, w.constant([1]), shrink_axis_mask=1, begin_mask=0,
            end_mask=0, ellipsis_mask=0, new_axis_mask=0,
        )  # fmt: skip

    q, k, v = part(0), part(1), part(2)
    scores = w.node("BatchMatMulV2", q, k, adj_y=True)
    mixed = w.node("BatchMatMulV2", w.node("Softmax", scores), v)
    return w.cluster(mixed), [x, weight]


@pytest.mark.parametrize("length", [1, 2, 16, 33])
def test_attention_rounds_each_value_once_in_the_loop_that_makes_it(length: int) -> None:
    cluster, arrays = attention(length)
    first, scores, mixed = products(cluster)
    assert first.attrs["packed"] == "bf16"
    # All three read views of one rounded product.
    assert {v.dtype for op in (scores, mixed) for v in op.operands} == {"bf16"}
    graph = import_cluster(cluster, rounds_products=True)
    arrays = arrays + [np.array(i["value"]) for i in cluster["inputs"] if i["kind"] == "const"]
    expected = Interpreter(graph)(arrays)[0]
    np.testing.assert_allclose(compiled(cluster)(arrays)[0], expected, rtol=2e-2, atol=2e-2)


def test_bfloat16_graphs_multiply_bf16_exactly_as_before() -> None:
    """mixed_bfloat16: an f32 variable is cast, and the product is rounded once."""
    x, weight = normal(9, 40).astype(BF16), normal(40, 24)
    w = ClusterWriter("mixed")
    cast = w.node("Cast", w.weight("w", weight), SrcT="f32", DstT="bf16")
    cluster = w.cluster(w.node("Relu", w.node("MatMul", w.tensor("x", x), cast)))
    (op,) = products(cluster, rounds=False)
    assert op.attrs["packed"] == "bf16" and op.operands[0].dtype == "bf16"
    program = compiled(cluster, "f32")
    assert [g["dtype"] + g["packed"] for g in program.gemms] == ["f32bf16"]
    exact = np.maximum(x.astype(np.float32) @ short(weight), 0)
    found = program([weight, x])[0].astype(np.float32)
    np.testing.assert_allclose(found, exact, rtol=2**-8, atol=1e-6)


def test_what_is_not_finite_spreads() -> None:
    x = np.array([[0, np.inf, 1, np.nan], [0, 1, 3e38, -np.inf], [3.4e38, 1, 0, 0]], np.float32)
    weight = np.array([[1, np.nan], [0, 1], [np.inf, 1], [1, 0]], np.float32).repeat(16, 1)
    w = ClusterWriter("endless")
    cluster = w.cluster(w.node("MatMul", w.tensor("x", x), w.weight("w", weight)))
    with np.errstate(all="ignore"):
        expected = short(x) @ short(weight)
    np.testing.assert_array_equal(compiled(cluster)([x, weight])[0], expected)
