"""Many random graphs, with progress; failures are cut smaller, saved, and do not end the run.

    python -m tests.random.run --graphs 5000 --seed 1 --out build/random

    python -m tests.random.run --replay build/random/seed-7.json     # one recipe again

The graphs run in chunks, each in a process of its own: a crash costs one graph, and is a failure like others. `--out` gets
each failing recipe as it was drawn and as it was cut (`seed-<n>.json`), and `summary.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.random.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]
_CHUNK = 200


def main() -> int:
    """0 if every graph passed and enough of them ran a kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first; each graph has its own")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "random")
    parser.add_argument("--only", default="", help="an op that each graph holds")
    parser.add_argument("--replay", type=Path, help="a recipe to run alone")
    parser.add_argument("--chunk", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        return _replay(options.replay)
    options.out.mkdir(parents=True, exist_ok=True)
    return _chunk(options) if options.chunk else _all(options)


# -- the process that watches ------------------------------------------------------------


def _all(options: argparse.Namespace) -> int:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    totals: Counter[str] = Counter()
    ops: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    started = time.time()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("graphs", total=options.graphs)
        for at in range(options.seed, options.seed + options.graphs, _CHUNK):
            count = min(_CHUNK, options.seed + options.graphs - at)
            for line in _results(options, at, count):
                totals.update(line["counts"])
                ops.update(line["ops"])
                if line["failure"]:
                    failures.append({"seed": line["seed"], "failure": line["failure"]})
                    progress.console.print(
                        f"seed {line['seed']}: {line['failure'][:300]}", soft_wrap=True
                    )
                ran = totals["ran"] / max(1, totals["graphs"])
                words = f"{len(failures)} failed, {ran:.1%} ran a kernel"
                progress.update(
                    task, completed=totals["graphs"] + totals["unbuildable"], description=words
                )
            _save(options, totals, ops, failures, time.time() - started)
    print(summary(totals, len(failures), time.time() - started))
    return 1 if failures or not enough(totals) else 0


def enough(totals: Counter[str]) -> bool:
    """Whether at least 95 % of the graphs ran a kernel, and no more than 5 % could not be built."""
    return (
        totals["ran"] >= 0.95 * totals["graphs"]
        and totals["unbuildable"] <= 0.05 * totals["graphs"]
    )


def summary(totals: Counter[str], failed: int, seconds: float) -> str:
    """The totals in words."""
    share = totals["ran"] / max(1, totals["graphs"])
    parts = (
        f"{totals['graphs']} graphs, {totals['calls']} calls: {failed} failed",
        f"{totals['ran']} ({share:.1%}) ran a kernel, {totals['kernel_runs']} kernel runs",
        f"{totals['errors']} calls that TensorFlow refuses",
        f"{totals['limited']} graphs fell back for known limits",
        f"{totals['unjudged']} calls that hang on roundings",
        f"{totals['unbuildable']} graphs that it cannot build",
        f"{seconds:.0f} s",
    )
    return "; ".join(parts)


def _save(
    options: argparse.Namespace,
    totals: Counter[str],
    ops: Counter[str],
    failures: list[Any],
    seconds: float,
) -> None:
    data = {
        "seed": options.seed,
        "totals": totals,
        "seconds": round(seconds),
        "failures": failures,
        "ops": dict(ops.most_common()),
    }
    (options.out / "summary.json").write_text(json.dumps(data, indent=1) + "\n")


def _results(options: argparse.Namespace, first: int, count: int) -> Any:
    """What each graph of a chunk gave; a process that dies is started again behind the graph that killed it."""
    last = first + count
    while first < last:
        command = [
            sys.executable,
            "-m",
            "tests.random.run",
            "--chunk",
            "--seed",
            str(first),
            "--graphs",
            str(last - first),
        ]
        command += ["--out", str(options.out), "--only", options.only]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_DISC": "0"}
        with (options.out / "stderr.txt").open("w") as errors:
            child = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("RESULT "):
                    result = json.loads(line.removeprefix("RESULT "))
                    first = result["seed"] + 1
                    yield result
            code = child.wait()
        if first < last:
            tail = (options.out / "stderr.txt").read_text()[-400:]
            failure = f"crash the process ended with {code} in this graph or the one before: {tail}"
            yield {"seed": first, "failure": failure, "counts": {"graphs": 1}, "ops": {}}
            first += 1


# -- the process that runs them --------------------------------------------------------------


def _chunk(options: argparse.Namespace) -> int:
    import tf_disc
    from tests.random.generate import draw_recipe
    from tests.random.recipe import ops_of
    from tests.random.source import from_seed

    tf_disc.enable(mode="sync")
    for seed in range(options.seed, options.seed + options.graphs):
        recipe = draw_recipe(from_seed(seed), options.only)
        counts, failure = examine(recipe, options.out / f"seed-{seed}")
        result = {
            "seed": seed,
            "failure": failure,
            "counts": counts,
            "ops": Counter(ops_of(recipe.body)),
        }
        print("RESULT " + json.dumps(result), flush=True)
    return 0


def _replay(path: Path) -> int:
    """One recipe, and what there is to say of it."""
    import tf_disc
    from tests.random.check import check

    tf_disc.enable(mode="sync")
    verdict = check(Recipe.from_json(path.read_text()))
    print(verdict.failure or verdict.unbuildable or "passed")
    print(f"{verdict.kernel_runs} kernel runs of {verdict.launches} launches; left: {verdict.left}")
    return 1 if verdict.failure else 0


def examine(recipe: Recipe, path: Path) -> tuple[dict[str, int], str]:
    """Checks a recipe; one that fails is saved beside `path`, as it is and cut smaller. Counts, and the failure."""
    from tests.random.check import check
    from tests.random.shrink import shrink

    verdict = check(recipe)
    counts = {
        "graphs": int(not verdict.unbuildable),
        "unbuildable": int(bool(verdict.unbuildable)),
        "ran": int(verdict.kernel_runs > 0),
        "kernel_runs": verdict.kernel_runs,
        "launches": verdict.launches,
        "calls": verdict.calls,
        "errors": verdict.errors,
        "unjudged": verdict.unjudged,
        "limited": int(verdict.limited),
    }
    if verdict.failure:
        path.with_suffix(".drawn.json").write_text(recipe.to_json())
        smaller = shrink(recipe, lambda r: check(r).kind == verdict.kind)
        smaller.note = check(smaller).failure
        path.with_suffix(".json").write_text(smaller.to_json())
    return counts, verdict.failure


if __name__ == "__main__":
    sys.exit(main())
