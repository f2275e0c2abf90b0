"""`make demo`: sentences through the real MiniLM-L6-v2, plain TensorFlow against tf_disc.

Plain TensorFlow runs in a process of its own that never imports tf_disc; tf_disc runs in this one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.peer import Arrays, PeerModel, TimedModel, largest_difference
from examples.sentences import all_texts

MODEL_FOLDER = Path(__file__).resolve().parent / "models" / "minilm_l6_v2"
# Batches of texts that are embedded: neighbours in length, so that little is padding.
BATCH_SIZES = (1, 3, 8, 2, 5, 1, 4, 7, 2, 1, 1, 3, 1, 1)
# Batch and tokens of the table.
TIMED_SHAPES = ((1, 5), (1, 16), (1, 37), (1, 128), (1, 256), (4, 24), (8, 64), (3, 111), (16, 32))
ROUNDS, CALLS_A_ROUND = 7, 3


@dataclass(frozen=True)
class Timing:
    """Latency of one shape, in milliseconds."""

    batch: int
    tokens: int
    tensorflow_ms: float
    disc_ms: float


def batches(texts: list[str], tokenize: Any) -> list[tuple[list[int], Arrays]]:
    """The texts by length in batches of varied sizes: positions in `texts`, and inputs."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    result: list[tuple[list[int], Arrays]] = []
    sizes = iter(BATCH_SIZES)
    while order:
        size = next(sizes, 4)
        chosen, order = order[:size], order[size:]
        ids, mask = tokenize([texts[i] for i in chosen])
        result.append((chosen, {"input_ids": ids, "attention_mask": mask}))
    return result


def embed(model: TimedModel | PeerModel, work: list[tuple[list[int], Arrays]]) -> Any:
    """Embeddings f32[texts, 384] in the order of the texts."""
    rows: dict[int, npt.NDArray[np.float32]] = {}
    for chosen, inputs in work:
        outputs, _ = model.run(inputs)
        rows.update(zip(chosen, outputs["embedding"]))
    return np.stack([rows[i] for i in sorted(rows)])


def nearest(embeddings: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """For each text the other one with the largest cosine."""
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1)
    return similarity.argmax(1)


def compile_everything(model: TimedModel, first: Arrays, console: Console) -> None:
    """Calls once, and shows a bar until every kernel that was asked for is there."""
    import tf_disc

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling in the background", total=None)
        model.run(first)
        while True:
            totals = tf_disc.report().as_dict()["totals"]
            pending = totals["signatures_pending"]
            done = totals["signatures"] - pending
            progress.update(
                task,
                total=totals["signatures"] or None,
                completed=done,
                description=f"compiling: {done} of {totals['signatures']} kernels",
            )
            if not pending:
                break
            # TensorFlow goes on serving meanwhile; the demo only waits to have a clean table.
            time.sleep(0.1)


def measure(plain: PeerModel, disc: TimedModel, console: Console) -> list[Timing]:
    """Latencies, in rounds that alternate between the two so that noise falls on both."""
    generator = np.random.default_rng(0)
    inputs = {
        (batch, tokens): {
            "input_ids": generator.integers(1000, 30000, (batch, tokens)).astype(np.int32),
            "attention_mask": np.ones((batch, tokens), np.int32),
        }
        for batch, tokens in TIMED_SHAPES
    }
    seconds: dict[tuple[int, int], tuple[list[float], list[float]]] = {
        shape: ([], []) for shape in inputs
    }
    with Progress(console=console) as progress:
        task = progress.add_task("measuring", total=(ROUNDS + 1) * len(inputs))
        for round_ in range(ROUNDS + 1):
            for shape, arrays in inputs.items():
                of_plain = plain.run(arrays, CALLS_A_ROUND)[1]
                of_disc = disc.run(arrays, CALLS_A_ROUND)[1]
                # The first round warms up caches and packed weights on both sides.
                if round_ > 0:
                    seconds[shape][0].extend(of_plain)
                    seconds[shape][1].extend(of_disc)
                progress.advance(task)
    return [
        Timing(*shape, median(plain_s) * 1e3, median(disc_s) * 1e3)
        for shape, (plain_s, disc_s) in seconds.items()
    ]


def timing_table(timings: list[Timing]) -> Table:
    """One row a shape."""
    table = Table("batch", "tokens", "TensorFlow ms", "tf_disc ms", "ratio", title="Latency")
    for timing in timings:
        table.add_row(
            str(timing.batch),
            str(timing.tokens),
            f"{timing.tensorflow_ms:.2f}",
            f"{timing.disc_ms:.2f}",
            f"{timing.tensorflow_ms / timing.disc_ms:.2f}",
        )
    return table


def nearest_table(texts: list[str], found: npt.NDArray[np.intp]) -> Table:
    """A few of the short sentences with the nearest other text."""
    table = Table("sentence", "nearest", title="Nearest sentences")
    for i in range(0, 16, 2):
        table.add_row(texts[i], texts[found[i]])
    return table


def main() -> int:
    """Runs the demo. Returns 1 if results differ or nothing was compiled."""
    console = Console()
    import tf_disc
    from examples.minilm import SentenceTokenizer, package_folder, save

    tf_disc.enable()
    console.print("Writing the SavedModel of all-MiniLM-L6-v2 (once)…")
    folder = save(MODEL_FOLDER)
    texts = all_texts()
    work = batches(texts, SentenceTokenizer(package_folder()))
    lengths = [inputs["input_ids"].shape for _, inputs in work]
    console.print(f"{len(texts)} texts in {len(work)} batches, batch x tokens: {lengths}")

    with PeerModel(folder, plugin=False) as plain:
        disc = TimedModel(folder)
        compile_everything(disc, work[0][1], console)
        start_totals = tf_disc.report().as_dict()["totals"]
        expected = embed(plain, work)
        start = time.perf_counter()
        got = embed(disc, work)
        embed_seconds = time.perf_counter() - start
        totals = tf_disc.report().as_dict()["totals"]
        timings = measure(plain, disc, console)

    plain_nearest, disc_nearest = nearest(expected), nearest(got)
    equal = bool((plain_nearest == disc_nearest).all())
    difference = largest_difference({"embedding": expected}, {"embedding": got})
    in_clusters = (totals["kernel_ms"] - start_totals["kernel_ms"]) / (embed_seconds * 1e3)
    final = tf_disc.report()
    totals = final.as_dict()["totals"]

    console.print(nearest_table(texts, disc_nearest))
    console.print(f"Nearest texts equal in both: {'yes, all' if equal else 'NO'} {len(texts)}")
    console.print(f"Largest difference of any embedding: {difference:.1e}")
    console.print(timing_table(timings))
    console.print(
        f"Compiles: {totals['compiles']} for {totals['clusters']} clusters and "
        f"{len(set(lengths)) + len(TIMED_SHAPES)} shapes"
    )
    console.print(f"Share of time in clusters while embedding: {in_clusters:.0%}")
    console.print(final)
    compiled = totals["kernel_runs"] > 0
    if not compiled:
        console.print("[bold]No kernel ran: everything fell back to TensorFlow; see above.[/bold]")
    return 0 if equal and compiled and difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
