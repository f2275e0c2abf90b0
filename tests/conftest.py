"""Nothing is enabled by importing tf_disc here: a test that wants it calls `tf_disc.enable()`.

Set before anything imports tf_disc. Tests of the compiler then run without TensorFlow, and those
that compare with TensorFlow have it plain.
"""

import os

import pytest

os.environ.setdefault("TF_DISC", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Here rather than beside the golden tests: pytest reads options before it looks into folders."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected text of golden tests; review the difference like code",
    )
