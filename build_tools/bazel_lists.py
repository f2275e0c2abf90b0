"""Writes the lists of sources in BUILD: `python -m build_tools.bazel_lists`."""

from __future__ import annotations

import re
from pathlib import Path

from build_tools import sources
from build_tools.sources import ROOT


def lists() -> dict[str, list[str]]:
    """The lists by their names in BUILD, as paths from the root."""

    def names(paths: list[Path]) -> list[str]:
        return [str(path.relative_to(ROOT)) for path in paths]

    return {
        "LIBRARY_SOURCES": names(sources.library_sources()),
        "LIBRARY_HEADERS": names(sources.library_headers()),
        "TESTS": names(sources.test_sources()),
    }


def rewritten(build: str) -> str:
    """The text of BUILD with every list as it should be."""
    for name, paths in lists().items():
        items = "".join(f'    "{path}",\n' for path in paths)
        build, count = re.subn(
            rf"^{name} = \[.*?^\]", f"{name} = [\n{items}]", build, flags=re.MULTILINE | re.DOTALL
        )
        if count != 1:
            raise ValueError(f"BUILD has {count} lists {name}; expected one")
    return build


if __name__ == "__main__":
    build_file = ROOT / "BUILD"
    build_file.write_text(rewritten(build_file.read_text(encoding="utf-8")), encoding="utf-8")
