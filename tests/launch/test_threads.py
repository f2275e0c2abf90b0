"""Few threads, many threads, cancellation, the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import V, X, affine, check, example, launch, ops

ROOT = Path(__file__).parents[2]


def run_script(code: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


PRELUDE = """
import os, sys, threading, time, signal, json
from pathlib import Path
import tensorflow as tf
def start(**settings):
    from tests.launch.worker import Worker
    from tf_disc.ops.library import load_library
    native = load_library()
    worker = Worker(native, Path(sys.argv[1]))
    worker.configure(**settings)
    return native, worker
"""


@pytest.mark.parametrize(("inter", "intra"), [(1, 1), (1, 4), (4, 1)])
def test_few_threads(worker, inter, intra):
    """Eight launches wait for one compile with one inter-op thread: none blocks it."""
    result = run_script(
        """
inter, intra = int(sys.argv[2]), int(sys.argv[3])
tf.config.threading.set_inter_op_parallelism_threads(inter)
tf.config.threading.set_intra_op_parallelism_threads(intra)
native, worker = start()
from tests.launch.launching import V, X, affine, check, launch
runs = [launch(f"cluster_{i:016x}") for i in range(4)]
@tf.function(input_signature=[X, V])
def all_of_them(x, v):
    return tf.add_n([run(x, v) for run in runs for _ in range(2)])
worker.set("wait")
threading.Timer(0.5, worker.go).start()
for rows in [300, 1, 7]:
    got = all_of_them(tf.ones([rows, 5]), tf.ones([5])).numpy()
    assert (got == 32.0).all(), got
for cluster in json.loads(native.launch_statistics())["clusters"]:
    assert cluster["kernel_runs"] == cluster["calls"], cluster
print("fine")
""",
        str(worker.folder),
        str(inter),
        str(intra),
    )
    assert result.stdout.endswith("fine\n"), result.stderr


def test_many_threads_in_one_function(native, worker, cluster_id, statistics):
    run = launch(cluster_id, mode="async")

    def calls(seed: int) -> None:
        for rows in np.random.default_rng(seed).integers(0, 40, 60):
            check(run, int(rows))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(calls, range(4)))
        # A busy machine takes long to start a worker.
        assert native.wait_for_compiles(20.0)
        list(pool.map(calls, range(4, 8)))
    cluster = statistics().cluster(cluster_id)
    assert cluster["calls"] == 480
    assert cluster["kernel_runs"] + cluster["fallback_runs"] == 480
    assert cluster["kernel_runs"] > 0
    assert len(worker.requests()) == 1


def test_an_error_reaches_the_user_before_the_cancellation_that_it_causes(worker, cluster_id):
    """One launch fails in TensorFlow while another waits for its compile."""
    worker.set("wait")
    fails = launch(cluster_id, mode="aot")
    waits = launch(cluster_id[:-4] + "beef", mode="sync")

    @tf.function(input_signature=[X, V, V])
    def both(x, v, w):
        return waits(x, v), fails(x, w)

    x, v, _ = example(3, 5)
    for _ in range(5):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
            both(x, v, v[:4])


def session_graph(cluster_id: str, mode: str):
    """A v1 graph with one DiscLaunch node: (graph, x, v, y)."""
    concrete = tf.function(affine, input_signature=[X, V]).get_concrete_function()
    wrappers = ops()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, None])
        v = tf.compat.v1.placeholder(tf.float32, [None])
        (y,) = wrappers.disc_launch(
            args=[x, v],
            Tout=[tf.float32],
            cluster=concrete,
            cluster_id=cluster_id,
            options=f"mode={mode}",
        )
    return graph, x, v, y


def test_sessions(worker, cluster_id, statistics):
    graph, x, v, y = session_graph(cluster_id, "sync")
    sessions = [tf.compat.v1.Session(graph=graph) for _ in range(3)]
    values, row, expected = example(5)
    with ThreadPoolExecutor(3) as pool:
        for result in pool.map(lambda s: s.run(y, {x: values, v: row}), sessions * 4):
            np.testing.assert_allclose(result, expected, rtol=1e-6)
    for session in sessions:
        session.close()
    assert statistics().cluster(cluster_id)["kernel_runs"] == 12
    assert len(worker.requests()) == 1


def test_a_wait_is_cancelled(native, worker, cluster_id, statistics):
    worker.set("wait")
    graph, x, v, y = session_graph(cluster_id, "sync")
    session = tf.compat.v1.Session(graph=graph)
    values, row, expected = example(5)
    options = tf.compat.v1.RunOptions(timeout_in_ms=300)
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(y, {x: values, v: row}, options=options)
    # The compile goes on, and serves the next run.
    worker.go()
    assert native.wait_for_compiles(20.0)
    np.testing.assert_allclose(session.run(y, {x: values, v: row}), expected, rtol=1e-6)
    session.close()
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1
    assert len(worker.requests()) == 1


def test_cancellation_from_another_thread(native, worker, cluster_id):
    from tensorflow.python.eager import cancellation

    worker.set("wait")
    run = launch(cluster_id)
    manager = cancellation.CancellationManager()
    x, v, expected = example(3)
    cancellable = manager.get_cancelable_function(run.get_concrete_function())
    timer = threading.Timer(0.3, manager.start_cancel)
    timer.start()
    with pytest.raises(tf.errors.CancelledError):
        cancellable(tf.constant(x), tf.constant(v))
    timer.join()
    worker.go()
    assert native.wait_for_compiles(20.0)
    np.testing.assert_allclose(run(x, v), expected, rtol=1e-6)


def test_cancellations_race_with_the_end_of_the_compile(native, worker, cluster_id):
    """Neither loses the step nor ends it twice, whichever comes first."""
    from tensorflow.python.eager import cancellation

    x, v, expected = example(3)
    for trial in range(20):

        def body(x, v, trial=trial):
            y = affine(x, v)
            for _ in range(trial):
                y = tf.identity(y)
            return y

        run = launch(f"{cluster_id[:-4]}{trial:04x}", body).get_concrete_function()
        manager = cancellation.CancellationManager()
        timer = threading.Timer(0.0005 * trial, manager.start_cancel)
        timer.start()
        try:
            result = manager.get_cancelable_function(run)(tf.constant(x), tf.constant(v))
        except tf.errors.CancelledError:
            result = expected
        timer.join()
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("end", ["exit", "kill", "os_exit", "abort"])
@pytest.mark.parametrize("busy", [False, True])
def test_the_worker_never_outlives_the_process(worker, end, busy):
    worker.set("hang" if busy else "kernel any")
    result = run_script(
        f"""
native, worker = start()
from tests.launch.launching import check, launch
check(launch("cluster_0123456789abcdef", mode="async"), 3)
while not native.compile_worker_pid() or not worker.requests():
    time.sleep(0.01)
if not {busy}:
    assert native.wait_for_compiles(20.0)
print(native.compile_worker_pid(), flush=True)
begin = time.monotonic()
{{
    "exit": lambda: sys.exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "os_exit": lambda: os._exit(0),
    "abort": lambda: os.abort(),
}}["{end}"]()
""",
        str(worker.folder),
    )
    expected = {"exit": 0, "kill": -9, "os_exit": 0, "abort": -6}[end]
    assert result.returncode == expected, result.stderr
    pid = int(result.stdout.split()[-1])
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def test_the_user_s_signals_stay_the_user_s(worker):
    """SIGPIPE kills this process if a dead worker's pipe raises it; SIGINT must reach Python."""
    result = run_script(
        """
native, worker = start()
from tests.launch.launching import affine, check, launch
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
# Much to write, to a worker that ends without reading it.
worker.configure(worker_command=["/bin/sh", "-c", "exec <&-; sleep 0.2"])
def big(x, v):
    return tf.add(affine(x, v), 0.0 * tf.reduce_sum(tf.constant(list(range(200000)), tf.float32)))
check(launch("cluster_0123456789abcdef", big), 3)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.1)
assert heard == [1]
print(native.launch_statistics())
""",
        str(worker.folder),
    )
    assert result.returncode == 0, result.stderr
    assert "ended without an answer" in result.stdout


def test_ctrl_c_in_a_terminal_does_not_reach_the_worker(native, worker, cluster_id):
    check(launch(cluster_id), 3)
    assert os.getpgid(native.compile_worker_pid()) != os.getpgid(0)


def test_a_forked_child_leaves_the_worker_alone(worker):
    result = run_script(
        """
native, worker = start()
from tests.launch.launching import affine, check, launch
check(launch("cluster_0123456789abcdef"), 3)
pid = os.fork()
if pid == 0:
    # As multiprocessing ends its children. (After a fork TensorFlow itself hangs in sys.exit.)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
time.sleep(0.2)
check(launch("cluster_0123456789abcdee", lambda x, v: tf.identity(affine(x, v))), 3)
statistics = json.loads(native.launch_statistics())
assert statistics["worker"]["starts"] == 1, statistics
print("fine")
""",
        str(worker.folder),
    )
    assert result.stdout.endswith("fine\n"), result.stderr


def test_a_run_adds_no_thread(native, worker, cluster_id):
    run = launch(cluster_id)
    for rows in [3, 500]:
        check(run, rows)
    before = len(os.listdir("/proc/self/task"))
    for rows in range(0, 600, 20):
        check(run, rows)
    assert len(os.listdir("/proc/self/task")) == before
