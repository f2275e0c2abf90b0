"""Distance from an exact value in units in the last place, with denormals as zero."""

from __future__ import annotations

import numpy as np


def smallest_normal(dtype: type) -> float:
    return float(np.finfo(dtype).tiny)


def wrong(result: np.ndarray, exact: np.ndarray, max_ulp: float) -> np.ndarray:
    """Where `result` is not within max_ulp of `exact`, an array of higher precision.

    NaN must meet NaN, and infinity the same infinity, or a value that exact rounds to; a result in
    the denormal range is right for any exact value there.
    """
    dtype = result.dtype.type
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        tiny = smallest_normal(dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), dtype(tiny))).astype(exact.dtype)
        close = np.abs(result.astype(exact.dtype) - exact) <= max_ulp * unit
        vanishing = (np.abs(exact) < tiny) & (np.abs(result) <= tiny)
        same = (result == rounded) | (np.isnan(result) & np.isnan(exact))
    return ~(same | vanishing | (close & np.isfinite(rounded) & np.isfinite(result)))


def largest_ulp(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error where exact is a normal finite number of result's type."""
    dtype = result.dtype.type
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        normal = np.isfinite(rounded) & (np.abs(exact) >= smallest_normal(dtype))
        unit = np.spacing(np.abs(rounded[normal])).astype(exact.dtype)
        error = np.abs(result[normal].astype(exact.dtype) - exact[normal]) / unit
    return float(error.max())
