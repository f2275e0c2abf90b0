"""Every function that takes double stays within its bound there, against 64-bit mantissas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.compiler.mathlib.compiled import kernel
from tests.compiler.mathlib.reference import REFERENCES
from tests.compiler.mathlib.ulp import wrong
from tf_disc.compiler.codegen import mathlib

DOUBLE = [name for name, record in mathlib.FUNCTIONS.items() if "f64" in record.max_ulp]
UNARY = [name for name in DOUBLE if mathlib.FUNCTIONS[name].arity == 1]


def samples(count: int) -> np.ndarray:
    """Normal numbers: all magnitudes, where models compute, about 1, where exp overflows, large."""
    generator = np.random.default_rng(5)

    def signs() -> np.ndarray:
        return generator.choice([-1.0, 1.0], count)

    return np.concatenate(
        [
            signs() * np.exp2(generator.uniform(-1022.0, 1023.99, count)),
            signs() * np.exp2(generator.uniform(-60.0, 10.0, count)),
            generator.normal(0.0, 3.0, count),
            generator.uniform(-750.0, 750.0, count),
            1.0 + signs() * np.exp2(generator.uniform(-52.0, 0.0, count)),
        ]
    )


def exact_unary(name: str, x: np.ndarray) -> np.ndarray:
    if name == "erf":
        mpmath = pytest.importorskip("mpmath", reason="numpy has no long double erf")
        text = [mpmath.nstr(mpmath.erf(mpmath.mpf(float(value))), 25) for value in x]
        return np.array([np.longdouble(number) for number in text])
    with np.errstate(all="ignore"):
        return REFERENCES[name].exact(x.astype(np.longdouble))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    x = samples(2_000 if name == "erf" else 200_000)
    x = x[np.abs(x) >= np.finfo(np.float64).tiny]
    result, exact = kernel(name, "f64", 8)(x), exact_unary(name, x)
    bad = wrong(result, exact, mathlib.FUNCTIONS[name].max_ulp["f64"])
    shown = [(x[i], result[i], exact[i]) for i in np.flatnonzero(bad)[:5]]
    assert not bad.any(), f"{name}: {bad.sum()} wrong; operand, result, exact: {shown}"


@pytest.mark.parametrize("spread", [708.0, 30.0, 1.0, 1e-3, 1e-9])
def test_power_over_all_results(spread: float) -> None:
    generator = np.random.default_rng(2)
    x = np.exp(generator.uniform(-spread, spread, 100_000))
    x = x[x != 1.0]
    y = generator.uniform(-1030.0, 1030.0, x.size) / np.log2(x)
    assert_power_close(x, y)


def test_power_of_negative_numbers() -> None:
    generator = np.random.default_rng(3)
    x = -np.exp(generator.uniform(-5.0, 5.0, 100_000))
    assert_power_close(x, generator.integers(-200, 200, x.size).astype(np.float64))


def test_power_near_the_largest_number() -> None:
    """y log2(x) rounds to 1024 where the power is still finite."""
    x = np.nextafter(np.full(1000, 2.0), 0.0) - np.arange(1000) * 2.0**-52
    assert_power_close(x, np.full(1000, 1024.0))
    assert_power_close(1.0 / x, np.full(1000, -1024.0))


def assert_power_close(x: np.ndarray, y: np.ndarray) -> None:
    result = kernel("pow", "f64", 8)(x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    bad = wrong(result, exact, mathlib.FUNCTIONS["pow"].max_ulp["f64"])
    shown = [(x[i], y[i], result[i], exact[i]) for i in np.flatnonzero(bad)[:5]]
    assert not bad.any(), f"{bad.sum()} wrong; operands, result, exact: {shown}"


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("name", DOUBLE)
def test_every_width_gives_the_same_bits(name: str, lanes: int) -> None:
    x = samples(2_000)
    operands = [x, x[::-1].copy()][: mathlib.FUNCTIONS[name].arity]
    wide, narrow = kernel(name, "f64", 8)(*operands), kernel(name, "f64", lanes)(*operands)
    np.testing.assert_array_equal(narrow, wide)  # NaN equals NaN here
    np.testing.assert_array_equal(np.signbit(narrow[narrow == 0]), np.signbit(wide[wide == 0]))


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("exp", 709.782712893384, 1.797693134862273e308),
        ("exp", 709.7827128933841, math.inf),
        ("exp", -709.0, 0.0),
        ("expm1", 709.7827128933841, math.inf),
        ("expm1", -40.0, -1.0),
        ("sigmoid", -745.0, 0.0),
        ("log", 1e-310, -math.inf),
        ("tanh", 25.0, 1.0),
        ("erf", 6.0, 1.0),
    ],
)
def test_ends_of_the_range(name: str, operand: float, expected: float) -> None:
    (result,) = kernel(name, "f64", 8)(np.array([operand]))
    assert result == pytest.approx(expected, rel=1e-15, abs=0.0)
