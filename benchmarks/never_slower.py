"""What `never_slower` costs once it has settled: `python -m benchmarks.never_slower`.

A loop of TensorFlow runs a small cluster thousands of times, once traced with the option and once
without; rounds alternate between the two, so that whatever else the machine does falls on both. The
kernel is as short as they come, so the launch's own cost is most of what is measured: larger
clusters pay less. Times are the process's own processor time: what other programs do counts little.
Prints a table, and a line of JSON to --json.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tf_disc


def loop(elements: int, launches: int, never_slower: bool) -> Any:
    """A traced function of no arguments that runs one cluster `launches` times."""
    x = tf.Variable(tf.random.uniform([elements]), shape=[None])

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.tanh(y * 0.5 + 0.25) - y * 0.125

        start = (tf.constant(0), x.read_value())
        shapes = (tf.TensorShape([]), tf.TensorShape([None]))
        return tf.while_loop(lambda i, y: i < launches, body, start, shape_invariants=shapes)[1]

    with tf_disc.options(mode="async", never_slower=never_slower):
        run()
    # Compiled, and the trial over.
    tf_disc.wait_for_compiles()
    for _ in range(3):
        run()
    return run


def measure(elements: int, launches: int, rounds: int) -> dict[str, Any]:
    """Times of one launch, in microseconds, with the option on and off."""
    runs = {on: loop(elements, launches, on) for on in (True, False)}
    before = tf_disc.report().as_dict()["totals"]
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        # Either goes first in turn.
        for on in (True, False) if number % 2 else (False, True):
            begin = time.process_time()
            runs[on]()
            times[on].append((time.process_time() - begin) / launches * 1e6)
    after = tf_disc.report().as_dict()["totals"]
    # Neighbours in time are compared: the machine's mood falls on both. Their spread is its noise.
    ratios = [on / off for on, off in zip(times[True], times[False])]
    low, _, high = quantiles(ratios, n=4)
    return {
        "elements": elements,
        "on_us": median(times[True]),
        "off_us": median(times[False]),
        "min_on_us": min(times[True]),
        "min_off_us": min(times[False]),
        "ratio": median(ratios),
        "quartiles": [low, high],
        "calls": after["calls"] - before["calls"],
        "kernel_runs": after["kernel_runs"] - before["kernel_runs"],
    }


@click.command()
@click.option("--rounds", default=200, help="Rounds that alternate between the two.")
@click.option("--launches", default=5000, help="Launches a round.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Appends a line a case.")
def main(rounds: int, launches: int, json_path: Path | None) -> None:
    """Measures the cost of never_slower after warm-up."""
    tf_disc.enable()
    columns = ("us on", "us off", "ratio", "quartiles", "min on", "min off", "kernel")
    table = Table("elements", *columns)
    for elements in (8, 1000, 100_000):
        # About as long a round whatever the size.
        count = launches if elements <= 1000 else max(launches // 10, 1)
        found = measure(elements, count, rounds)
        table.add_row(
            str(elements),
            f"{found['on_us']:.3f}",
            f"{found['off_us']:.3f}",
            f"{found['ratio']:.4f}",
            "-".join(f"{ratio:.2f}" for ratio in found["quartiles"]),
            f"{found['min_on_us']:.3f}",
            f"{found['min_off_us']:.3f}",
            f"{found['kernel_runs'] / found['calls']:.2%}",
        )
        if json_path is not None:
            line = {
                "case": f"never_slower/{elements}",
                "threads": os.cpu_count(),
                "machine": platform.machine(),
                "rounds": rounds,
                "launches": count,
                **found,
            }
            with json_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    Console().print(table)


if __name__ == "__main__":
    main()
