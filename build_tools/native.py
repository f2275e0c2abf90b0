"""The targets: libtf_disc.so, the Python module, the C++ tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

from build_tools import sources
from build_tools.compile import Compiler, in_parallel, includes_tensorflow, is_current, record, run
from build_tools.libraries import place_libraries
from build_tools.sources import ROOT
from build_tools.toolchain import (
    compile_flags,
    compiler,
    find_tensorflow,
    onednn_include,
    python_flags,
)

LIBRARY_NAME = "libtf_disc.so"


def _num_jobs() -> int:
    return int(os.environ.get("TF_DISC_BUILD_JOBS", "2"))


class NativeBuild:
    """One build into `package`, the folder that becomes or is `tf_disc/`."""

    def __init__(self, package: Path, work: Path = ROOT / "build") -> None:
        self._package = package
        self._work = work
        self._tensorflow = find_tensorflow(work / "tensorflow_flags.json")
        onednn = onednn_include()
        flags = compile_flags(self._tensorflow)
        self._onednn_flags = ["-isystem", str(onednn)] if onednn else []
        identity = f"{self._tensorflow.version} {' '.join(flags)}"
        self._compiler = Compiler(compiler(), flags, work / "objects", identity)

    @property
    def library(self) -> Path:
        return self._package / "lib" / LIBRARY_NAME

    @property
    def module(self) -> Path:
        return self._package / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"

    def outputs(self) -> list[Path]:
        """Every file that `build` leaves in the package."""
        placed = sorted((self._package / "lib").glob("*"))
        return [path for path in [*placed, self.module] if path.suffix != ".cmd"]

    def build(self) -> None:
        """Builds the library, the module and what lies beside them. Raises BuildError."""
        library, bindings = sources.library_sources(), sources.binding_sources()
        self._compile(library, [])
        self._compile(bindings, python_flags())
        self.library.parent.mkdir(parents=True, exist_ok=True)
        place_libraries(self.library.parent)
        self._link_library(library)
        self._link_module(bindings)
        self._write_build_info()

    def build_tests(self) -> list[Path]:
        """Builds libtf_disc.so and one program a C++ test. Returns the programs."""
        self.build()
        tests = sources.test_sources()
        linked = {test: [test, *sources.test_support_sources(test)] for test in tests}
        self._compile(sorted({path for paths in linked.values() for path in paths}), [])
        programs = [self._work / "cc_tests" / source.stem for source in tests]
        for source, program in zip(tests, programs):
            self._link(
                [self._compiler.object_of(path) for path in linked[source]],
                [self.library],
                program,
                [
                    f"-Wl,-rpath,{self.library.parent}:{self._tensorflow.folder}",
                    *self._tensorflow_libraries(),
                    "-pthread",
                    "-ldl",
                ],
            )
        return programs

    def run_tests(self) -> int:
        """Builds and runs the C++ tests. Returns how many programs failed."""
        # Some tests have this Python, which has llvmlite, write their input.
        environment = {**os.environ, "TF_DISC_TEST_PYTHON": sys.executable}
        failed = [
            program.name
            for program in self.build_tests()
            if subprocess.run([str(program)], cwd=ROOT, env=environment).returncode != 0
        ]
        total = len(sources.test_sources())
        print(f"cc-tests: {total - len(failed)} programs passed, {len(failed)} failed {failed}")
        return len(failed)

    def _compile(self, files: list[Path], extra_flags: list[str]) -> None:
        if any(includes_tensorflow(path) for path in files):
            self._compiler.precompile()
        extra = [*self._onednn_flags, *extra_flags]
        in_parallel([partial(self._compiler.compile, path, extra) for path in files], _num_jobs())

    def _tensorflow_libraries(self) -> list[str]:
        return [
            "-Wl,--no-as-needed",
            f"-L{self._tensorflow.folder}",
            "-l:libtensorflow_cc.so.2",
            "-l:libtensorflow_framework.so.2",
        ]

    def _link_library(self, files: list[Path]) -> None:
        self._link(
            [self._compiler.object_of(path) for path in files],
            [],
            self.library,
            [
                "-shared",
                f"-Wl,-soname,{LIBRARY_NAME}",
                # In a process that imported TensorFlow both libraries are there already; the path
                # serves a C++ program that loads the library from an installed wheel.
                "-Wl,-rpath,$ORIGIN/../../tensorflow",
                "-Wl,--no-undefined",
                *self._tensorflow_libraries(),
                "-pthread",
                "-ldl",
            ],
        )

    def _link_module(self, files: list[Path]) -> None:
        self._link(
            [self._compiler.object_of(path) for path in files],
            [self.library],
            self.module,
            [
                "-shared",
                "-Wl,-rpath,$ORIGIN/lib:$ORIGIN/../tensorflow",
                *self._tensorflow_libraries(),
            ],
        )

    def _link(
        self, objects: list[Path], libraries: list[Path], output: Path, flags: list[str]
    ) -> None:
        inputs = [*objects, *libraries]
        flags = [*map(str, objects), "-Wl,--no-as-needed", *map(str, libraries), *flags]
        command = [*compiler(), "-o", str(output), *flags]
        # The record lies in the work folder: the package folder is what gets shipped.
        stamp_target = self._work / "links" / output.name
        if output.exists() and is_current(stamp_target, command, inputs):
            return
        print(f"  link {output.name}", flush=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        stamp_target.parent.mkdir(parents=True, exist_ok=True)
        partial_output = output.with_name(output.name + ".partial")
        run(
            [*compiler(), "-o", str(partial_output), *flags],
            f"Linking {output.name}",
        )
        partial_output.replace(output)
        stamp_target.touch()
        record(stamp_target, command)

    def _write_build_info(self) -> None:
        info = {"tensorflow": self._tensorflow.version}
        target = self.library.parent / "build_info.json"
        target.write_text(json.dumps(info, indent=2) + "\n")
