"""What ran during a block, for tests that must know that kernels ran."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tf_disc

_COUNTS = ("kernel_runs", "fallbacks", "compiles", "compile_failures", "clusters", "guard_failures")


class Counts(dict[str, int]):
    """Differences of the report's totals over the block, filled in at its end."""


@contextlib.contextmanager
def counted() -> Iterator[Counts]:
    """Counts what happens inside."""
    counts = Counts()
    before = tf_disc.report().as_dict()["totals"]
    yield counts
    after = tf_disc.report().as_dict()["totals"]
    counts.update({name: after[name] - before[name] for name in _COUNTS})
