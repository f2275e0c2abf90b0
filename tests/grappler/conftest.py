"""Here the pass runs under the tests' own op table, and launches run their outlined functions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.grappler.small_table import TABLE
from tf_disc.ops.library import load_library


@pytest.fixture(autouse=True)
def native() -> Iterator[ModuleType]:
    """The library with the small table; mode `aot` compiles nothing."""
    library = load_library()
    library.set_op_table(TABLE)
    library.set_option("enabled", "1")
    library.set_option("mode", "aot")
    library.reset_pass_statistics()
    yield library
    library.set_op_table([])
