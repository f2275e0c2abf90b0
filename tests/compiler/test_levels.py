"""What the levels of x86-64 compute differently: conversions of f16, and remainders without FMA."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.clusters import ClusterWriter
from tests.compiler.execute import TARGETS, GuardFailed, Program
from tf_disc.compiler.pipeline import compile_cluster


def cast(x: np.ndarray, source: str, to: str, target: str) -> np.ndarray:
    w = ClusterWriter()
    value = w.node("Cast", w.tensor("x", x, [None]), SrcT=source, DstT=to)
    (result,) = Program(compile_cluster(w.cluster(value), target=target))([x])
    return result


@pytest.mark.parametrize("target", TARGETS)
def test_every_half_becomes_its_single(target: str) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    found, expected = cast(x, "f16", "f32", target), x.astype(np.float32)
    np.testing.assert_array_equal(found, expected)  # NaN equals NaN here
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("target", TARGETS)
def test_singles_become_the_nearest_half(target: str) -> None:
    """All halves, what lies half way between two, one place beside that, and any bits."""
    halves = np.arange(2**15, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    middles = (halves[:-1] + halves[1:]) / 2
    up, down = np.nextafter(middles, np.float32(9e9)), np.nextafter(middles, np.float32(0))
    edges = np.array([65519.996, 65520.0, 65536.0, 1e30, np.inf, np.nan, 2.0**-25, 2.0**-26])
    any_bits = np.random.default_rng(3).integers(0, 2**32, 400_000, dtype=np.uint64)
    any_bits = any_bits.astype(np.uint32).view(np.float32)
    x = np.concatenate([halves, middles, up, down, edges.astype(np.float32)])
    x = np.concatenate([x, -x, any_bits])
    x = x[~((np.abs(x) < np.finfo(np.float32).tiny) & (x != 0))]
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    found = cast(x, "f32", "f16", target)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["FloorMod", "TruncateMod"])
def test_remainders_of_doubles_of_all_sizes(op: str, target: str) -> None:
    generator = np.random.default_rng(4)
    count = 200_000
    exponent = generator.uniform(-1000.0, 1020.0, count)
    x = np.exp2(exponent) * generator.choice([-1.0, 1.0], count)
    # Quotients up to 2^51, and below 1.
    y = np.exp2((exponent - generator.uniform(-20.0, 51.0, count)).clip(-1020.0, 1020.0))
    y *= generator.choice([-1.0, 1.0], count)
    expected = np.fmod(x, y)
    remainder = expected
    if op == "FloorMod":
        crosses = (expected != 0) & ((expected < 0) != (y < 0))
        expected = np.where(crosses, expected + y, expected)
    # What is below the normal numbers is flushed, before the correction as after it.
    tiny = np.finfo(np.float64).tiny
    normal = (expected == 0) | (np.minimum(np.abs(expected), np.abs(remainder)) >= tiny)
    x, y, expected = x[normal], y[normal], expected[normal]
    w = ClusterWriter()
    value = w.node(op, w.tensor("x", x, [None]), w.tensor("y", y, [None]))
    program = Program(compile_cluster(w.cluster(value), target=target))
    (found,) = program([x, y])
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(GuardFailed):
        program([np.array([2.0**60]), np.array([3.0])])
