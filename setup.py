"""Builds the native parts with `build_tools`; everything else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
# A build backend runs this file without its folder on the path.
sys.path.insert(0, str(ROOT))

from build_tools.native import NativeBuild  # noqa: E402


class BuildNative(build_ext):
    """Hands the build to build_tools, into the source tree or into the wheel's folder."""

    def _native(self) -> NativeBuild:
        package = ROOT if self.inplace else Path(self.build_lib).resolve()
        return NativeBuild(package / "tf_disc")

    def run(self) -> None:
        self._native().build()

    def get_outputs(self) -> list[str]:
        return [str(path) for path in self._native().outputs()]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


setup(
    # The sources are found by build_tools; the entry makes setuptools build a platform wheel.
    ext_modules=[Extension("tf_disc._native", sources=[])],
    cmdclass={"build_ext": BuildNative},
)
