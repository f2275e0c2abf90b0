"""A worker or a kernel that fails costs its compile and nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.launch.launching import affine, check, example, launch
from tf_disc.compiler.codegen.abi import ABI_VERSION

FAULTS = {
    "unsupported": 'unsupported: Mul "mul": no rule for it',
    "internal": "internal error of the compiler: KeyError: 'mul'",
    "die": "the compile worker ended without an answer; exit status 3, the end of its standard "
    "error: Fatal: out of registers",
    "rubbish": "the compile worker answered outside the protocol, with ",
    "short": "the compile worker ended without an answer; exit status 4",
    "extra": "the compile worker wrote 4 bytes after its answer",
    "start_die": "the compile worker ended without an answer; exit status 7, the end of its "
    "standard error: no such module (before it was ready)",
    "start_rubbish": "the compile worker answered outside the protocol, with ",
    "start_other": "the compile worker is another compiler: its fingerprint is ",
    "kernel missing_manifest": "the compile worker ended without an answer; exit status 1",
    "kernel bad_manifest": "the compiled kernel could not be loaded: ",
    "kernel bad_object": "the compiled kernel could not be loaded: ",
    "kernel cut_object": "the compiled kernel could not be loaded: ",
}


@pytest.fixture
def bad_kernels(worker):
    manifest = (worker.folder / "any.manifest").read_text()
    body = (worker.folder / "any.o").read_bytes()
    for name, text, data in [
        ("bad_manifest", manifest.replace(f"abi {ABI_VERSION}\n", "abi 999\n"), body),
        ("bad_object", manifest, b"\x7fELF" + bytes(range(256)) * 8),
        ("cut_object", manifest, body[: len(body) // 2]),
    ]:
        (worker.folder / f"{name}.manifest").write_text(text)
        (worker.folder / f"{name}.o").write_bytes(data)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_reason(native, worker, bad_kernels, cluster_id, statistics, fault, mode):
    worker.set(fault)
    run = launch(cluster_id, mode=mode)
    check(run, 3)
    assert native.wait_for_compiles(20.0)
    check(run, 4)
    check(run, 5)
    signature = statistics().signature(cluster_id)
    assert signature["state"] == "failed"
    assert signature["reason"].startswith(FAULTS[fault])
    assert statistics().reasons(cluster_id)[signature["reason"]] >= 2
    assert len(worker.requests()) == (0 if fault.startswith("start") else 1)
    assert statistics().data["compile_failures"] == 1


@pytest.mark.parametrize("fault", ["die", "rubbish", "short", "start_die", "extra"])
def test_the_next_compile_has_a_new_worker(native, worker, cluster_id, statistics, fault):
    worker.set(fault)
    check(launch(cluster_id), 3)
    worker.set("kernel any")
    other = cluster_id[:-4] + "cafe"
    # Other code, so that it is another kernel.
    run = launch(other, lambda x, v: tf.identity(affine(x, v)))
    check(run, 3)
    assert statistics().cluster(other)["kernel_runs"] == 1
    data = statistics().data
    assert data["worker"]["starts"] == 2
    assert data["worker"]["failures"] == 1
    assert any(cluster_id in problem for problem in data["problems"])


def test_the_user_may_ask_again(native, worker, cluster_id, statistics):
    worker.set("die")
    run = launch(cluster_id)
    check(run, 3)
    check(run, 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 0
    worker.set("kernel any")
    assert native.clear_failed_compiles() == 1
    assert native.clear_failed_compiles() == 0
    check(run, 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1
    assert statistics().signature(cluster_id)["reason"] == ""


def test_a_worker_that_hangs_is_ended(native, worker, cluster_id, statistics):
    worker.configure(compile_timeout_s=0.5)
    worker.set("hang")
    begin = time.monotonic()
    check(launch(cluster_id), 3)
    assert time.monotonic() - begin < 10
    assert (
        statistics()
        .signature(cluster_id)["reason"]
        .startswith("the compile worker gave no answer in time and was ended; signal 9")
    )
    assert native.compile_worker_pid() == 0


def test_a_worker_that_hangs_at_its_start_is_ended(worker, cluster_id, statistics):
    worker.configure(worker_start_timeout_s=0.5)
    worker.set("start_hang")
    check(launch(cluster_id), 3)
    assert "(before it was ready)" in statistics().signature(cluster_id)["reason"]


def test_a_worker_killed_while_it_compiles(native, worker, cluster_id, statistics):
    worker.set("wait")
    run = launch(cluster_id, mode="async")
    check(run, 3)
    deadline = time.monotonic() + 20
    while not worker.requests() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(native.compile_worker_pid(), signal.SIGKILL)
    assert native.wait_for_compiles(20.0)
    check(run, 3)
    reason = statistics().signature(cluster_id)["reason"]
    assert reason.startswith("the compile worker ended without an answer; signal 9")


def test_a_worker_killed_while_idle_is_replaced_unseen(native, worker, cluster_id, statistics):
    check(launch(cluster_id), 3)
    pid = native.compile_worker_pid()
    os.kill(pid, signal.SIGKILL)
    # It is our child: gone for us only when reaped, which the next compile does.
    while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.01)
    other = cluster_id[:-4] + "cafe"
    check(launch(other, lambda x, v: tf.identity(affine(x, v))), 3)
    assert statistics().cluster(other)["kernel_runs"] == 1
    assert statistics().data["worker"] == {
        "pid": native.compile_worker_pid(),
        "starts": 2,
        "failures": 0,
    }


def test_a_worker_may_talk(worker, cluster_id, statistics):
    worker.set("talk")
    check(launch(cluster_id), 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ([], "no compiler is configured in this process"),
        (["/nonexistent/python"], "cannot run /nonexistent/python: No such file or directory"),
        (["tf-disc-no-such-program"], "no folder of PATH has the program tf-disc-no-such-program"),
        (["/"], "cannot run /: Permission denied"),
        (["true"], "the compile worker ended without an answer; exit status 0"),
        (["cat"], "the compile worker gave no answer in time"),
    ],
)
def test_a_command_that_is_no_worker(worker, cluster_id, statistics, command, reason):
    worker.configure(worker_command=command, worker_start_timeout_s=0.5)
    check(launch(cluster_id), 3)
    assert reason in statistics().signature(cluster_id)["reason"]


def test_an_idle_worker_ends(native, worker, cluster_id):
    worker.configure(worker_idle_s=0.2)
    check(launch(cluster_id), 3)
    deadline = time.monotonic() + 20
    while native.compile_worker_pid() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert native.compile_worker_pid() == 0


def test_settings_are_checked(worker):
    with pytest.raises(ValueError, match="compile_timeout_s is 0, expected more than 0 seconds"):
        worker.configure(compile_timeout_s=0.0)
    with pytest.raises(ValueError, match="compile_timeout_s is nan"):
        worker.configure(compile_timeout_s=float("nan"))
    with pytest.raises(ValueError, match="weight_cache_mb is -1"):
        worker.configure(weight_cache_mb=-1)


@pytest.mark.parametrize("fault", ["run_refuses", "library_fails"])
def test_a_run_that_fails_after_it_has_written(worker, cluster_id, statistics, fault):
    worker.set(f"kernel {fault}")
    run = launch(cluster_id)
    for rows in [3, 4, 0]:
        check(run, rows)
    reasons = statistics().reasons(cluster_id)
    assert sum(reasons.values()) == 3
    if fault == "run_refuses":
        assert set(reasons) == {"a guard failed: x.dim(0) is the one speculated on"}
    else:
        assert all(reason.startswith("the kernel failed: ") for reason in reasons)


def test_variants(worker, cluster_id, statistics):
    worker.set("rows")
    run = launch(cluster_id)
    for rows in [2, 3, 2, 4, 5, 3, 6, 7, 2, 5]:
        check(run, rows)
    signature = statistics().signature(cluster_id)
    # The fifth and sixth size have no variant left.
    assert signature["variants"] == 4
    assert signature["kernel_runs"] == 8
    assert [r["cluster"]["inputs"][0]["sizes"][0] for r in worker.requests()] == [2, 3, 4, 5]
    assert statistics().reasons(cluster_id) == {
        "a guard failed: x.dim(0) is the one speculated on": 2
    }


def test_the_same_variant_again_ends_the_asking(native, worker, cluster_id, statistics):
    worker.set("kernel rows2")
    run = launch(cluster_id)
    for rows in [2, 3, 4, 5, 2]:
        check(run, rows)
    assert len(worker.requests()) == 2
    signature = statistics().signature(cluster_id)
    assert (signature["state"], signature["variants"]) == ("ready", 1)
    assert signature["reason"] == "the compiler gave a kernel with the same guards again"
    assert signature["kernel_runs"] == 2


def test_a_variant_that_cannot_be_compiled_keeps_the_first(worker, cluster_id, statistics):
    worker.set("kernel rows2")
    run = launch(cluster_id)
    check(run, 2)
    worker.set("die")
    for rows in [3, 4, 2]:
        check(run, rows)
    assert len(worker.requests()) == 2
    assert statistics().signature(cluster_id)["kernel_runs"] == 2


def test_async_variants(native, worker, cluster_id, statistics):
    worker.set("rows")
    run = launch(cluster_id, mode="async")
    for rows in [2, 3]:
        check(run, rows)
        assert native.wait_for_compiles(20.0)
        check(run, rows)
    assert statistics().signature(cluster_id)["kernel_runs"] == 2


def test_a_kernel_of_another_cluster_is_refused(worker, cluster_id, statistics):
    text = (worker.folder / "any.manifest").read_text()
    (worker.folder / "other.manifest").write_text(text.replace("input 1 f32 1", "input 1 f32 2"))
    (worker.folder / "other.o").symlink_to(worker.folder / "any.o")
    worker.set("kernel other")
    check(launch(cluster_id), 3)
    (reason,) = statistics().reasons(cluster_id)
    assert reason == (
        "the kernel failed: the kernel takes f32 of rank 2 as input 1, the node has float of rank 1"
    )


def test_no_signal_and_no_descriptor_reaches_the_worker(native, worker, cluster_id):
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    check(launch(cluster_id), 3)
    pid = native.compile_worker_pid()
    links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    ours = os.readlink(f"/proc/self/fd/{write_end}")
    os.close(read_end)
    os.close(write_end)
    assert ours not in links
    assert os.getpgid(pid) == pid
    status = Path(f"/proc/{pid}/status").read_text()
    assert "SigBlk:\t0000000000000000" in status


def test_the_first_error_of_a_size_is_no_compile(worker, cluster_id, statistics):
    run = launch(cluster_id)
    x, v, expected = example(3, 5)
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(x, v[:4])
    np.testing.assert_allclose(run(x, v), expected, rtol=1e-6)
    # One for the signature, one to see whether a variant would help.
    assert len(worker.requests()) == 2
    assert statistics().reasons(cluster_id) == {"a guard failed: x.dim(1) == v.dim(0)": 3}
