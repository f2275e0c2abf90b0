"""Exact values and special values of mathlib's functions, to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

INF, NAN = math.inf, math.nan
# The largest argument for which reduction by pi/2 keeps its bound.
TRIGONOMETRIC_LIMIT = 2.0**40


@dataclass(frozen=True)
class Reference:
    """exact: on float64 arrays, far more exact than float32. special: arguments and results.

    low, high: where the error bound holds. single: more special values, for float32 only.
    """

    exact: Callable[..., np.ndarray]
    special: tuple[tuple[float, ...], ...]
    low: float = -INF
    high: float = INF
    single: tuple[tuple[float, ...], ...] = ()


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _quantile(p: float) -> float:
    if 0.0 < p < 1.0:
        return NormalDist().inv_cdf(p)
    return {0.0: -INF, 1.0: INF}.get(p, NAN)


def _lgamma(x: float) -> float:
    """math.lgamma, which refuses poles and what overflows."""
    if math.isfinite(x) and x <= 0.0 and x == math.floor(x):
        return INF
    return math.lgamma(x)


_TRIGONOMETRIC = (-TRIGONOMETRIC_LIMIT, TRIGONOMETRIC_LIMIT)
_ODD = ((0.0, 0.0), (-0.0, -0.0), (NAN, NAN))

REFERENCES: dict[str, Reference] = {
    "exp": Reference(
        np.exp,
        ((NAN, NAN), (INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0)),
        single=((89.0, INF), (88.72283935546875, INF), (-104.0, 0.0)),
    ),
    "expm1": Reference(
        np.expm1, (*_ODD, (INF, INF), (-INF, -1.0), (-89.0, -1.0)), single=((89.0, INF),)
    ),
    "log": Reference(
        np.log,
        (
            *((NAN, NAN), (INF, INF), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN)),
            (1.0, 0.0),
        ),
        single=((1e-40, -INF), (-1e-40, -INF)),
    ),
    "log1p": Reference(np.log1p, (*_ODD, (INF, INF), (-INF, NAN), (-1.0, -INF), (-1.5, NAN))),
    "softplus": Reference(
        _softplus, ((NAN, NAN), (INF, INF), (-INF, 0.0)), single=((-104.0, 0.0),)
    ),
    "sigmoid": Reference(
        lambda x: 1.0 / (1.0 + np.exp(-x)),
        ((NAN, NAN), (INF, 1.0), (-INF, 0.0), (0.0, 0.5), (-0.0, 0.5), (100.0, 1.0)),
    ),
    "tanh": Reference(np.tanh, (*_ODD, (INF, 1.0), (-INF, -1.0), (20.0, 1.0), (-20.0, -1.0))),
    "erf": Reference(
        lambda x: np.vectorize(math.erf, otypes=[np.float64])(x),
        (*_ODD, (INF, 1.0), (-INF, -1.0), (6.0, 1.0), (-6.0, -1.0)),
    ),
    "erfc": Reference(
        lambda x: np.vectorize(math.erfc, otypes=[np.float64])(x),
        ((NAN, NAN), (INF, 0.0), (-INF, 2.0), (0.0, 1.0), (-0.0, 1.0), (-9.0, 2.0)),
        single=((9.4, 0.0),),
    ),
    "ndtri": Reference(
        # Wichura 1988, "The percentage points of the normal distribution": 16 digits.
        lambda p: np.vectorize(_quantile, otypes=[np.float64])(p),
        (
            *((0.0, -INF), (-0.0, -INF), (1.0, INF), (0.5, 0.0), (NAN, NAN), (INF, NAN)),
            *((-INF, NAN), (-0.5, NAN), (1.5, NAN)),
        ),
        single=((1e-40, -INF), (-1e-40, -INF), (1.0000001, NAN), (-1e-30, NAN)),
    ),
    "lgamma": Reference(
        lambda x: np.vectorize(_lgamma, otypes=[np.float64])(x),
        (
            *((0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-1.0, INF), (-2.0, INF)),
            *((-1e10, INF), (INF, INF), (-INF, INF), (NAN, NAN), (3.0, math.log(2.0))),
        ),
        single=((3e38, INF), (-8388607.0, INF)),
    ),
    "sqrt": Reference(np.sqrt, (*_ODD, (INF, INF), (-INF, NAN), (-1.0, NAN), (4.0, 2.0))),
    "rsqrt": Reference(
        lambda x: 1.0 / np.sqrt(x),
        ((NAN, NAN), (INF, 0.0), (0.0, INF), (-0.0, -INF), (-1.0, NAN), (4.0, 0.5)),
    ),
    "reciprocal": Reference(
        lambda x: 1.0 / x,
        ((NAN, NAN), (INF, 0.0), (-INF, -0.0), (0.0, INF), (-0.0, -INF), (4.0, 0.25)),
    ),
    "sin": Reference(np.sin, (*_ODD, (INF, NAN), (-INF, NAN)), *_TRIGONOMETRIC),
    "cos": Reference(
        np.cos, ((NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)), *_TRIGONOMETRIC
    ),
    "tan": Reference(np.tan, (*_ODD, (INF, NAN), (-INF, NAN)), *_TRIGONOMETRIC),
    "asin": Reference(np.arcsin, (*_ODD, (1.5, NAN), (-INF, NAN), (1.0, math.pi / 2))),
    "acos": Reference(np.arccos, ((NAN, NAN), (1.0, 0.0), (-1.5, NAN), (INF, NAN))),
    "atan": Reference(np.arctan, (*_ODD, (INF, math.pi / 2), (-INF, -math.pi / 2))),
    "atan2": Reference(
        # C99 Annex F.9.1.4.
        np.arctan2,
        (
            *((0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, 2.0, 0.0), (-0.0, INF, -0.0)),
            *((0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi), (0.0, -1.0, math.pi)),
            *((-0.0, -INF, -math.pi), (2.0, -INF, math.pi), (-2.0, -INF, -math.pi)),
            *(
                (2.0, INF, 0.0),
                (-2.0, INF, -0.0),
                (1.0, 0.0, math.pi / 2),
                (1.0, -0.0, math.pi / 2),
            ),
            *((-1.0, 0.0, -math.pi / 2), (INF, 2.0, math.pi / 2), (-INF, -2.0, -math.pi / 2)),
            *((INF, INF, math.pi / 4), (-INF, INF, -math.pi / 4)),
            *((INF, -INF, 3 * math.pi / 4), (-INF, -INF, -3 * math.pi / 4)),
            *((1.0, 1.0, math.pi / 4), (-3.0, -3.0, -3 * math.pi / 4)),
            *((NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, NAN, NAN), (NAN, INF, NAN), (0.0, NAN, NAN)),
        ),
    ),
    "sinh": Reference(np.sinh, (*_ODD, (INF, INF), (-INF, -INF)), single=((89.5, INF),)),
    "cosh": Reference(
        np.cosh,
        ((NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)),
        single=((-89.5, INF),),
    ),
    "asinh": Reference(np.arcsinh, (*_ODD, (INF, INF), (-INF, -INF))),
    "acosh": Reference(np.arccosh, ((NAN, NAN), (1.0, 0.0), (0.5, NAN), (-3.0, NAN), (INF, INF))),
    "atanh": Reference(np.arctanh, (*_ODD, (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN))),
    "pow": Reference(
        # C99 Annex F.9.4.4, all of it; numpy follows it too, which test_power asserts.
        lambda x, y: np.power(x.astype(np.longdouble), y.astype(np.longdouble)),
        (
            *((0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF)),
            *((0.0, -0.5, INF), (-0.0, -0.5, INF), (0.0, -INF, INF), (-0.0, -INF, INF)),
            *((0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0)),
            *((-0.0, 0.5, 0.0), (-0.0, INF, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0)),
            *((1.0, NAN, 1.0), (1.0, INF, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0)),
            *((INF, 0.0, 1.0), (0.0, 0.0, 1.0), (-2.0, 0.5, NAN), (-2.0, -0.5, NAN)),
            *((0.5, -INF, INF), (0.5, INF, 0.0), (2.0, -INF, 0.0), (2.0, INF, INF)),
            *((-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF)),
            *((-INF, 0.5, INF), (-INF, -0.5, 0.0), (INF, -1.0, 0.0), (INF, 1.0, INF)),
            *((NAN, 1.0, NAN), (2.0, NAN, NAN), (-1.0, NAN, NAN), (NAN, NAN, NAN)),
            *((-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.0, -1.0, -0.5)),
            *((-1.0, 16777215.0, -1.0), (-1.0, 16777216.0, 1.0), (-1.0, 3e38, 1.0)),
        ),
        single=((1e-40, 1.0, 0.0),),
    ),
}
