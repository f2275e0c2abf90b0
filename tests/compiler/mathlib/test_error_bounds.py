"""Every function stays within the bound that its record states, over all of float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.mathlib.compiled import TARGETS, WIDTHS, kernel
from tests.compiler.mathlib.reference import REFERENCES
from tests.compiler.mathlib.ulp import wrong
from tf_disc.compiler.codegen import mathlib

SINGLE = [name for name, record in mathlib.FUNCTIONS.items() if "f32" in record.max_ulp]
UNARY = [name for name in SINGLE if mathlib.FUNCTIONS[name].arity == 1]


def every(step: int) -> np.ndarray:
    """Every step-th bit pattern of float32, denormals left out (they count as zero)."""
    values = np.arange(step // 3, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return values[~((np.abs(values) < np.finfo(np.float32).tiny) & (values != 0.0))]


def assert_close(name: str, *operands: np.ndarray) -> None:
    """The vector kernels' results are within the stated bound, for each target that runs here."""
    with np.errstate(all="ignore"):
        exact = REFERENCES[name].exact(*[operand.astype(np.float64) for operand in operands])
    for target in TARGETS:
        result = kernel(name, "f32", target=target)(*operands)
        bad = wrong(result, exact, mathlib.FUNCTIONS[name].max_ulp["f32"])
        shown = [(*[o[i] for o in operands], result[i], exact[i]) for i in np.flatnonzero(bad)[:5]]
        assert not bad.any(), (
            f"{name} {target}: {bad.sum()} wrong; operands, result, exact: {shown}"
        )


@pytest.mark.parametrize("name", SINGLE)
def test_reference_exists(name: str) -> None:
    assert name in REFERENCES


@pytest.mark.parametrize("name", UNARY)
def test_unary_over_the_whole_range(name: str) -> None:
    reference = REFERENCES[name]
    x = every(2**12 + 1)
    assert_close(name, x[~((x < reference.low) | (x > reference.high))])


@pytest.mark.parametrize("name", UNARY)
def test_unary_where_models_compute(name: str) -> None:
    x = np.random.default_rng(7).normal(0.0, 3.0, 400_000).astype(np.float32)
    assert_close(name, x)


@pytest.mark.parametrize(("name", "low", "high"), [("erf", 0.21875, 0.2197)])
def test_every_float_where_the_error_is_largest(name: str, low: float, high: float) -> None:
    """What a sample passes over; test_every_float.py found it."""
    first, last = np.array([low, high], np.float32).view(np.uint32)
    assert_close(name, np.arange(first, last, dtype=np.uint32).view(np.float32))


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(st.floats(width=32, allow_subnormal=False), min_size=1, max_size=40))
def test_any_numbers(numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    for name in UNARY:
        reference = REFERENCES[name]
        assert_close(name, x[~((x < reference.low) | (x > reference.high))])


def test_power_of_any_bits() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, (2, 500_000), dtype=np.uint64)
    x, y = bits.astype(np.uint32).view(np.float32)
    normal = (np.abs(x) >= np.finfo(np.float32).tiny) & (np.abs(y) >= np.finfo(np.float32).tiny)
    assert_close("pow", x[normal], y[normal])


def test_quantiles() -> None:
    """Near 0, near 1, and where the two polynomials join."""
    small = np.exp2(np.random.default_rng(9).uniform(-126.0, 0.0, 200_000))
    p = np.concatenate([small, 1.0 - small, small[:100_000] / 4 + 0.125, 0.5 + small - small / 2])
    p = p.astype(np.float32)
    assert_close("ndtri", p[(p >= np.finfo(np.float32).tiny) & (p < 1.0)])


def test_logarithm_of_gamma_near_its_zeros() -> None:
    """Two zeros lie between each pair of negative integers, near them from -4 on."""
    generator = np.random.default_rng(9)
    zeros = np.array([1.0, 2.0, -2.4570247, -2.7476826, -3.1435809, -3.9552944, -4.0393617])
    distance = np.exp2(generator.uniform(-24.0, -4.0, (zeros.size, 20_000)))
    near = zeros[:, None] + distance * generator.choice([-1.0, 1.0], distance.shape)
    for x in (near.ravel(), generator.uniform(-30.0, 30.0, 400_000)):
        assert_close("lgamma", x.astype(np.float32))


def test_angles_of_any_bits() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, (2, 500_000), dtype=np.uint64)
    y, x = bits.astype(np.uint32).view(np.float32)
    normal = (np.abs(x) >= np.finfo(np.float32).tiny) & (np.abs(y) >= np.finfo(np.float32).tiny)
    assert_close("atan2", y[normal], x[normal])


def test_angles_where_models_compute() -> None:
    y, x = np.random.default_rng(2).normal(0.0, 3.0, (2, 500_000)).astype(np.float32)
    assert_close("atan2", y, x)


@pytest.mark.parametrize("spread", [87.0, 1.0, 1e-3, 1e-6])
def test_power_over_all_results(spread: float) -> None:
    generator = np.random.default_rng(2)
    x = np.exp(generator.uniform(-spread, spread, 300_000)).astype(np.float32)
    x = x[x != 1.0]
    exponent = generator.uniform(-130.0, 130.0, x.size) / np.log2(x.astype(np.float64))
    assert_close("pow", x, exponent.astype(np.float32))


def test_power_of_negative_numbers() -> None:
    generator = np.random.default_rng(3)
    x = -np.exp(generator.uniform(-5.0, 5.0, 300_000)).astype(np.float32)
    assert_close("pow", x, generator.integers(-30, 30, x.size).astype(np.float32))


@pytest.mark.parametrize(("target", "lanes"), WIDTHS)
@pytest.mark.parametrize("name", SINGLE)
def test_every_width_gives_the_same_bits(name: str, target: str, lanes: int) -> None:
    x = every(2**17 + 1)
    operands = [x, x[::-1].copy()][: mathlib.FUNCTIONS[name].arity]
    wide = kernel(name, "f32", target=target)(*operands)
    narrow = kernel(name, "f32", lanes, target)(*operands)
    np.testing.assert_array_equal(narrow, wide)  # NaN equals NaN here
    np.testing.assert_array_equal(np.signbit(narrow[narrow == 0]), np.signbit(wide[wide == 0]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid", "sin", "cos"])
def test_never_above_one(name: str, target: str) -> None:
    result = kernel(name, "f32", target=target)(every(2**13 + 1))
    assert np.nanmax(np.abs(result)) <= 1.0
