"""What one launch costs beside its kernel: `python -m benchmarks.launch_overhead`.

A graph runs a small cluster many times in a chain, with one of TensorFlow's identities between each two, which no
cluster takes. The same chain without the clusters is what TensorFlow's executor takes for its own cheapest op; what
the clusters add to it is the launches' cost. Python calls the graph once for the whole chain, so its own cost, a
hundred times that of a launch, is in neither. The same ops left to TensorFlow are timed in the same process, and so
are rounds of TensorFlow's loop, where frames and iterations cost more than either. Chains alternate; times are of
the process's processors, which what other programs do changes little. `--clients` chains at once, each on a thread
of its own, show whether launches wait for each other: nothing of Python runs meanwhile.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tf_disc

ELEMENTS = 8
LENGTH = 200
Body = Callable[[tf.Tensor], tf.Tensor]


def small_cluster(y: tf.Tensor) -> tf.Tensor:
    """Four ops on a few elements: the least that the pass thinks worth a launch. y: f32[n]; returns the same."""
    return tf.tanh(y * 0.5 + 0.25) - y * 0.125


def identity(y: tf.Tensor) -> tf.Tensor:
    """TensorFlow's identity kernel under a name that neither Grappler nor tf_disc removes."""
    return tf.raw_ops.DebugGradientIdentity(input=y)


def chain(length: int, body: Body, *, compiled: bool) -> Any:
    """A traced function of no arguments: `length` times `body`, then an identity."""
    x = tf.Variable(tf.random.uniform([ELEMENTS]), shape=[None])

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        y = x.read_value()
        for _ in range(length):
            y = identity(body(y))
        return y

    return _ready(run, compiled)


def loop(length: int, body: Body, *, compiled: bool) -> Any:
    """The same in TensorFlow's loop."""
    x = tf.Variable(tf.random.uniform([ELEMENTS]), shape=[None])

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        start = (tf.constant(0), x.read_value())
        shapes = (tf.TensorShape([]), tf.TensorShape([None]))
        step: Callable[..., Any] = lambda i, y: (i + 1, identity(body(y)))  # noqa: E731
        return tf.while_loop(lambda i, _: i < length, step, start, shape_invariants=shapes)[1]

    return _ready(run, compiled)


def _ready(run: Any, compiled: bool) -> Any:
    with tf_disc.options(mode="async", enabled=compiled):
        run()
    tf_disc.wait_for_compiles()
    # never_slower has settled after these.
    for _ in range(5):
        run()
    return run


def alternate(runs: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Processor time in us of a call of each, by round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        names = list(runs)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            begin = time.process_time()
            runs[name]()
            times[name].append((time.process_time() - begin) * 1e6)
    return times


def measure_costs(rounds: int) -> list[dict[str, Any]]:
    """One row a place and an op: us that it adds to a node or a round of TensorFlow's, in processor time."""
    rows = []
    for place, make in (("chain", chain), ("loop", loop)):
        runs = {
            "none": make(0, small_cluster, compiled=False),
            "identity": make(LENGTH, lambda y: y, compiled=False),
            "launch": make(LENGTH, small_cluster, compiled=True),
            "tensorflow": make(LENGTH, small_cluster, compiled=False),
        }
        times = alternate(runs, rounds)

        def added(
            name: str, base: str, times: dict[str, list[float]] = times
        ) -> tuple[float, float]:
            # Neighbours in time: the machine's mood falls on both.
            by_round = [(a - b) / LENGTH for a, b in zip(times[name], times[base])]
            return median(by_round), (min(times[name]) - min(times[base])) / LENGTH

        what = {
            "TensorFlow's identity": ("identity", "none"),
            "a launch of a small cluster": ("launch", "identity"),
            "its four ops in TensorFlow": ("tensorflow", "identity"),
        }
        for label, (name, base) in what.items():
            middle, least = added(name, base)
            rows.append({"place": place, "what": label, "us": middle, "of_minima_us": least})
    return rows


def measure_clients(clients: int, seconds: float) -> dict[str, float]:
    """Launches, and runs of the same ops in TensorFlow, a second of `clients` threads with a chain each."""
    rates = {}
    for name, compiled in (("launch", True), ("tensorflow", False)):
        runs = [chain(LENGTH, small_cluster, compiled=compiled) for _ in range(clients)]
        counts = [0] * clients
        stop = threading.Event()

        def serve(
            number: int,
            runs: list[Any] = runs,
            counts: list[int] = counts,
            stop: threading.Event = stop,
        ) -> None:
            while not stop.is_set():
                runs[number]()
                counts[number] += LENGTH

        threads = [threading.Thread(target=serve, args=(i,)) for i in range(clients)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
        rates[name] = sum(counts) / (time.perf_counter() - begin)
    return rates


@click.command()
@click.option("--rounds", default=200, help="Rounds that alternate between the chains.")
@click.option("--seconds", default=2.0, help="For each number of clients.")
@click.option("--clients", default="1,2,4", help="Numbers of threads with a chain each.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Appends a line a row.")
def main(rounds: int, seconds: float, clients: str, json_path: Path | None) -> None:
    """Measures what a launch costs beside its kernel."""
    tf_disc.enable()
    before = tf_disc.report().as_dict()["totals"]
    rows = measure_costs(rounds)
    costs = Table("where", "what", "us", "of the minima, us")
    for row in rows:
        costs.add_row(row["place"], row["what"], f"{row['us']:.3f}", f"{row['of_minima_us']:.3f}")
    rates = Table("clients", "launches a second", "the same ops in TensorFlow")
    for number in (int(text) for text in clients.split(",") if text):
        found = measure_clients(number, seconds)
        rates.add_row(str(number), f"{found['launch']:,.0f}", f"{found['tensorflow']:,.0f}")
        rows.append({"clients": number, **found})
    after = tf_disc.report().as_dict()["totals"]
    calls = after["calls"] - before["calls"]
    console = Console()
    console.print(costs)
    if rates.row_count:
        console.print(rates)
    console.print(f"{(after['kernel_runs'] - before['kernel_runs']) / calls:.2%} ran a kernel")
    if json_path is not None:
        with json_path.open("a", encoding="utf-8") as file:
            for row in rows:
                machine = {"threads": os.cpu_count(), "machine": platform.machine()}
                file.write(json.dumps({"case": "launch_overhead", **machine, **row}) + "\n")


if __name__ == "__main__":
    main()
