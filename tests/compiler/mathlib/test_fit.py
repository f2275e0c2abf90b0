"""coefficients.py is what fit.py makes."""

from __future__ import annotations

import pytest

pytest.importorskip("mpmath", reason="fit.py needs mpmath")

from tf_disc.compiler.codegen.mathlib import coefficients, fit


@pytest.mark.parametrize("name", sorted(fit.FITS))
def test_coefficients_fit(name: str) -> None:
    """Evaluated anew, they keep to the error that the file states; they are of their type."""
    stored = getattr(coefficients, name.upper())
    stated = coefficients.ERRORS[name]
    assert stored == tuple(float(fit.rounded(c, fit.FITS[name].bits)) for c in stored)
    assert fit.error_of(fit.FITS[name], stored) <= 2.0 ** (stated + 0.01)


@pytest.mark.parametrize("name", ["exp", "log", "erf"])
def test_coefficients_can_be_made_again(name: str) -> None:
    assert getattr(coefficients, name.upper()) == fit.coefficients(fit.FITS[name])


@pytest.mark.parametrize("name", sorted(fit.PIECES))
def test_pieces_fit(name: str) -> None:
    pieces, stored = fit.PIECES[name], getattr(coefficients, name.upper())
    bound = 2.0 ** (coefficients.ERRORS[name] + 0.01)
    intervals = list(zip(pieces.edges, pieces.edges[1:]))
    assert len(stored) == pieces.degree + 2
    assert all(len(row) == len(intervals) for row in stored)
    for (low, high), (centre, *numbers) in zip(intervals, zip(*stored)):
        found, wanted = pieces.fit(low, high)
        assert centre == found
        assert fit.error_of(wanted, numbers) <= bound
