"""Speed of four models against plain TensorFlow: `python -m benchmarks.first_light [--rounds N]`.

Plain TensorFlow runs in a process without tf_disc, tf_disc in another; rounds alternate between
them, so that whatever else the machine does falls on both. Prints medians, their ratio and the
largest difference of any output; one JSON line a case goes to --json.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.models import save
from examples.peer import Arrays, PeerModel, largest_difference


def _ids(batch: int, tokens: int) -> Arrays:
    ids = np.random.default_rng(1).integers(0, 30000, (batch, tokens)).astype(np.int32)
    return {"input_ids": ids, "attention_mask": np.ones((batch, tokens), np.int32)}


def _memory(batch: int, rows: int) -> Arrays:
    x = np.random.default_rng(1).normal(size=(batch, rows, 512)).astype(np.float32)
    return {"x": x, "g": np.ones(512, np.float32), "b": np.zeros(512, np.float32)}


def _deepfm(batch: int) -> Arrays:
    generator = np.random.default_rng(1)
    return {
        "cat": generator.integers(0, 10000, (batch, 26)).astype(np.int32),
        "dense": generator.random((batch, 13)).astype(np.float32),
    }


# Model, shape as printed, inputs, and the ratio over TensorFlow that is asked for.
CASES: list[tuple[str, str, Arrays, float]] = [
    ("minilm", "1x128", _ids(1, 128), 1.3),
    ("bert_base", "1x128", _ids(1, 128), 1.1),
    ("memory", "16x333x512", _memory(16, 333), 2.5),
    ("deepfm", "1024", _deepfm(1024), 1.2),
]


def measure(folder: Path, inputs: Arrays, rounds: int, calls: int) -> dict[str, Any]:
    """Interleaved times of one case, in milliseconds, and the largest difference."""
    times: dict[str, list[float]] = {"tf": [], "tf_disc": []}
    with PeerModel(folder, plugin=False) as plain, PeerModel(folder, plugin=True) as disc:
        expected, _ = plain.run(inputs)
        _, first = disc.run(inputs)
        disc.settle()
        # Weights are packed and caches warmed by calls that are not counted.
        got, _ = disc.run(inputs, 8)
        plain.run(inputs, 8)
        for _ in range(rounds):
            times["tf"] += plain.run(inputs, calls)[1]
            times["tf_disc"] += disc.run(inputs, calls)[1]
        totals = disc.report()["totals"]
    result: dict[str, Any] = {
        name: {
            "min_ms": min(values) * 1e3,
            "median_ms": median(values) * 1e3,
            "max_ms": max(values) * 1e3,
        }
        for name, values in times.items()
    }
    return {
        **result,
        "first_call_ms": first[0] * 1e3,
        "ratio": result["tf"]["median_ms"] / result["tf_disc"]["median_ms"],
        "difference": largest_difference(expected, got),
        "totals": totals,
    }


@click.command()
@click.option("--models", type=click.Path(path_type=Path), default=Path("build/models"))
@click.option("--only", multiple=True, help="Names of models; all by default.")
@click.option("--rounds", default=15, help="Rounds that alternate between the two.")
@click.option("--calls", default=5, help="Calls a round.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Appends a line a case.")
def main(
    models: Path, only: tuple[str, ...], rounds: int, calls: int, json_path: Path | None
) -> None:
    """Measures tf_disc against plain TensorFlow, interleaved."""
    table = Table("model", "shape", "TensorFlow ms", "tf_disc ms", "ratio", "asked", "difference")
    for name, shape, inputs, asked in CASES:
        if only and name not in only:
            continue
        found = measure(save(name, models), inputs, rounds, calls)
        table.add_row(
            name,
            shape,
            f"{found['tf']['median_ms']:.2f}",
            f"{found['tf_disc']['median_ms']:.2f}",
            f"{found['ratio']:.2f}",
            f"{asked:.1f}",
            f"{found['difference']:.1e}",
        )
        if json_path is not None:
            line = {
                "case": f"{name}/{shape}",
                "threads": os.cpu_count(),
                "machine": platform.machine(),
                "rounds": rounds,
                "calls": calls,
                **found,
            }
            with json_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    Console().print(table)


if __name__ == "__main__":
    main()
