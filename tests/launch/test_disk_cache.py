"""Kernels on disk: found by the next process, never trusted when damaged."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.launch.launching import affine, check, launch

ROOT = Path(__file__).parents[2]

# What another process does with a cache: one call each of `count` launches.
LAUNCHES = """
import sys
from pathlib import Path
from tests.launch.launching import check
from tests.launch.test_disk_cache import fresh_launch
from tests.launch.worker import Worker
from tf_disc.ops.library import load_library
native = load_library()
Worker(native, Path(sys.argv[1])).configure(cache_dir=sys.argv[2])
for counter in range(int(sys.argv[3])):
    check(fresh_launch("cluster_0123456789abcdef", counter), 3)
print(native.launch_statistics())
"""


def run_process(script: str, *arguments: str) -> dict[str, Any]:
    """Runs `script` in a process of its own; returns the JSON of its last line."""
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    statistics: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return statistics


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "kernels"


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*"))


def fresh_launch(cluster_id: str, counter: int):
    """A launch whose kernel is not in memory: its cluster has one more Identity each time."""

    def body(x, v):
        y = affine(x, v)
        for _ in range(counter):
            y = tf.identity(y)
        return y

    return launch(f"{cluster_id[:-4]}{counter:04x}", body)


def test_a_file_has_the_documented_form(worker, cache, cluster_id):
    worker.configure(cache_dir=str(cache))
    check(launch(cluster_id), 3)
    (path,) = entries(cache)
    data = path.read_bytes()
    assert data[:8] == b"TFDA" + (1).to_bytes(4, "little")
    assert data[8:40] == hashlib.sha256(data[40:]).digest()
    parts, rest = [], data[40:]
    while rest:
        length = int.from_bytes(rest[:8], "little")
        parts.append(rest[8 : 8 + length])
        rest = rest[8 + length :]
    key, manifest, body = parts
    assert manifest == (worker.folder / "any.manifest").read_bytes()
    assert body == (worker.folder / "any.o").read_bytes()
    lines = key.decode().split("\n")
    assert [line.split(" ", 1)[0] for line in lines] == [
        "abi",
        "compiler",
        "target",
        "features",
        "precision",
        "cluster",
    ]
    assert lines[1] == f"compiler {worker.fingerprint}"
    assert '"sizes"' not in key.decode()
    assert "mul" not in lines[-1].replace('"Mul"', "")
    assert path.name == f"{hashlib.sha256(key).hexdigest()}-0.tfda"
    assert path.stat().st_mode & 0o077 == 0


def test_a_second_process_needs_no_worker(worker, cache):
    first = run_process(LAUNCHES, str(worker.folder), str(cache), "1")
    assert (first["compiles"], first["disk"]["misses"], first["disk"]["stores"]) == (1, 1, 1)
    second = run_process(LAUNCHES, str(worker.folder), str(cache), "1")
    assert (second["compiles"], second["disk"]["hits"], second["worker"]["starts"]) == (0, 1, 0)
    assert second["clusters"][0]["kernel_runs"] == 1
    assert second["clusters"][0]["signatures"][0]["source"] == "disk"
    assert len(worker.requests()) == 1


def damage(data: bytes, how: str) -> bytes:
    rng = random.Random(how)
    if how.startswith("bit"):
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if how.startswith("cut"):
        return data[: rng.randrange(len(data))]
    return {
        "empty": b"",
        "longer": data + b"x",
        "huge length": data[:40] + b"\xff" * 8 + data[48:],
        "other": b"not ours at all" * 100,
        "version": data[:4] + b"\x02" + data[5:],
    }[how]


def test_damaged_files_are_misses(worker, cache, cluster_id, statistics):
    worker.configure(cache_dir=str(cache))
    ways = [f"bit {i}" for i in range(12)] + [f"cut {i}" for i in range(6)]
    ways += ["empty", "longer", "huge length", "other", "version"]
    before: set[Path] = set()
    files = []
    for counter in range(len(ways)):
        check(fresh_launch(cluster_id, counter), 3)
        (new,) = set(entries(cache)) - before
        before.add(new)
        files.append(new)
    for path, how in zip(files, ways):
        path.write_bytes(damage(path.read_bytes(), how))
    data = run_process(LAUNCHES, str(worker.folder), str(cache), str(len(ways)))
    assert data["disk"] == {
        "hits": 0,
        "misses": len(ways),
        "damaged": len(ways),
        "stores": len(ways),
    }
    assert data["compiles"] == len(ways)
    problems = "\n".join(data["problems"])
    for text in ["SHA-256 does not match", "cut short", "follow its end", "TFDA", "version is 2"]:
        assert text in problems, text


def test_a_cache_that_cannot_be_written_is_a_problem_in_words(
    worker, tmp_path, cluster_id, statistics
):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    worker.configure(cache_dir=str(blocker / "cache"))
    check(launch(cluster_id), 3)
    assert statistics().cluster(cluster_id)["kernel_runs"] == 1
    (problem,) = statistics().data["problems"]
    assert problem.startswith(f"cannot make the cache folder {blocker}/cache: ")


def test_a_folder_in_a_file_s_place(worker, cache, cluster_id, statistics):
    worker.configure(cache_dir=str(cache))
    check(fresh_launch(cluster_id, 0), 3)
    (path,) = entries(cache)
    path.unlink()
    path.mkdir()
    data = run_process(LAUNCHES, str(worker.folder), str(cache), "1")
    assert data["compiles"] == 1
    assert any("not a regular file" in problem for problem in data["problems"])


def test_the_oldest_entries_go_first(worker, cache, cluster_id):
    worker.configure(cache_dir=str(cache))
    for counter in range(4):
        check(fresh_launch(cluster_id, counter), 3)
        for path in entries(cache):
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
    by_age = sorted(entries(cache), key=lambda path: path.stat().st_mtime_ns)
    size = by_age[0].stat().st_size
    strange = cache / "notes.txt"
    strange.write_text("not ours")
    worker.configure(cache_dir=str(cache), cache_limit_bytes=3 * size + size // 2)
    check(fresh_launch(cluster_id, 4), 3)
    left = set(entries(cache)) - {strange}
    assert not left & set(by_age[:2])
    assert set(by_age[2:]) < left
    assert len(left) == 3
    assert strange.exists()


def test_temporary_files_of_the_dead_are_removed(worker, cache, cluster_id):
    cache.mkdir(parents=True)
    old, young = cache / "a-0.tfda.tmp.1.2.3", cache / "b-0.tfda.tmp.1.2.3"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    worker.configure(cache_dir=str(cache))
    check(launch(cluster_id), 3)
    assert not old.exists()
    assert young.exists()
    assert not list(cache.glob(f"*.tmp.{os.getpid()}*"))


def test_no_cache_without_a_fingerprint(worker, cache, cluster_id, statistics):
    worker.configure(cache_dir=str(cache), fingerprint="")
    check(launch(cluster_id, lambda x, v: tf.identity(tf.identity(affine(x, v)))), 3)
    assert statistics().cluster(cluster_id)["calls"] == 1
    assert not cache.exists()


def test_shipped_artifacts(native, worker, cache, cluster_id, statistics):
    worker.configure(cache_dir=str(cache))
    check(launch(cluster_id), 3)
    (path,) = entries(cache)
    data = run_process(SHIPPED, str(path))
    runs = {cluster["id"]: cluster["kernel_runs"] for cluster in data["clusters"]}
    assert runs == {"cluster_good": 1, "cluster_second": 1, "cluster_bad": 0, "cluster_other": 0}
    assert data["worker"]["starts"] == 0
    assert any("shipped with cluster_bad are damaged" in problem for problem in data["problems"])


# Without a configured compiler, as in a C++ server.
SHIPPED = """
import sys
from pathlib import Path
import tensorflow as tf
from tests.launch.launching import affine, check, launch
from tf_disc.ops.library import load_library
native = load_library()
artifact = Path(sys.argv[1]).read_bytes()
def run(name, shipped, body=affine):
    launched = launch(name, body, mode="aot", artifact=shipped)
    check(launched, 3)
    assert native.wait_for_compiles(20.0)
    check(launched, 3)
run("cluster_good", artifact)
def two(x, v):
    return tf.identity(affine(x, v))
run("cluster_other", artifact, two)
run("cluster_bad", artifact[:-1], lambda x, v: tf.identity(two(x, v)))
run("cluster_second", artifact * 2)
print(native.launch_statistics())
"""
