"""When something is wrong, the user gets TensorFlow's own result or error, and the report says what happened.

The faults of the launch side alone are in tests/launch, with a worker made for them; here are the real compiler,
real models and real machines' shortcomings. What has to be so from a process's start runs in one of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_disc
from tests.e2e.counting import counted

MATRIX = tf.TensorSpec([None, None], tf.float32)

SCRIPT = """
import json, sys
import numpy as np
import tensorflow as tf
{before}
import tf_disc

w = tf.Variable(np.linspace(-1, 1, 24 * 8, dtype="f4").reshape(24, 8))

@tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
def fn(x):
    h = tf.nn.relu(tf.matmul(x, w)) + 0.25
    return tf.nn.softmax(tf.tanh(h)), tf.reduce_mean(h, -1)

found = []
for rows in (1, 3, 0, 257):
    x = np.sin(np.arange(rows * 24, dtype="f4")).reshape(rows, 24)
    h = np.maximum(x.astype("f8") @ w.numpy(), 0) + 0.25
    e = np.exp(np.tanh(h))
    p, m = fn(tf.constant(x))
    np.testing.assert_allclose(p, e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(m, h.mean(-1), rtol=1e-5, atol=1e-6)
print("REPORT", json.dumps(tf_disc.report().as_dict()))
"""


def run_process(before: str = "", **environment: str) -> dict[str, Any]:
    """The script in a process of its own; its report. It checks its results itself."""
    root = Path(__file__).parents[2]
    base = {k: v for k, v in os.environ.items() if not k.startswith("TF_DISC")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)],
        env={**base, "PYTHONPATH": str(root), "TF_DISC_MODE": "sync", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    line = next(text for text in run.stdout.splitlines() if text.startswith("REPORT "))
    report: dict[str, Any] = json.loads(line.removeprefix("REPORT "))
    return report


def test_no_linker_and_no_compiler_on_the_machine() -> None:
    totals = run_process(PATH="")["totals"]
    assert totals["kernel_runs"] == 4
    assert totals["fallbacks"] == 0


@pytest.mark.parametrize("pool", ["inter", "intra"])
def test_one_thread(pool: str) -> None:
    totals = run_process(before=f"tf.config.threading.set_{pool}_op_parallelism_threads(1)")[
        "totals"
    ]
    assert totals["kernel_runs"] == 4
    assert totals["fallbacks"] == 0


def test_a_damaged_cache_is_compiled_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run_process(TF_DISC_CACHE_DIR=str(cache))["totals"]["compiles"] == 1
    assert run_process(TF_DISC_CACHE_DIR=str(cache))["totals"]["compiles"] == 0
    for file in [f for f in cache.rglob("*") if f.is_file()]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0x40
        file.write_bytes(data)
    report = run_process(TF_DISC_CACHE_DIR=str(cache))
    assert report["totals"]["compiles"] == 1
    assert report["totals"]["kernel_runs"] == 4
    assert report["disk"]["damaged"] >= 1
    assert any("damaged" in note for note in report["notes"]), report["notes"]


def test_a_killed_worker() -> None:
    @tf.function(input_signature=[MATRIX])
    def first(x):  # type: ignore[no-untyped-def]
        return tf.exp(-tf.abs(x)) * 3.0 + tf.tanh(x)

    @tf.function(input_signature=[MATRIX])
    def second(x):  # type: ignore[no-untyped-def]
        return tf.sigmoid(x) * tf.exp(-x * x) - 0.5

    x = tf.constant(np.linspace(-2, 2, 15, dtype="f4").reshape(3, 5))
    first(x)
    pid = tf_disc.report().as_dict()["worker"]["pid"]
    assert pid > 0
    os.kill(pid, signal.SIGKILL)
    with counted() as counts:
        found = second(x).numpy()
    expected = 1 / (1 + np.exp(-x.numpy())) * np.exp(-(x.numpy() ** 2)) - 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert counts["kernel_runs"] == 1
    assert tf_disc.report().as_dict()["worker"]["pid"] != pid


def plain_error(fn: Any, *args: Any, signature: Any = None) -> BaseException:
    """What TensorFlow raises without us."""
    tf_disc.disable()
    try:
        with pytest.raises(Exception) as info:  # noqa: PT011 - whatever TensorFlow raises
            tf.function(fn, input_signature=signature)(*args)
    finally:
        tf_disc.enable(mode="sync")
    return info.value


@pytest.mark.parametrize(
    ("what", "args", "reason"),
    [
        ("size", ((3, 4), (2, 4)), "broadcast"),
        ("inner size", ((3, 4), (3, 5)), "broadcast"),
    ],
)
def test_a_wrong_size(what: str, args: tuple[tuple[int, int], ...], reason: str) -> None:
    def fn(x, y):  # type: ignore[no-untyped-def]
        return tf.exp(x * 0.5) + tf.tanh(y) * 2.0

    good, bad = [tf.ones((3, 4))] * 2, [tf.ones(s) for s in args]
    expected = plain_error(fn, *bad, signature=[MATRIX, MATRIX])
    ours = tf.function(fn, input_signature=[MATRIX, MATRIX])
    ours(*good)
    with pytest.raises(type(expected)) as found:
        ours(*bad)
    assert "Incompatible shapes" in str(found.value)
    clusters = tf_disc.report().as_dict()["clusters"]
    said = [reason_ for c in clusters for reason_ in c["fallbacks"]]
    assert any("guard" in s or reason in s for s in said), (what, said)


def test_a_wrong_dtype() -> None:
    def fn(x):  # type: ignore[no-untyped-def]
        return tf.exp(x) * 2.0 + tf.tanh(x)

    ours = tf.function(fn, input_signature=[MATRIX])
    ours(tf.ones((2, 3)))
    with pytest.raises(TypeError):
        ours(tf.ones((2, 3), tf.float64))


def test_an_index_out_of_range() -> None:
    table = tf.Variable(np.arange(40, dtype="f4").reshape(10, 4))

    def fn(ids):  # type: ignore[no-untyped-def]
        return tf.tanh(tf.gather(table, ids) * 0.1) + 1.0

    expected = plain_error(fn, tf.constant([1, 10]))
    ours = tf.function(fn, input_signature=[tf.TensorSpec([None], tf.int32)])
    with counted() as counts:
        ours(tf.constant([1, 9, 0]))
        for bad in ([1, 10], [-1]):
            with pytest.raises(type(expected)):
                ours(tf.constant(bad))
        ours(tf.constant([2]))
    assert counts["kernel_runs"] == 2
    assert counts["fallbacks"] == 2
    said = [s for c in tf_disc.report().as_dict()["clusters"] for s in c["fallbacks"]]
    assert any("an element is outside of what the kernel computes" in s for s in said), said


def test_a_dump_holds_graphs_cluster_stages_and_inputs(tmp_path: Path) -> None:
    run_process(TF_DISC_DUMP=str(tmp_path))
    (graphs,) = tmp_path.glob("graph_*")
    before, after = (graphs / f"{name}.pbtxt" for name in ("before", "after"))
    assert 'op: "Softmax"' in before.read_text()
    assert 'op: "DiscLaunch"' in after.read_text()
    (cluster,) = tmp_path.glob("cluster_*")
    names = {f.name for f in cluster.iterdir()}
    assert {"cluster.json", "input_0.npy", "manifest.txt", "kernel.o"} <= names
    for stage in ("import", "groups", "loops", "llvm", "optimize", "emit"):
        assert any(stage in name for name in names), (stage, names)
