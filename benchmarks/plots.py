"""Pictures of a run: bars of ratios, and latency over length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks.results import Results, cases
from benchmarks.session import Row


def draw(results: Results, folder: Path) -> list[Path]:
    """Writes the pictures that the rows allow. Returns their paths."""
    paths = []
    for scenario in ("latency", "micro"):
        rows = [row for row in results.rows if row["scenario"] == scenario]
        if rows:
            paths.append(_ratios(rows, folder / f"{scenario}_ratios.png"))
    lengths = [row for row in results.rows if "length" in row]
    for model in dict.fromkeys(row["model"] for row in lengths):
        own = [row for row in lengths if row["model"] == model]
        paths.append(_over_length(model, own, folder / f"latency_{model}.png"))
    return paths


def _ratios(rows: Sequence[Row], file: Path) -> Path:
    """How many times faster than TensorFlow each peer is, a group of bars a case."""
    found = cases(rows)
    peers = [peer for peer in dict.fromkeys(row["peer"] for row in rows) if peer != "tf"]
    height = 0.8 / max(1, len(peers))
    figure, axes = _axes(9, 1.5 + 0.18 * len(found) * (len(peers) + 1))
    for number, peer in enumerate(peers):
        values = [by[peer]["ratio_to"]["tf"] if peer in by else 0.0 for by in found.values()]
        places = [place + height * number for place in range(len(found))]
        axes.barh(places, values, height, label=peer)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(
        [place + 0.4 - height / 2 for place in range(len(found))],
        [f"{model} {shape}" for model, shape in found],
        fontsize=7,
    )
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as TensorFlow (ratio of medians, calls included)")
    axes.legend(fontsize=7)
    return _write(figure, file)


def _over_length(model: str, rows: Sequence[Row], file: Path) -> Path:
    """Medians over the number of tokens, steps or rows, with quartiles."""
    figure, axes = _axes(7, 4.5)
    for peer in dict.fromkeys(row["peer"] for row in rows):
        own = sorted((r for r in rows if r["peer"] == peer), key=lambda r: r["elements"])
        medians = [r["median_ms"] for r in own]
        spread = [
            [r["median_ms"] - r["q1_ms"] for r in own],
            [r["q3_ms"] - r["median_ms"] for r in own],
        ]
        axes.errorbar([r["elements"] for r in own], medians, spread, marker="o", label=peer)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("length x batch")
    axes.set_ylabel("ms a call")
    axes.set_title(model)
    axes.legend(fontsize=7)
    return _write(figure, file)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def _write(figure: Any, file: Path) -> Path:
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return file
