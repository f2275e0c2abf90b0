"""The harness's arithmetic: statistics, comparison of outputs, the roofline's bound, who is measured."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import statistics
from benchmarks.comparison import compare
from benchmarks.peers import choose
from benchmarks.roofline import Roofline
from benchmarks.scenarios.stream import arrivals
from benchmarks.workloads import WORKLOADS


def test_percentiles_are_linear_between_neighbours() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert statistics.percentile(values, 0) == 1.0
    assert statistics.percentile(values, 50) == 2.5
    assert statistics.percentile(values, 100) == 4.0
    assert statistics.percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="nothing was measured"):
        statistics.percentile([], 50)


def test_a_summary_is_given_in_milliseconds() -> None:
    summary = statistics.Summary.of([0.001, 0.002, 0.003, 0.004, 0.005])
    assert summary.as_ms() == {
        "calls": 5,
        "min_ms": 1.0,
        "q1_ms": 2.0,
        "median_ms": 3.0,
        "q3_ms": 4.0,
        "max_ms": 5.0,
    }


def test_work_below_an_empty_graphs_time_has_no_ratio() -> None:
    assert statistics.net(5.0, 2.0) == 3.0
    assert statistics.net(2.0, 2.0) is None
    assert statistics.ratio(6.0, 3.0) == 2.0
    assert statistics.ratio(None, 3.0) is None
    assert statistics.ratio(6.0, None) is None


def test_geometric_mean() -> None:
    assert statistics.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert statistics.geometric_mean([]) is None


def _floats(*values: float) -> dict[str, np.ndarray]:
    return {"y": np.array(values, np.float32)}


def test_differences_count_over_the_largest_magnitude() -> None:
    found = compare(_floats(100.0, 1.0), _floats(100.05, 1.0), "f32")
    assert found.correct
    assert found.difference == pytest.approx(0.05, rel=1e-3)
    assert found.relative == pytest.approx(0.0005, rel=1e-3)
    assert not compare(_floats(100.0), _floats(101.0), "f32").correct
    assert compare(_floats(100.0), _floats(101.0), "bf16").correct


@pytest.mark.parametrize(
    ("got", "reason"),
    [
        (_floats(1.0), "NaN or infinity in other places"),
        (_floats(np.inf), "NaN or infinity in other places"),
        (_floats(1.0, 2.0), r"y is \(2,\), TensorFlow's \(1,\)"),
        ({"z": np.zeros(1)}, "outputs are"),
    ],
)
def test_a_wrong_peer_is_named_with_what_is_wrong(got: dict[str, np.ndarray], reason: str) -> None:
    found = compare(_floats(np.nan), got, "f32")
    assert not found.correct
    assert re.search(reason, found.reason)


def test_nan_where_tensorflow_has_none_is_wrong() -> None:
    assert not compare(_floats(1.0, 2.0), _floats(1.0, np.nan), "bf16").correct
    assert compare(_floats(np.nan, -np.inf), _floats(np.nan, -np.inf), "f32").correct


def test_integers_are_equal_or_wrong() -> None:
    left = {"y": np.array([1, 2, 3])}
    assert compare(left, {"y": np.array([1, 2, 3])}, "bf16").correct
    assert "1 integers differ" in compare(left, {"y": np.array([1, 2, 4])}, "bf16").reason


def test_the_roofline_is_the_slower_of_arithmetic_and_copying() -> None:
    levels = {"l2": 1 << 18, "l3": 1 << 22, "memory": 1 << 26}
    copies = {"l2": 100.0, "l3": 50.0, "memory": 20.0}
    roofline = Roofline(2, {"f32": 100.0, "bf16": 200.0}, copies, copies, levels)
    assert roofline.floor(200_000_000_000, 8, "f32") == (1.0, "arithmetic")
    assert roofline.floor(200_000_000_000, 8, "bf16") == (0.5, "arithmetic")
    assert roofline.level(1 << 20) == "l2"
    assert roofline.level((1 << 20) + 1) == "l3"
    assert roofline.floor(0, 20_000_000_000, "f32") == (1.0, "copying in memory")


def test_tensorflow_is_always_measured_and_precisions_multiply_families() -> None:
    assert [p.name for p in choose(["tf_disc"], ["f32"])] == ["tf", "tf_disc"]
    chosen = [p.name for p in choose(["ort", "openvino"], ["f32", "bf16"])]
    assert chosen == ["tf", "ort", "openvino", "openvino-bf16"]
    assert [p.name for p in choose(["tf-bf16"], ["f32"])] == ["tf", "tf-bf16"]
    with pytest.raises(ValueError, match="there is no peer tvm"):
        choose(["tvm"], ["f32"])


def test_arithmetic_of_the_models_is_what_the_reference_figures_say() -> None:
    # "Arithmetic alone" of ../shared/bench in ms at 117 GFLOP/s a core, on two cores.
    for model, dims, milliseconds in (
        ("bert_base", (1, 16), 11.8),
        ("bert_base", (4, 77), 228),
        ("minilm", (8, 64), 47),
    ):
        flops = WORKLOADS[model].flops
        assert flops is not None
        assert flops(dims) / 234e6 == pytest.approx(milliseconds, rel=0.03)


def test_arrivals_are_the_same_in_every_run_and_within_bounds() -> None:
    sizes = arrivals("minilm", 200)
    assert sizes == arrivals("minilm", 200)
    assert all(a != b for a, b in zip(sizes, sizes[1:]))
    most = WORKLOADS["minilm"].arrivals
    assert all(1 <= d <= m for dims in sizes for d, m in zip(dims, most))
