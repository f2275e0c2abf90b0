"""Every function that takes double stays within its bound there, against 64-bit mantissas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.compiler.mathlib.compiled import TARGETS, WIDTHS, kernel
from tests.compiler.mathlib.reference import REFERENCES, TRIGONOMETRIC_LIMIT
from tests.compiler.mathlib.ulp import wrong
from tf_disc.compiler.codegen import mathlib

DOUBLE = [name for name, record in mathlib.FUNCTIONS.items() if "f64" in record.max_ulp]
UNARY = [name for name in DOUBLE if mathlib.FUNCTIONS[name].arity == 1]
# numpy has these not of long double.
BY_MPMATH = ("erf", "erfc")


def samples(count: int) -> np.ndarray:
    """Normal numbers: all magnitudes, where models compute, where erfc and where exp end, about 1."""
    generator = np.random.default_rng(5)

    def signs() -> np.ndarray:
        return generator.choice([-1.0, 1.0], count)

    return np.concatenate(
        [
            signs() * np.exp2(generator.uniform(-1022.0, 1023.99, count)),
            signs() * np.exp2(generator.uniform(-60.0, 10.0, count)),
            generator.normal(0.0, 3.0, count),
            generator.uniform(-30.0, 30.0, count),
            generator.uniform(-750.0, 750.0, count),
            1.0 + signs() * np.exp2(generator.uniform(-52.0, 0.0, count)),
        ]
    )


def long_doubles(numbers: list[Any]) -> np.ndarray:
    """mpmath's numbers, to 25 digits."""
    import mpmath

    return np.array([np.longdouble(mpmath.nstr(number, 25)) for number in numbers])


def assert_close(name: str, exact: np.ndarray, *operands: np.ndarray) -> None:
    """For each target that runs here."""
    for target in TARGETS:
        result = kernel(name, "f64", target=target)(*operands)
        bad = wrong(result, exact, mathlib.FUNCTIONS[name].max_ulp["f64"])
        shown = [(*[o[i] for o in operands], result[i], exact[i]) for i in np.flatnonzero(bad)[:5]]
        assert not bad.any(), (
            f"{name} {target}: {bad.sum()} wrong; operands, result, exact: {shown}"
        )


def exact_unary(name: str, x: np.ndarray) -> np.ndarray:
    if name in BY_MPMATH:
        mpmath = pytest.importorskip("mpmath", reason=f"numpy has no long double {name}")
        # Beyond 30, where mpmath gives up, nothing changes but what double calls zero.
        return long_doubles([getattr(mpmath, name)(float(value)) for value in x.clip(-30.0, 30.0)])
    with np.errstate(all="ignore"):
        return REFERENCES[name].exact(x.astype(np.longdouble))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    reference = REFERENCES[name]
    x = samples(2_000 if name in BY_MPMATH else 200_000)
    x = x[(np.abs(x) >= np.finfo(np.float64).tiny) & (x >= reference.low) & (x <= reference.high)]
    assert_close(name, exact_unary(name, x), x)


def near_multiples_of_half_pi() -> np.ndarray:
    """The doubles below 2^40 that come nearest to a multiple of pi/2, by binade: numerators of the
    convergents of (pi/2) / 2^e (Kahan 1983, "Minimizing q*m - n")."""
    mpmath = pytest.importorskip("mpmath", reason="needs pi to 60 digits")
    found = []
    with mpmath.workdps(60):
        for exponent in range(-53, -12):
            rest = mpmath.pi / 2 / mpmath.mpf(2) ** exponent
            before, last = 0, 1
            while last < 2**53:
                whole = int(mpmath.floor(rest))
                rest = 1 / (rest - whole)
                before, last = last, whole * last + before
                if last < 2**53:
                    found.append(math.ldexp(last, exponent))
    return np.array([x for x in found if x >= 0.5])


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_next_to_the_zeros_and_poles(name: str) -> None:
    mpmath = pytest.importorskip("mpmath", reason="needs pi to 60 digits")
    x = near_multiples_of_half_pi()
    with mpmath.workdps(60):
        exact = long_doubles([getattr(mpmath, name)(float(value)) for value in x])
        assert min(abs(mpmath.cos(float(value))) for value in x) < 2.0**-55
    assert_close(name, exact, x)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_to_the_end_of_the_reduction(name: str) -> None:
    x = np.random.default_rng(4).uniform(-TRIGONOMETRIC_LIMIT, TRIGONOMETRIC_LIMIT, 200_000)
    assert_close(name, exact_unary(name, x), x)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("asin", -1.0, 1.0),
        ("acos", -1.0, 1.0),
        ("atanh", -1.0, 1.0),
        ("acosh", 1.0, 20.0),
        ("erfc", 1.0, 1.1),  # where it rounds most
        ("erfc", 0.0, 27.0),
    ],
)
def test_over_the_domain(name: str, low: float, high: float) -> None:
    count = 10_000 if name in BY_MPMATH else 200_000
    x = np.random.default_rng(6).uniform(low, high, count)
    assert_close(name, exact_unary(name, x), x)


@pytest.mark.parametrize("spread", [0.001, 1.0, 500.0])
def test_angles(spread: float) -> None:
    generator = np.random.default_rng(8)
    y, x = generator.choice([-1.0, 1.0], (2, 200_000))
    y *= np.exp2(generator.uniform(-spread, spread, y.size))
    x *= np.exp2(generator.uniform(-spread, spread, x.size))
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    assert_close("atan2", exact, y, x)


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
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert_close("pow", exact, x, y)


@pytest.mark.parametrize(("target", "lanes"), WIDTHS)
@pytest.mark.parametrize("name", DOUBLE)
def test_every_width_gives_the_same_bits(name: str, target: str, lanes: int) -> None:
    x = samples(2_000)
    operands = [x, x[::-1].copy()][: mathlib.FUNCTIONS[name].arity]
    wide = kernel(name, "f64", target=target)(*operands)
    narrow = kernel(name, "f64", lanes, target)(*operands)
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
        ("erfc", 26.54, 2.645558174468511e-308),
        ("erfc", 26.6, 0.0),
        ("erfc", 26.7, 0.0),
        ("erfc", 1e300, 0.0),
        ("erfc", -6.0, 2.0),
        ("sinh", 710.4758600739439, 1.797693134862174e308),
        ("sinh", 710.475860073944, math.inf),
        ("sinh", -711.0, -math.inf),
        ("sinh", 1e-300, 1e-300),
        ("cosh", -710.4758600739439, 1.797693134862174e308),
        ("cosh", 710.475860073944, math.inf),
        ("asinh", 1.7e308, 710.4199840737882),
        ("acosh", 1.7e308, 710.4199840737882),
        ("asinh", -1e-300, -1e-300),
        ("atanh", 0.9999999999999999, 18.714973875118524),
        ("tan", 1e-300, 1e-300),
    ],
)
def test_ends_of_the_range(name: str, operand: float, expected: float) -> None:
    for target in TARGETS:
        (result,) = kernel(name, "f64", target=target)(np.array([operand]))
        assert result == pytest.approx(expected, rel=1e-15, abs=0.0), target
