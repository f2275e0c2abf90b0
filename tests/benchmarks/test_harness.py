"""The harness's whole path, on the smallest cases: two peers in processes of their own, files written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import environments, wire
from benchmarks.cli import main
from benchmarks.peer_process import PeerError, PeerProcess
from benchmarks.peers import PEERS
from benchmarks.results import Results

_QUICK = ["--rounds", "1", "--seconds", "0.02", "--peers", "tf,tf_disc"]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def _run(folder: Path, artifacts: Path, *arguments: str) -> Results:
    given = ["run", *_QUICK, "--output", str(folder), "--artifacts", str(artifacts), *arguments]
    done = CliRunner().invoke(main, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for name in done.stdout.split():
        assert Path(name).is_file()
    return Results.read(folder / "results.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, artifacts: Path) -> tuple[Path, Results]:
    """All scenarios at once, on the model that loads fastest."""
    folder = tmp_path_factory.mktemp("results")
    small = ["--models", "memory", "--shapes", "1x16x512", "--cases", "rows of 7"]
    small += ["--arrivals", "3", "--calls", "5"]
    return folder, _run(folder, artifacts, *small)


def test_every_scenario_has_a_row_for_each_peer(whole: tuple[Path, Results]) -> None:
    _, results = whole
    found = {(row["scenario"], row["peer"]) for row in results.rows}
    scenarios = ("latency", "stream", "throughput", "compile", "memory", "micro")
    assert found == {(s, p) for s in scenarios for p in ("tf", "tf_disc")}


def test_latency_has_times_ratios_bounds_and_a_comparison(whole: tuple[Path, Results]) -> None:
    _, results = whole
    for row in results.rows:
        if row["scenario"] not in ("latency", "micro"):
            continue
        assert row["calls"] > 0
        assert 0 < row["min_ms"] <= row["q1_ms"] <= row["median_ms"] <= row["q3_ms"]
        assert row["empty_ms"] > 0
        assert len(row["round_medians_ms"]) == 1
        assert set(row["ratio_to"]) == set(row["net_ratio_to"]) == {"tf", "tf_disc"}
        assert row["ratio_to"][row["peer"]] == 1.0
        assert row["bytes"] > 0 and row["floor_ms"] > 0
        assert row["correct"] is True, row["wrong"]
        assert (row["kernel_share"] is None) == (row["peer"] == "tf")


def test_a_stream_counts_compiles_and_new_sizes_need_none(whole: tuple[Path, Results]) -> None:
    _, results = whole
    stream = {row["peer"]: row for row in results.rows if row["scenario"] == "stream"}
    assert stream["tf"]["compiles"] is None
    assert stream["tf_disc"]["compiles"] == 0
    assert len(stream["tf_disc"]["times_first_ms"]) == 3


def test_a_warm_start_takes_its_kernels_from_disk(whole: tuple[Path, Results]) -> None:
    _, results = whole
    starts = {
        row["state"]: row
        for row in results.rows
        if row["scenario"] == "compile" and row["peer"] == "tf_disc"
    }
    assert starts["cold"]["sources"] == ["compiled"] and starts["cold"]["compiles"] > 0
    assert starts["warm"]["sources"] == ["disk"] and starts["warm"]["compiles"] == 0


def test_the_page_and_the_pictures_are_written(whole: tuple[Path, Results]) -> None:
    folder, results = whole
    page = (folder / "results.md").read_text(encoding="utf-8")
    for scenario in ("latency", "stream", "throughput", "compile", "memory", "micro"):
        assert f"\n## {scenario}\n" in page
    assert "| memory 1x16x512 |" in page
    assert "oneDNN GEMM f32" in page
    assert "tf_disc over tf: geometric mean" in page
    assert page == results.markdown()
    for name in ("latency_ratios", "micro_ratios", "latency_memory"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_roofline_is_that_of_a_machine(whole: tuple[Path, Results]) -> None:
    _, results = whole
    assert 1 < results.roofline.gflops_a_core["f32"] < 10_000
    for copies in (results.roofline.copy_one_core, results.roofline.copy_all_cores):
        assert set(copies) == {"l2", "l3", "memory"}
        assert all(0.1 < value < 10_000 for value in copies.values())


def test_a_peer_that_is_wrong_is_flagged(whole: tuple[Path, Results]) -> None:
    _, results = whole
    rows = json.loads(json.dumps(results.rows))
    for row in rows:
        if row["scenario"] == "latency" and row["peer"] == "tf_disc":
            row.update(correct=False, wrong="y: 3 integers differ")
    page = Results(results.about, results.roofline, rows, results.failures).markdown()
    assert "WRONG" in page
    assert "- tf_disc, latency memory 1x16x512: y: 3 integers differ" in page


def test_unknown_names_and_missing_environments_are_said_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    done = CliRunner().invoke(main, ["run", "--peers", "tvm"])
    assert done.exit_code == 2 and "there is no tvm; known are tf, " in done.output
    done = CliRunner().invoke(main, ["run", "--peers", "ort", "--envs", str(tmp_path)])
    assert done.exit_code == 1 and "Run: python -m benchmarks setup --envs" in done.output


def test_a_failure_in_a_peer_is_told_with_its_own_traceback(tmp_path: Path) -> None:
    (plain,) = (peer for peer in PEERS if peer.name == "tf")
    with PeerProcess(plain, tmp_path) as process:
        with pytest.raises(PeerError, match="tf failed at load"):
            process.load("saved_model", str(tmp_path / "nothing"))
        # It still answers.
        assert process.totals() == {}


def test_environments_of_other_pins_are_not_current(tmp_path: Path) -> None:
    (tmp_path / "ort").mkdir()
    assert not environments.is_current("ort", tmp_path)
    (tmp_path / "ort" / ".pins").write_text("onnxruntime==1.0", encoding="utf-8")
    assert not environments.is_current("ort", tmp_path)
    with pytest.raises(FileNotFoundError, match="environment zentf is not set up"):
        environments.python_of("zentf", tmp_path)


def test_messages_carry_arrays_of_every_kind() -> None:
    arrays = {
        "scalar": np.array(3, np.int32),
        "nothing": np.zeros((0, 4), np.float32),
        "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    }
    stream = io.BytesIO()
    wire.send(stream, {"do": "run", "n": 1}, arrays)
    stream.seek(0)
    fields, got = wire.receive(stream)
    assert fields == {"do": "run", "n": 1}
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype and np.array_equal(got[name], array)
        assert got[name].shape == array.shape
    with pytest.raises(EOFError):
        wire.receive(stream)
