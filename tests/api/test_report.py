"""The report from statistics as the native library writes them, without the library."""

import copy

import pytest

from tf_disc.config import defaults
from tf_disc.report import Report

PASSES = {
    "graphs": [
        {
            "graph": "__inference_f_15",
            "skipped": "",
            "options": "mode=async",
            "calls": 2,
            "time_us": 1500,
            "nodes": 6,
            "in_clusters": 5,
            "clusters": [
                {
                    "id": "cluster_1",
                    "launch": "l",
                    "num_nodes": 5,
                    "ops": {"Tanh": 2, "Exp": 3},
                    "nodes": ["a", "b", "c", "d", "e"],
                    "inputs": 1,
                    "weights": 0,
                    "consts": 0,
                }
            ],
            "left": [{"op": "Einsum", "reason": "no rule", "count": 1, "nodes": ["attn/scores"]}],
        },
        {
            "graph": "tf_graph",
            "skipped": "it is a tf.data function",
            "options": "",
            "calls": 1,
            "time_us": 10,
            "nodes": 0,
            "in_clusters": 0,
            "clusters": [],
            "left": [],
        },
    ],
    "nodes": 6,
    "in_clusters": 5,
    "dropped": 0,
}
SIGNATURE = {
    "signature": "f32[?, ?]",
    "state": "ready",
    "reason": "",
    "source": "compiled",
    "variants": 1,
    "compile_ms": 120.0,
    "load_ms": 1.0,
    "calls": 9,
    "kernel_runs": 7,
    "kernel_ms": 0.5,
    "guard_failures": 1,
    "speed": [
        {
            "variant": 0,
            "least_elements": least,
            "way": way,
            "calls": 900,
            "checks": 1,
            "kernel": {"count": 6, "min_us": 51.0, "median_us": 52.25},
            "tensorflow": {"count": 5, "min_us": 10.0, "median_us": 11.75},
        }
        for least, way in ((64, "kernel"), (1024, "tensorflow"), (2048, "measuring"))
    ],
}
LAUNCHES = {
    "clusters": [
        {
            "id": "cluster_1",
            "calls": 9,
            "kernel_runs": 7,
            "kernel_ms": 0.5,
            "fallbacks": {"compiling": 1, "guard x.dim(0) == y.dim(0)": 1},
            "fallback_runs": 2,
            "signatures": [SIGNATURE],
        },
        {
            "id": "cluster_saved",
            "calls": 1,
            "kernel_runs": 1,
            "kernel_ms": 0.25,
            "fallbacks": {},
            "fallback_runs": 0,
            "signatures": [{**SIGNATURE, "state": "queued"}],
        },
    ],
    "compiles": 1,
    "compile_failures": 0,
    "compile_ms": 120.0,
    "memory_hits": 0,
    "shipped_hits": 1,
    "disk": {"hits": 0},
    "worker": {"pid": 0},
    "weights": {"bytes": 0},
    "pool": {"kept_bytes": 0},
    "problems": ["a damaged file"],
}


def make_report(**options):
    return Report(PASSES, LAUNCHES, {**defaults(), **options})


def test_totals():
    totals = make_report().as_dict()["totals"]
    assert totals["nodes_in_clusters"] == 5
    assert totals["clusters"] == 2
    assert totals["signatures_pending"] == 1
    assert totals["kernel_runs"] == 8
    assert totals["kernel_ms"] == 0.75
    assert totals["fallbacks"] == 2
    assert totals["guard_failures"] == 2


def test_a_cluster_has_what_both_sides_know():
    placed, saved = make_report().as_dict()["clusters"]
    assert placed["graphs"] == ["__inference_f_15"]
    assert placed["ops"] == {"Tanh": 2, "Exp": 3}
    assert placed["fallbacks"]["compiling"] == 1
    assert saved["ops"] == {}
    assert saved["kernel_runs"] == 1


def test_equal_clusters_of_two_graphs_are_one():
    passes = copy.deepcopy(PASSES)
    passes["graphs"][1]["clusters"] = passes["graphs"][0]["clusters"]
    clusters = Report(passes, LAUNCHES, defaults()).as_dict()["clusters"]
    assert [cluster["id"] for cluster in clusters] == ["cluster_1", "cluster_saved"]
    assert clusters[0]["graphs"] == ["__inference_f_15", "tf_graph"]


def test_left_nodes_are_grouped_over_graphs():
    passes = copy.deepcopy(PASSES)
    passes["graphs"][1]["left"] = [
        {"op": "Einsum", "reason": "no rule", "count": 2, "nodes": ["other"]},
        {"op": "Print", "reason": "side effect", "count": 1, "nodes": ["print"]},
    ]
    left = Report(passes, LAUNCHES, defaults()).as_dict()["left_to_tensorflow"]
    assert [(group["op"], group["count"]) for group in left] == [("Einsum", 3), ("Print", 1)]


def test_text_holds_numbers_reasons_and_notes():
    text = str(make_report(precision="bf16"))
    for part in (
        "5 of 6 nodes (83.3%)",
        "1: 5 nodes: 3 Exp, 2 Tanh",
        "guard x.dim(0) == y.dim(0)",
        "Einsum",
        "attn/scores",
        "1 graphs left alone: it is a tf.data function",
        "precision=bf16 has no effect",
        "note: a damaged file",
    ):
        assert part in text
    assert repr(make_report()) == str(make_report())


def test_nothing_happened():
    passes = {"graphs": [], "nodes": 0, "in_clusters": 0, "dropped": 0}
    launches = {**LAUNCHES, "clusters": [], "problems": []}
    assert "0 of 0 nodes (0.0%)" in str(Report(passes, launches, defaults()))


@pytest.mark.parametrize(("features", "said"), [("+avx512bf16,+amx-tile", False), ("", True)])
def test_bf16_without_hardware_is_said(features, said):
    options = {**defaults(), "precision": "bf16"}
    report = Report(PASSES, LAUNCHES, options, ("x86-64-v4", features))
    assert ("no AVX512-BF16" in str(report)) == said
    assert report.as_dict()["cpu"] == {"target": "x86-64-v4", "features": features}


def test_off_is_said():
    assert "tf_disc is off" in str(make_report(enabled=False))


def test_sizes_left_to_tensorflow_show_both_times():
    lines = [line for line in str(make_report()).splitlines() if " to " in line and "52." in line]
    assert len(lines) == 2  # a signature each of two clusters
    for line, name in zip(lines, ("1", "saved")):
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        assert cells == [name, "1024 to 2047", "52.2", "11.8", "6 + 5", "f32[?, ?]"]
