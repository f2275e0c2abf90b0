"""`python -m build_tools.requirements EXTRA...`: what to install, one a line, from pyproject.toml.

Asking pip for `.[dev]` would build the project first, in an environment of its own with a second
TensorFlow.
"""

from __future__ import annotations

import sys

from build_tools.sources import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib


def requirements(extras: list[str]) -> list[str]:
    """The project's own requirements and those of the extras named. Raises KeyError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["optional-dependencies"][extra] for extra in extras]
    return sorted({name for names in [project["dependencies"], *lists] for name in names})


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
