"""`python -m build_tools [cc-tests]`: builds in place, and runs the C++ tests when asked."""

from __future__ import annotations

import sys

from build_tools.native import NativeBuild
from build_tools.sources import ROOT
from build_tools.toolchain import BuildError


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["cc-tests"]):
        print("usage: python -m build_tools [cc-tests]", file=sys.stderr)
        return 2
    try:
        build = NativeBuild(ROOT / "tf_disc")
        if arguments:
            return 1 if build.run_tests() else 0
        build.build()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
