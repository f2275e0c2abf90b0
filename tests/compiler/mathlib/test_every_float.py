"""All 2^32 floats, for the functions that DISC_EVERY_FLOAT names (`exp,log` or `all`).

Minutes a function, so not part of a usual run; what was found stands in docs/numerics.md.
"""

from __future__ import annotations

import os

import pytest

from tests.compiler.mathlib.reference import REFERENCES
from tests.compiler.mathlib.sweep import sweep
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.mathlib.measured import read

ASKED = os.environ.get("DISC_EVERY_FLOAT", "")
#: Their references are loops in Python: days.
SAMPLED = ("ndtri", "lgamma")
SWEPT = [
    name
    for name, function in mathlib.FUNCTIONS.items()
    if function.arity == 1 and name not in SAMPLED
]


@pytest.mark.skipif(not ASKED, reason="DISC_EVERY_FLOAT names no function")
@pytest.mark.parametrize("name", SWEPT if ASKED == "all" else ASKED.split(",") if ASKED else [""])
def test_every_float(name: str) -> None:
    for target, found in sweep(name).items():
        assert found.wrong == 0, (target, found)


@pytest.mark.parametrize("name", sorted(read()))
def test_what_was_measured_is_within_the_bound(name: str) -> None:
    assert name in REFERENCES
    for target, measured in read()[name].items():
        if target == "tensorflow":
            continue
        bound = mathlib.FUNCTIONS[name].max_ulp["f32"]
        assert measured.ulp is None or measured.ulp <= bound, (target, measured)


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "erf", "erfc", "rsqrt"),
        *("sin", "cos"),
    ],
)
def test_the_bound_is_no_larger_than_tensorflows_error(name: str) -> None:
    theirs = read()[name]["tensorflow"].ulp
    assert theirs is not None
    assert mathlib.FUNCTIONS[name].max_ulp["f32"] <= theirs
