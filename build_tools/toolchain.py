"""The compiler, its flags, and where TensorFlow and Python keep their headers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from build_tools.sources import ROOT

TENSORFLOW_SERIES = "2.21"


class BuildError(RuntimeError):
    """The native build cannot go on; the message says what to do."""


@dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow, as a C++ dependency."""

    version: str
    folder: Path
    compile_flags: tuple[str, ...]

    @property
    def include(self) -> Path:
        return self.folder / "include"


def find_tensorflow(cache: Path) -> TensorFlow:
    """The TensorFlow of this Python. Its flags are kept in `cache`: asking costs an import of 4 s.

    Raises BuildError when there is none or it is of another series.
    """
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(
            f"tf_disc builds against an installed TensorFlow {TENSORFLOW_SERIES} and found none. "
            f"Run: pip install 'tensorflow-cpu=={TENSORFLOW_SERIES}.*'"
        )
    folder = Path(spec.submodule_search_locations[0])
    identity = {"folder": str(folder), "stamp": (folder / "__init__.py").stat().st_mtime_ns}
    if cache.exists():
        known = json.loads(cache.read_text())
        if known["identity"] == identity:
            return TensorFlow(known["version"], folder, tuple(known["flags"]))
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, tensorflow as tf; "
            "print(json.dumps([tf.__version__, tf.sysconfig.get_compile_flags()]))",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_DISC": "0", "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    if asked.returncode != 0:
        raise BuildError(f"The installed TensorFlow does not import:\n{asked.stderr}")
    version, flags = json.loads(asked.stdout.splitlines()[-1])
    if not version.startswith(TENSORFLOW_SERIES + "."):
        raise BuildError(
            f"tf_disc builds against TensorFlow {TENSORFLOW_SERIES}.x and found {version}. "
            f"Run: pip install 'tensorflow-cpu=={TENSORFLOW_SERIES}.*'"
        )
    # -I becomes -isystem in compile_flags(): TensorFlow's headers warn by the thousand.
    flags = [flag for flag in flags if not flag.startswith("-I")]
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({"identity": identity, "version": version, "flags": flags}))
    return TensorFlow(version, folder, tuple(flags))


def compiler() -> list[str]:
    """The C++ compiler: $CXX, else g++. Raises BuildError when there is none."""
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        raise BuildError(
            f"No C++ compiler: {command[0]!r} was not found. On Debian: apt-get install g++"
        )
    return command


def compile_flags(tensorflow: TensorFlow) -> list[str]:
    """Flags of every translation unit, own or generated.

    NDEBUG is part of the ABI: absl and protobuf lay types out by it, and TensorFlow's wheel has it.
    No -march: code that profits from wide vectors is generated at run time.
    """
    return [
        *tensorflow.compile_flags,
        "-O2",
        "-g1",
        "-fPIC",
        "-pthread",
        "-DNDEBUG",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT}",
        "-isystem",
        str(tensorflow.include),
        *shlex.split(os.environ.get("TF_DISC_CXXFLAGS", "")),
    ]


def onednn_include() -> Path | None:
    """Folder of `oneapi/dnnl/dnnl.h` from the onednn-devel-cpu-gomp package, if installed."""
    try:
        files = importlib.metadata.files("onednn-devel-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith("include/dnnl.h"):
            return Path(str(file.locate())).resolve().parent
    return None


def python_flags() -> list[str]:
    """Flags for code that includes Python.h and pybind11. Raises BuildError without pybind11."""
    if importlib.util.find_spec("pybind11") is None:
        raise BuildError("pybind11 was not found. Run: pip install pybind11")
    import pybind11

    return ["-isystem", pybind11.get_include(), "-isystem", sysconfig.get_path("include")]
