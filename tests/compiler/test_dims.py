"""Size expressions against real integers: arithmetic, text, bounds, and the canonical form."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_disc.compiler.ir.dims import FUNCTIONS, Dim, as_dim, parse_dim, product

NAMES = ("d0_0", "d0_1", "d1_0")
GRID = tuple(dict(zip(NAMES, p, strict=True)) for p in itertools.product((0, 1, 2, 5), repeat=3))


class Both:
    """An expression twice: as a Dim, and as its value for each assignment of GRID.

    A value is None where something was divided by 0: x * y // x is y, which whoever divides guards.
    """

    def __init__(self, dim: Dim, values: list[int | None]) -> None:
        self.dim = dim
        self.values = values

    def __repr__(self) -> str:
        return str(self.dim)

    @staticmethod
    def symbol(name: str) -> Both:
        return Both(Dim.symbol(name), [sizes[name] for sizes in GRID])

    @staticmethod
    def number(value: int) -> Both:
        return Both(as_dim(value), [value] * len(GRID))

    @staticmethod
    def apply(function: str, a: Both, b: Both) -> Both:
        plain = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}
        on_dims = plain.get(function, partial(Dim.call, function))
        on_numbers = plain.get(function) or FUNCTIONS[function]

        def value(x: int | None, y: int | None) -> int | None:
            undefined = x is None or y is None or (function == "floordiv" and y == 0)
            return None if undefined else on_numbers(x, y)

        return Both(
            on_dims(a.dim, b.dim), [value(x, y) for x, y in zip(a.values, b.values, strict=True)]
        )


FUNCTION_NAMES = ("+", "-", "*", "floordiv", "mod", "max", "min")
LEAVES = st.sampled_from(NAMES).map(Both.symbol) | st.integers(-9, 9).map(Both.number)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.builds(Both.apply, st.sampled_from(FUNCTION_NAMES), inner, inner),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_arithmetic_is_that_of_integers(e: Both) -> None:
    for sizes, value in zip(GRID, e.values, strict=True):
        assert value is None or e.dim.evaluate(sizes) == value, sizes


@pytest.mark.parametrize("function", FUNCTION_NAMES)
def test_small_expressions_one_by_one(function: str) -> None:
    """What shrinking to rules of thumb could miss: every function of a term and a small number."""
    a, b = (Both.symbol(n) for n in NAMES[:2])
    terms = [a, Both.apply("*", a, b), Both.apply("-", b, a), Both.apply("*", Both.number(6), a)]
    numbers = [Both.number(n) for n in (-3, -2, -1, 0, 1, 2, 3, 4, 6)]
    for term in terms:
        for other in (*numbers, *terms):
            for x, y in ((term, other), (other, term)):
                e = Both.apply(function, x, y)
                for sizes, value in zip(GRID, e.values, strict=True):
                    assert value is None or e.dim.evaluate(sizes) == value, (str(e.dim), sizes)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_text_round_trips(e: Both) -> None:
    again = parse_dim(str(e.dim))
    assert again == e.dim and hash(again) == hash(e.dim)
    assert str(again) == str(e.dim)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_lower_bound_is_never_above_a_value(e: Both) -> None:
    for sizes, value in zip(GRID, e.values, strict=True):
        assert value is None or e.dim.lower_bound <= value, sizes


def test_lower_bound_proves_what_slices_need() -> None:
    n = Dim.symbol("d0_0")
    assert (n + 3).lower_bound == 3
    assert Dim.call("max", 0, n - 5).lower_bound == 0
    assert (n * n // 2 + 1).lower_bound == 1
    assert (n - 1).lower_bound < 0
    assert Dim.symbol("v0_0").lower_bound < 0, "an operand's value may be negative"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS)
def test_equal_polynomials_are_equal(x: Both, y: Both, z: Both) -> None:
    a, b, c = x.dim, y.dim, z.dim
    assert a + b == b + a and a * b == b * a
    assert (a + b) + c == a + (b + c) and (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0 and a + 0 == a and a * 1 == a and a * 0 == 0
    assert hash(a * (b + c)) == hash(a * b + a * c)
    assert Dim.call("max", a, b) == Dim.call("max", b, a)
    assert product([a, b, c]) == c * a * b


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS, EXPRESSIONS)
def test_equal_dims_have_equal_values(x: Both, y: Both) -> None:
    pairs = [(p, q) for p, q in zip(x.values, y.values, strict=True) if None not in (p, q)]
    assert x.dim != y.dim or all(p == q for p, q in pairs)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_solving_gives_a_root(e: Both) -> None:
    solved = next(e.dim.solutions(), None)
    if solved is None:
        return
    name, by = solved
    assert name not in by.symbols()
    for sizes in GRID:
        assert e.dim.evaluate({**sizes, name: by.evaluate(sizes)}) == 0


def test_what_folds() -> None:
    a, b = Dim.symbol("d0_0"), Dim.symbol("d0_1")
    assert (a * b * 12) // (b * 4) == a * 3
    assert (a * 6) % 3 == 0 and (a * 6) % 4 != 0
    assert Dim.call("max", a + 2, a) == a + 2 and Dim.call("min", a + 2, a) == a
    assert Dim.call("max", 0, a) == a
    assert (a + b) // 1 == a + b
    assert (
        str(a * b - b * 2 + Dim.call("max", 0, a - 3) + 1)
        == "d0_0*d0_1 - 2*d0_1 + max(0, d0_0 - 3) + 1"
    )


@pytest.mark.parametrize("text", ["", "a +", "a b", "max(a)", "2 * (a", "a $ b", "*a", "a,b"])
def test_text_that_is_no_dim(text: str) -> None:
    with pytest.raises(ValueError, match="not a dim"):
        parse_dim(text)
