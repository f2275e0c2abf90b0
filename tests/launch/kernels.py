"""Artifacts made by hand, for tests that need a kernel and no compiler."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_disc.compiler.codegen.abi import ABI_VERSION

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "affine_kernel.c"

MANIFEST = f"""tf_disc manifest 1
abi {ABI_VERSION}
compiler by-hand
llvm none
target x86-64-v3
entry plan affine_plan
entry run affine_run
sizes 2
input 0 f32 2
input 1 f32 1
output 0 f32 2
task 0 affine_rows
guard 0 x.dim(0) is the one speculated on
guard 1 x.dim(1) == v.dim(0)
"""


@dataclass(frozen=True)
class Kernel:
    """An artifact as the worker sends it."""

    manifest: str
    object: bytes

    def save(self, folder: Path, name: str) -> None:
        """Writes it where fake_worker.py looks for `kernel NAME`."""
        (folder / f"{name}.manifest").write_text(self.manifest)
        (folder / f"{name}.o").write_bytes(self.object)


def affine(folder: Path, defines: Sequence[str] = ()) -> Kernel:
    """`3 * x + v` of affine_kernel.c, with the faults that `defines` choose."""
    target = folder / "affine.o"
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    subprocess.run(
        [
            *compiler,
            *["-x", "c", "-c", "-O2", "-fPIC", "-ffreestanding", "-Wall", "-Wextra", "-Werror"],
            "-fno-asynchronous-unwind-tables",
            "-fno-stack-protector",
            f"-I{ROOT}",
            *(f"-D{define}" for define in defines),
            str(SOURCE),
            "-o",
            str(target),
        ],
        check=True,
    )
    return Kernel(MANIFEST, target.read_bytes())
