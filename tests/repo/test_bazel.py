"""BUILD lists the same files as setup.py builds."""

import pytest

from build_tools import bazel_lists
from build_tools.sources import ROOT


def test_build_lists_what_setup_builds():
    build = (ROOT / "BUILD").read_text(encoding="utf-8")
    assert build == bazel_lists.rewritten(build), (
        "BUILD is out of date: run `python -m build_tools.bazel_lists`"
    )


def test_lists_are_not_empty():
    lists = bazel_lists.lists()
    assert "cc/ops/disc_launch_op.cc" in lists["LIBRARY_SOURCES"]
    assert "cc/abi/kernel_abi.h" in lists["LIBRARY_HEADERS"]
    assert not [name for name in lists["LIBRARY_SOURCES"] if "/tests/" in name]


def test_a_list_that_is_missing_is_an_error():
    build = (ROOT / "BUILD").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="0 lists TESTS"):
        bazel_lists.rewritten(build.replace("TESTS = [", "TESTED = ["))
