"""Compiles C++ files to objects, again only where something that matters has changed."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from build_tools.sources import ROOT
from build_tools.toolchain import BuildError

_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)

# What most files that touch TensorFlow include. Compiling them takes some 20 s, so once for all.
_HEAVY_HEADERS = """\
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
"""


@cache
def includes_tensorflow(path: Path) -> bool:
    """Whether a file includes a TensorFlow header, itself or through headers of this repository."""
    for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
        if name.startswith("tensorflow/"):
            return True
        own = ROOT / name
        if name.startswith("cc/") and own.exists() and includes_tensorflow(own):
            return True
    return False


def run(command: list[str], what: str) -> None:
    """Runs a build command. Raises BuildError with its output when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise BuildError(f"{what} failed:\n{' '.join(command)}\n{done.stdout}{done.stderr}")


def in_parallel(jobs: Iterable[Callable[[], None]], num_jobs: int) -> None:
    """Runs all jobs, `num_jobs` at a time, and raises the first error after all have ended."""
    with ThreadPoolExecutor(max_workers=num_jobs) as pool:
        futures = [pool.submit(job) for job in jobs]
    for future in futures:
        future.result()


def _dependencies(depfile: Path) -> list[Path]:
    """The prerequisites that the compiler wrote with -MMD (system headers left out)."""
    text = depfile.read_text().replace("\\\n", " ").split(":", 1)[1]
    return [ROOT / name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text.strip())]


def is_current(target: Path, command: list[str], inputs: list[Path]) -> bool:
    """Whether `target` was made by this very command from inputs that have not changed since."""
    stamp = target.with_name(target.name + ".cmd")
    if not target.exists() or not stamp.exists() or json.loads(stamp.read_text()) != command:
        return False
    made = target.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= made for path in inputs)


def record(target: Path, command: list[str]) -> None:
    """Remembers the command that made `target`, for `is_current`."""
    target.with_name(target.name + ".cmd").write_text(json.dumps(command))


class Compiler:
    """One set of flags and a folder of objects."""

    def __init__(self, command: list[str], flags: list[str], objects: Path, identity: str) -> None:
        self._command = command
        self._flags = flags
        # Objects of another TensorFlow or compiler are never mixed in: they live elsewhere.
        version = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout
        digest = hashlib.sha256("\n".join([identity, version]).encode()).hexdigest()
        self._objects = objects / digest[:12]

    def _precompiled(self) -> Path:
        return self._objects / "tensorflow_headers.h"

    def precompile(self) -> None:
        """Makes the precompiled header of TensorFlow's heavy headers."""
        header = self._precompiled()
        output = header.with_name(header.name + ".gch")
        command = [*self._command, *self._flags, "-x", "c++-header", str(header), "-o", str(output)]
        header.parent.mkdir(parents=True, exist_ok=True)
        if not header.exists() or header.read_text() != _HEAVY_HEADERS:
            header.write_text(_HEAVY_HEADERS)
        if not is_current(output, command, [header]):
            print("  pch  TensorFlow's headers", flush=True)
            run(command, "Precompiling TensorFlow's headers")
            record(output, command)

    def object_of(self, source: Path) -> Path:
        return self._objects / source.relative_to(ROOT).with_suffix(".o")

    def compile(self, source: Path, extra_flags: list[str]) -> None:
        """Compiles one file unless its object is current. Raises BuildError on any diagnostic."""
        output = self.object_of(source)
        depfile = output.with_suffix(".d")
        heavy = includes_tensorflow(source)
        prelude = ["-include", str(self._precompiled())] if heavy else []
        command = [
            *self._command,
            *self._flags,
            *prelude,
            *extra_flags,
            *["-MMD", "-MF", str(depfile), "-c", str(source.relative_to(ROOT)), "-o", str(output)],
        ]
        inputs = _dependencies(depfile) if depfile.exists() else []
        if inputs and is_current(output, command, inputs):
            return
        print(f"  c++  {source.relative_to(ROOT)}", flush=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        run(command, f"Compiling {source.relative_to(ROOT)}")
        record(output, command)
