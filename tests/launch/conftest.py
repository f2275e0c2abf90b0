"""A library, a fake worker, and a cluster id of its own for each test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.launch import kernels
from tests.launch.launching import Statistics
from tests.launch.worker import Worker
from tf_disc.ops.library import load_library


@pytest.fixture(scope="session")
def native() -> ModuleType:
    return load_library()


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels that tests ask the fake worker for, compiled once."""
    folder = tmp_path_factory.mktemp("kernels")
    kernels.affine(folder).save(folder, "any")
    for rows in range(2, 8):
        kernels.affine(folder, [f"GUARD_ROWS={rows}"]).save(folder, f"rows{rows}")
    kernels.affine(folder, ["RUN_REFUSES"]).save(folder, "run_refuses")
    kernels.affine(folder, ["LIBRARY_FAILS"]).save(folder, "library_fails")
    kernels.affine(folder, ["PASSES=200"]).save(folder, "slow")
    kernels.affine(folder, ["PASSES=200", "GUARD_ROWS=300"]).save(folder, "slow_rows300")
    return folder


@pytest.fixture
def worker(native: ModuleType, kernel_folder: Path, tmp_path: Path) -> Iterator[Worker]:
    """The fake worker, configured; it answers with the kernel `any`."""
    folder = tmp_path / "worker"
    folder.mkdir()
    for path in kernel_folder.iterdir():
        (folder / path.name).symlink_to(path)
    native.reset_launch_statistics()
    native.clear_failed_compiles()
    result = Worker(native, folder)
    result.configure()
    yield result
    result.go()
    assert native.wait_for_compiles(30.0)


@pytest.fixture
def cluster_id(request: pytest.FixtureRequest) -> str:
    return "cluster_" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]


@pytest.fixture
def statistics(native: ModuleType) -> Callable[[], Statistics]:
    return lambda: Statistics(native)
