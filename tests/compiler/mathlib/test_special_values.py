"""NaN, infinities, signed zeros and poles give what C99 and TensorFlow's kernels give."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.compiler.mathlib.compiled import DTYPES, TARGETS, kernel
from tests.compiler.mathlib.reference import REFERENCES
from tf_disc.compiler.codegen import mathlib
from tf_disc.compiler.codegen.machine import MACHINES

CASES = [
    (name, dtype, lanes, target)
    for name, record in mathlib.FUNCTIONS.items()
    for dtype in record.max_ulp
    for target in TARGETS
    for lanes in (1, MACHINES[target].lanes)
]


@pytest.mark.parametrize(("name", "dtype", "lanes", "target"), CASES)
def test_special_values(name: str, dtype: str, lanes: int, target: str) -> None:
    reference = REFERENCES[name]
    cases = reference.special + (reference.single if dtype == "f32" else ())
    for *operands, expected in cases:
        arrays = [np.array([operand], DTYPES[dtype]) for operand in operands]
        (result,) = kernel(name, dtype, lanes, target)(*arrays)
        rounded = DTYPES[dtype](expected)
        same = math.isnan(result) if math.isnan(expected) else result == rounded
        assert same, f"{name}{tuple(operands)} is {result}, not {expected}"
        if expected == 0.0:
            assert math.copysign(1.0, result) == math.copysign(1.0, expected), (operands, result)


@pytest.mark.parametrize(("name", "dtype", "lanes", "target"), CASES)
def test_nan_with_any_payload_stays_nan(name: str, dtype: str, lanes: int, target: str) -> None:
    bits = [0x7FC00000, 0x7FC00001, 0x7FFFFFFF, 0xFFC00000, 0xFFFFFFFF, 0x7FC00155, 0xFFD55555]
    nan = np.array(bits, np.uint32).view(np.float32).astype(DTYPES[dtype])
    others = [np.full(nan.size, 2.5, nan.dtype)] * (mathlib.FUNCTIONS[name].arity - 1)
    assert np.isnan(kernel(name, dtype, lanes, target)(nan, *others)).all()
    if others:
        assert np.isnan(kernel(name, dtype, lanes, target)(*others, nan)).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name, r in mathlib.FUNCTIONS.items() if r.arity == 1])
def test_denormals_count_as_zero(name: str, target: str) -> None:
    tiny = np.array([1e-40, -1e-40], np.float32)
    zero = np.array([0.0, -0.0], np.float32)
    function = kernel(name, "f32", target=target)
    of_tiny, of_zero = function(tiny), function(zero)
    normal = np.finfo(np.float32).tiny
    for from_tiny, from_zero in zip(of_tiny, of_zero):
        both_vanish = abs(from_tiny) < normal and from_zero == 0.0
        both_nan = math.isnan(from_tiny) and math.isnan(from_zero)
        assert both_vanish or both_nan or from_tiny == from_zero
