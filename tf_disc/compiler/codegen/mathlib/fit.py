"""Makes coefficients.py: run this file, not as a module (the package imports what it makes).

Not used when compiling. Each entry of FITS says what is approximated, on which interval, with which
weight; the coefficients are rounded to the type that evaluates them, one after the other from
the constant upward, refitting those that remain (so that they make up for the rounding).

Method: the Remez exchange of one point, on a fixed grid of Chebyshev points, in mpmath, which
tf_disc itself does not need.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import mpmath as mp

mp.mp.dps = 60

# mpmath has no types: this stands for its numbers.
Real: TypeAlias = Any
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """Approximates `target(t)` on [low, high] by a polynomial, minimising |error * weight(t)|.

    fixed: coefficients, from the constant upward, that are given.
    bits: 24 rounds coefficients to float, 53 to double. points: of the grid.
    """

    target: Function
    low: Real
    high: Real
    degree: int
    weight: Function
    fixed: tuple[float, ...] = ()
    bits: int = 24
    points: int = 1200


def rounded(number: Real, bits: int) -> Real:
    """`number` rounded to float (24) or double (53)."""
    as_double = float(number)
    return mp.mpf(struct.unpack("f", struct.pack("f", as_double))[0] if bits == 24 else as_double)


def _exchange(reference: Sequence[int], errors: Sequence[Real], worst: int) -> list[int]:
    """Puts `worst` into the reference for a neighbour, so that the signs still alternate."""
    positive = [errors[i] > 0 for i in reference]
    sign = errors[worst] > 0
    after = next((k for k, i in enumerate(reference) if i > worst), len(reference))
    if after > 0 and positive[after - 1] == sign:
        return [*reference[: after - 1], worst, *reference[after:]]
    if after < len(reference) and positive[after] == sign:
        return [*reference[:after], worst, *reference[after + 1 :]]
    if after == 0:
        return [worst, *reference[:-1]]
    return [*reference[1:], worst]


def minimax(
    target: Sequence[Real], basis: Sequence[Sequence[Real]], weight: Sequence[Real]
) -> tuple[list[Real], Real]:
    """The c that minimise max |weight (target - sum c basis)| over the grid, and that maximum."""
    count, points = len(basis), len(target)
    reference = [round(k * (points - 1) / count) for k in range(count + 1)]
    best: tuple[list[Real], Real] | None = None
    for _ in range(100):
        rows = [
            [basis[j][i] for j in range(count)] + [(-1) ** k / weight[i]]
            for k, i in enumerate(reference)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([target[i] for i in reference]))
        coefficients = [solution[j] for j in range(count)]
        errors = [
            weight[i] * (target[i] - mp.fdot((c, b[i]) for c, b in zip(coefficients, basis)))
            for i in range(points)
        ]
        largest = max(abs(error) for error in errors)
        if best is None or largest < best[1]:
            best = (coefficients, largest)
        if largest < abs(solution[count]) * mp.mpf("1.001"):
            break
        worst = max(range(points), key=lambda i: abs(errors[i]))
        reference = _exchange(reference, errors, worst)
    assert best is not None
    return best


def _value(numbers: Sequence[float], t: Real) -> Real:
    """The polynomial with these coefficients, from the constant upward, at t."""
    total = mp.mpf(0)
    for number in reversed(numbers):
        total = total * t + number
    return total


def _grid(fit: Fit) -> list[Real]:
    middle, half = (mp.mpf(fit.high) + fit.low) / 2, (mp.mpf(fit.high) - fit.low) / 2
    angles = [mp.pi * (k + mp.mpf("0.5")) / fit.points for k in range(fit.points)]
    return [middle - half * mp.cos(angle) for angle in angles]


def error_of(fit: Fit, numbers: Sequence[float]) -> float:
    """The largest weighted error of the polynomial with these coefficients."""
    errors = [fit.weight(t) * (fit.target(t) - _value(numbers, t)) for t in _grid(fit)]
    return float(max(abs(error) for error in errors))


def coefficients(fit: Fit) -> tuple[float, ...]:
    """The polynomial's, from the constant upward, rounded."""
    grid = _grid(fit)
    values = [fit.target(t) for t in grid]
    # A weight that changes sign would make the exchange look for the wrong alternation.
    weights = [abs(fit.weight(t)) for t in grid]
    known = [mp.mpf(c) for c in fit.fixed]
    while len(known) <= fit.degree:
        lowest = len(known)
        rest = [v - _value(known, t) for v, t in zip(values, grid)]
        # The known low powers are divided out where 0 is inside the interval: all powers that
        # remain would be zero there, and the best error need not alternate.
        divided = lowest if fit.low < 0 < fit.high else 0
        found, _error = minimax(
            [r / t**divided for r, t in zip(rest, grid)],
            [[t ** (k - divided) for t in grid] for k in range(lowest, fit.degree + 1)],
            [w * abs(t) ** divided for w, t in zip(weights, grid)],
        )
        known.append(rounded(found[0], fit.bits))
    return tuple(float(c) for c in known)


def _exp_tail(r: Real) -> Real:
    """(exp(r) - 1 - r) / r^2; 1/2 at 0."""
    return (mp.expm1(r) - r) / r**2 if r != 0 else mp.mpf("0.5")


def _log_tail(f: Real) -> Real:
    """(log(1 + f) - f) / f^2; -1/2 at 0."""
    return (mp.log1p(f) - f) / f**2 if f != 0 else -mp.mpf("0.5")


def _erfcx(x: Real) -> Real:
    return mp.exp(x * x) * mp.erfc(x)


@functools.cache
def _quantile(t: Real) -> Real:
    """The h for which a normal variable is above h with probability exp(-t^2 / 2), by Newton."""
    h = mp.sqrt(max(t**2 - 2 * mp.log(t) - mp.log(2 * mp.pi), mp.mpf("0.2")))
    for _ in range(60):
        above = mp.erfc(h / mp.sqrt(2)) / 2
        slope = mp.exp(-(h**2) / 2) / mp.sqrt(2 * mp.pi) / above
        step = (mp.log(above) + t**2 / 2) / slope
        h += step
        if abs(step) < mp.mpf(10) ** -50:
            return h
    raise ArithmeticError(f"Newton's method found no quantile for t = {t}")


def _stirling_rest(z: Real) -> Real:
    """z times what log(gamma(z)) has beyond (z - 1/2) log(z) - z + log(2 pi) / 2."""
    known = (z - mp.mpf("0.5")) * mp.log(z) - z + mp.log(2 * mp.pi) / 2
    return (mp.loggamma(z) - known) * z


def _even(function: Function, at_zero: Real) -> Function:
    """A function of x as one of z = x^2, with its value at 0 given."""
    return lambda z: function(mp.sqrt(z)) if z != 0 else at_zero


_HALF_LN2 = mp.log(2) / 2
# A little more than half of ln 2: the rounded quotient may be off by a little.
_EXP_RADIUS = _HALF_LN2 * mp.mpf("1.0001")

_QUARTER = (mp.pi / 4 * mp.mpf("1.0003")) ** 2
_THIRD = mp.mpf(1) / 3

FITS: dict[str, Fit] = {
    # exp(r) = 1 + r + r^2 P(r); the weight makes the error relative to exp(r).
    "exp": Fit(_exp_tail, -_EXP_RADIUS, _EXP_RADIUS, 4, lambda r: r**2 / mp.exp(r)),
    # expm1(r) = r + r^2 P(r), relative to expm1(r).
    "expm1": Fit(_exp_tail, -_EXP_RADIUS, _EXP_RADIUS, 4, lambda r: r**2 / mp.expm1(r)),
    # -log(erfc(x)) = x + x P(x), relative to erf(x); erf rounds to 1 at the upper end.
    "erf": Fit(
        lambda x: -mp.log(mp.erfc(x)) / x - 1,
        mp.mpf(0),
        mp.mpf("3.93"),
        8,
        lambda x: x * mp.erfc(x) / mp.erf(x),
    ),
    # The same for double.
    "exp_double": Fit(
        _exp_tail, -_EXP_RADIUS, _EXP_RADIUS, 9, lambda r: r**2 / mp.exp(r), bits=53, points=400
    ),
    "expm1_double": Fit(
        _exp_tail, -_EXP_RADIUS, _EXP_RADIUS, 10, lambda r: r**2 / mp.expm1(r), bits=53, points=400
    ),
    # log(1 + f) = 2 s + s^3 P(s^2), s = f / (2 + f), |s| <= 1/5; relative.
    "log_double": Fit(
        _even(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3, 2 * _THIRD),
        mp.mpf(0),
        mp.mpf("0.0401"),
        6,
        _even(lambda s: s**3 / (2 * mp.atanh(s)), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    # erf(x) = x + x P(x^2) for |x| <= 1, relative; 1 - erf(x) = exp(-x^2) w P(1 - 4 w) from there
    # to where erf rounds to 1, w = 1 / (x + 2), relative to erf(x).
    "erf_double": Fit(
        _even(lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1),
        mp.mpf(0),
        mp.mpf("1.0001"),
        12,
        _even(lambda x: x / mp.erf(x), mp.sqrt(mp.pi) / 2),
        bits=53,
        points=400,
    ),
    "erfc_double": Fit(
        lambda q: _erfcx(2 * (1 + q) / (1 - q)) * 4 / (1 - q),
        1 - 4 / mp.mpf("2.999"),
        1 - 4 / mp.mpf("7.95"),
        12,
        lambda q: (1 - q) / 4 * mp.exp(-((2 * (1 + q) / (1 - q)) ** 2)),
        bits=53,
        points=400,
    ),
    # atanh(s) = s + s^3 / 3 + s^5 P(s^2), |s| <= 1/5; 2^r = 1 + r P(r): for pow in double.
    "atanh_double": Fit(
        _even(lambda s: (mp.atanh(s) - s - s**3 / 3) / s**5, mp.mpf("0.2")),
        mp.mpf(0),
        mp.mpf("0.0401"),
        7,
        _even(lambda s: s**5 / mp.atanh(s), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    "exp2_double": Fit(
        lambda r: (mp.mpf(2) ** r - 1) / r,
        -mp.mpf("0.501"),
        mp.mpf("0.501"),
        10,
        lambda r: r / mp.mpf(2) ** r,
        bits=53,
        points=400,
    ),
    # exp(x^2) erfc(x) = w P(1 - 4 w), w = 1 / (x + 2), for x in [0, 9.4]; relative.
    "erfc": Fit(
        lambda q: _erfcx(2 * (1 + q) / (1 - q)) * 4 / (1 - q),
        mp.mpf(-1),
        1 - 4 / mp.mpf("11.4"),
        9,
        lambda q: (1 - q) / 4 / _erfcx(2 * (1 + q) / (1 - q)),
        points=600,
    ),
    # The same in double: w P(1 - 8 w), w = 1 / (x + 4), for x in [0, 27].
    "erfc_whole_double": Fit(
        lambda q: _erfcx(4 * (1 + q) / (1 - q)) * 8 / (1 - q),
        mp.mpf(-1),
        mp.mpf(23) / 31,
        22,
        lambda q: (1 - q) / 8 / _erfcx(4 * (1 + q) / (1 - q)),
        bits=53,
        points=400,
    ),
    # Stirling's series at z >= 8 is P(1 / z^2) / z, in double for lgamma; its absolute error.
    "stirling": Fit(
        lambda u: _stirling_rest(1 / mp.sqrt(u)) if u != 0 else mp.mpf(1) / 12,
        mp.mpf(0),
        mp.mpf(1) / 64,
        6,
        lambda u: mp.sqrt(u),
        bits=53,
        points=400,
    ),
    # The normal quantile: w P(w^2) of 1/2 + w, |w| <= 1/4; and t - P(1 - 6 u), u = 1 / (t + 3),
    # of exp(-t^2 / 2) from 1/4 down to the smallest normal number; relative.
    "ndtri_middle": Fit(
        _even(lambda w: mp.sqrt(2) * mp.erfinv(2 * w) / w, mp.sqrt(2 * mp.pi)),
        mp.mpf(0),
        mp.mpf("0.0626"),
        6,
        _even(lambda w: w / (mp.sqrt(2) * mp.erfinv(2 * w)), 1 / mp.sqrt(2 * mp.pi)),
        points=400,
    ),
    "ndtri_tail": Fit(
        lambda v: 3 * (1 + v) / (1 - v) - _quantile(3 * (1 + v) / (1 - v)),
        1 - 6 / mp.mpf("4.665"),
        1 - 6 / mp.mpf("16.22"),
        9,
        lambda v: 1 / _quantile(3 * (1 + v) / (1 - v)),
        points=400,
    ),
    # sin(r) = r + r^3 P(r^2), relative to sin(r); likewise tan. cos(r) = 1 + r^2 P(r^2).
    "sin": Fit(
        _even(lambda r: (mp.sin(r) - r) / r**3, -mp.mpf(1) / 6),
        mp.mpf(0),
        _QUARTER,
        2,
        _even(lambda r: r**3 / mp.sin(r), mp.mpf(0)),
    ),
    "cos": Fit(
        _even(lambda r: (mp.cos(r) - 1) / r**2, -mp.mpf("0.5")),
        mp.mpf(0),
        _QUARTER,
        3,
        _even(lambda r: r**2 / mp.cos(r), mp.mpf(0)),
    ),
    "tan": Fit(
        _even(lambda r: (mp.tan(r) - r) / r**3, _THIRD),
        mp.mpf(0),
        _QUARTER,
        5,
        _even(lambda r: r**3 / mp.tan(r), mp.mpf(0)),
    ),
    # The same for double, where tan is a quotient of the two.
    "sin_double": Fit(
        _even(lambda r: (mp.sin(r) - r) / r**3, -mp.mpf(1) / 6),
        mp.mpf(0),
        _QUARTER,
        5,
        _even(lambda r: r**3 / mp.sin(r), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    "cos_double": Fit(
        _even(lambda r: (mp.cos(r) - 1) / r**2, -mp.mpf("0.5")),
        mp.mpf(0),
        _QUARTER,
        6,
        _even(lambda r: r**2 / mp.cos(r), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    # log2(1 + f) = f P(f) in double, for pow; relative.
    "log2": Fit(
        lambda f: mp.log1p(f) / mp.log(2) / f,
        -_THIRD,
        _THIRD,
        12,
        lambda f: f / mp.log1p(f),
        bits=53,
    ),
    # 2^r = 1 + r P(r), for pow.
    "exp2": Fit(
        lambda r: (2**r - 1) / r,
        -mp.mpf("0.5"),
        mp.mpf("0.5"),
        5,
        lambda r: r / 2**r,
    ),
    # asin(x) = x + x^3 P(x^2) for |x| <= 1/2; atan likewise for |x| <= 1.
    "asin": Fit(
        _even(lambda x: (mp.asin(x) - x) / x**3, mp.mpf(1) / 6),
        mp.mpf(0),
        mp.mpf("0.2501"),
        4,
        _even(lambda x: x**3 / mp.asin(x), mp.mpf(0)),
    ),
    "atan": Fit(
        _even(lambda x: (mp.atan(x) - x) / x**3, -_THIRD),
        mp.mpf(0),
        mp.mpf("1.0001"),
        7,
        _even(lambda x: x**3 / mp.atan(x), mp.mpf(0)),
    ),
    "asin_double": Fit(
        _even(lambda x: (mp.asin(x) - x) / x**3, mp.mpf(1) / 6),
        mp.mpf(0),
        mp.mpf("0.2501"),
        11,
        _even(lambda x: x**3 / mp.asin(x), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    "atan_double": Fit(
        _even(lambda x: (mp.atan(x) - x) / x**3, -_THIRD),
        mp.mpf(0),
        mp.mpf("1.0001"),
        19,
        _even(lambda x: x**3 / mp.atan(x), mp.mpf(0)),
        bits=53,
        points=400,
    ),
    # log(1 + f) = f + f^2 P(f) for 1 + f in [2/3, 4/3); relative to log(1 + f).
    "log": Fit(
        _log_tail,
        -_THIRD,
        _THIRD,
        8,
        lambda f: f**2 / mp.log1p(f),
        fixed=(-0.5,),
    ),
    # The same for what a table of 16 reciprocals leaves of the mantissa.
    "log_near": Fit(
        _log_tail,
        -mp.mpf("0.0372"),
        mp.mpf("0.0626"),
        3,
        lambda f: f**2 / mp.log1p(f),
        fixed=(-0.5,),
    ),
}


@dataclass(frozen=True)
class Pieces:
    """Approximates a function on [0, edges[-1]] by a polynomial an interval, relatively.

    Each polynomial is one of x - centre. Where the function is 0 at 0, so is the first centre. Else it is the float
    near the middle where the function comes nearest to a float, so that the constant term, which
    decides the result, has no error of its own (Gal 1986, "Computing elementary functions: a new
    approach for achieving high accuracy and good performance").
    own: this multiple of x - centre is left to the code to add, so that near 0, where the result is
    about x, the rounding of the slope hardly counts.
    """

    function: Function
    edges: tuple[float, ...]
    degree: int
    own: float = 0.0

    def centre(self, low: float, high: float) -> float:
        """Of the interval [low, high]: multiples of 2^-20, from the middle outward."""
        if low == 0.0 and self.function(mp.mpf(0)) == 0:
            return 0.0
        middle = round((low + high) * 2**19)
        reach = max(64, round((high - low) * 2**15))
        candidates = [(middle + k) / 2**20 for k in range(-reach, reach + 1)]

        def distance(c: float) -> Real:
            exact = self.function(mp.mpf(c))
            return abs(exact - rounded(exact, 24)) / exact

        with mp.workdps(25):
            return min(candidates, key=distance)

    def fit(self, low: float, high: float) -> tuple[float, Fit]:
        """The centre, and what is fitted from there."""
        c = mp.mpf(self.centre(low, high))
        if c == 0:
            return 0.0, Fit(
                lambda t: self.function(t) - self.own * t,
                mp.mpf(0),
                mp.mpf(high),
                self.degree,
                lambda t: 1 / self.function(t),
                fixed=(0.0,),
                points=160,
            )
        return float(c), Fit(
            lambda t: self.function(c + t) - self.own * t,
            mp.mpf(low) - c,
            mp.mpf(high) - c,
            self.degree,
            lambda t: 1 / self.function(c + t),
            points=160,
        )

    def rows(self) -> tuple[list[tuple[float, ...]], float]:
        """The centres, then the coefficients from the constant upward, one number an interval in
        each row; and the largest error."""
        columns, worst = [], 0.0
        for low, high in zip(self.edges, self.edges[1:]):
            centre, fit = self.fit(low, high)
            found = coefficients(fit)
            worst = max(worst, error_of(fit, found))
            columns.append((centre, *found))
        return list(zip(*columns)), worst


PIECES: dict[str, Pieces] = {
    # erf by quarters, to where it rounds to 1.
    "erf_pieces": Pieces(mp.erf, tuple(k / 4 for k in range(17)), 6, own=1.0),
    # exp(x^2) erfc(x) by quarters of octaves of x + 1, to where erfc vanishes.
    "erfc_pieces": Pieces(
        _erfcx, tuple(2.0 ** (k // 4) * (1 + k % 4 / 4) - 1.0 for k in range(15)), 6
    ),
    # tanh by quarters of octaves of x + 3/4, to where it rounds to 1.
    "tanh_pieces": Pieces(
        mp.tanh, tuple(2.0 ** (k // 4) * (1 + k % 4 / 4) - 0.75 for k in range(-2, 14)), 6
    ),
}


def main() -> None:
    lines = [
        '"""Coefficients of the approximations, made by fit.py: change that and run it."""',
        "",
    ]
    errors = {}
    for name, fit in FITS.items():
        numbers = coefficients(fit)
        errors[name] = round(math.log2(error_of(fit, numbers)), 2)
        lines.append(f"{name.upper()} = (")
        lines += [f"    {number!r}," for number in numbers]
        lines += [")", ""]
    for name, pieces in PIECES.items():
        rows, worst = pieces.rows()
        errors[name] = round(math.log2(worst), 2)
        lines.append(f"{name.upper()} = (")
        for row in rows:
            lines += ["    (", *(f"        {number!r}," for number in row), "    ),"]
        lines += [")", ""]
    lines.append(
        "# The largest error of each, weighted as its entry in fit.py says: its logarithm, base 2."
    )
    lines.append("ERRORS = {")
    lines += [f'    "{name}": {error},' for name, error in errors.items()]
    lines += ["}", ""]
    path = Path(__file__).with_name("coefficients.py")
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
