"""Sizes known only at run time, as expressions in a canonical form.

A `Dim` is a polynomial with integer coefficients over atoms. An atom is a symbol
(a size or an integer operand of the call) or a function of dims that does not
expand: floordiv, mod, max, min. Two dims that are the same polynomial are equal;
two that differ may still be equal at run time, which is what guards are for.

All arithmetic is that of 64-bit integers. Text round-trips: ``parse_dim(str(d)) == d``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Union

DimLike = Union["Dim", int]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named unknown: a size or an integer operand of the call."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """A function of two dims that the polynomial form cannot hold."""

    function: str
    left: Dim
    right: Dim

    def __str__(self) -> str:
        return f"{self.function}({self.left}, {self.right})"


Atom = Symbol | Call
Monomial = tuple[Atom, ...]

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
}


def _order(atom: Atom) -> str:
    return str(atom)


class Dim:
    """An immutable size expression. Hashable; equal when the canonical forms are the same."""

    __slots__ = ("_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        kept = [(m, c) for m, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda t: (-len(t[0]), [str(a) for a in t[0]]))
        self.terms = tuple(kept)
        self._hash = hash(self.terms)

    # -- making -------------------------------------------------------------
    @staticmethod
    def const(value: int) -> Dim:
        return _const(value)

    @staticmethod
    def symbol(name: str) -> Dim:
        return Dim({(Symbol(name),): 1})

    @staticmethod
    def call(function: str, left: DimLike, right: DimLike) -> Dim:
        """`function` of two dims, folded where both are known."""
        a, b = as_dim(left), as_dim(right)
        x, y = a.value, b.value
        if x is not None and y is not None:
            return _const(FUNCTIONS[function](x, y))
        if function in ("max", "min"):
            if a == b:
                return a
            difference = (a - b).value
            if difference is not None:
                return a if (difference > 0) == (function == "max") else b
            if y is not None and function == "max" and a.lower_bound >= y:
                return a
            if x is not None and function == "max" and b.lower_bound >= x:
                return b
            if str(b) < str(a):
                a, b = b, a
        if function == "floordiv":
            if y == 1:
                return a
            exact = _divide_exactly(a, b)
            if exact is not None:
                return exact
        if function == "mod" and (y == 1 or _divide_exactly(a, b) is not None):
            return _const(0)
        return Dim({(Call(function, a, b),): 1})

    # -- reading ------------------------------------------------------------
    @property
    def value(self) -> int | None:
        """The number, where the dim is one."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def is_one(self) -> bool:
        return self.value == 1

    @property
    def lower_bound(self) -> int:
        """A number that the dim is never below, given that symbols are sizes (>= 0)."""
        total = 0
        for monomial, coefficient in self.terms:
            if not monomial:
                total += coefficient
            elif coefficient < 0 or not all(_never_negative(a) for a in monomial):
                return -(2**62)
        return total

    def symbols(self) -> set[str]:
        """Names of all symbols in it, those inside calls included."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom.name)
                else:
                    found |= atom.left.symbols() | atom.right.symbols()
        return found

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Its value under an assignment of all its symbols."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                if isinstance(atom, Symbol):
                    product *= sizes[atom.name]
                else:
                    product *= FUNCTIONS[atom.function](
                        atom.left.evaluate(sizes), atom.right.evaluate(sizes)
                    )
            total += product
        return total

    def solutions(self) -> Iterator[tuple[str, Dim]]:
        """For ``self == 0``: each symbol that stands alone with factor 1 or -1, and what it equals."""
        for monomial, coefficient in self.terms:
            if len(monomial) == 1 and isinstance(monomial[0], Symbol) and coefficient in (1, -1):
                rest = Dim({m: c for m, c in self.terms if m != monomial})
                if monomial[0].name not in rest.symbols():
                    yield monomial[0].name, rest * -coefficient

    # -- arithmetic ---------------------------------------------------------
    def __add__(self, other: DimLike) -> Dim:
        other = as_dim(other)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Dim(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: DimLike) -> Dim:
        return self + (as_dim(other) * -1)

    def __rsub__(self, other: DimLike) -> Dim:
        return as_dim(other) - self

    def __mul__(self, other: DimLike) -> Dim:
        other = as_dim(other)
        if other.is_one:
            return self
        if self.is_one:
            return other
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                monomial = tuple(sorted(m1 + m2, key=_order)) if m1 and m2 else m1 or m2
                terms[monomial] = terms.get(monomial, 0) + c1 * c2
        return Dim(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> Dim:
        return Dim.call("floordiv", self, other)

    def __mod__(self, other: DimLike) -> Dim:
        return Dim.call("mod", self, other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.terms == other.terms
        if isinstance(other, int):
            return self.value == other
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    # -- text ---------------------------------------------------------------
    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [str(a) for a in monomial]
            if not factors or abs(coefficient) != 1:
                factors.insert(0, str(abs(coefficient)))
            text = "*".join(factors)
            if coefficient < 0:
                parts.append(f"- {text}" if parts else f"-{text}")
            else:
                parts.append(f"+ {text}" if parts else text)
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Dim({self})"


def _never_negative(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return not atom.name.startswith("v")  # "v" symbols are operand values, of either sign
    left, right = atom.left.lower_bound, atom.right.lower_bound
    if atom.function == "max":
        return left >= 0 or right >= 0
    if atom.function == "mod":
        return right >= 0
    return left >= 0 and right >= 0


def _divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """a / b where b is one term that divides every term of a, else None."""
    if len(b.terms) != 1:
        return None
    # x*y floordiv x is y only where x is not 0; whoever divides by a size guards it.
    return _cancel(a, *b.terms[0])


def _cancel(a: Dim, divisor: Monomial, factor: int) -> Dim | None:
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in a.terms:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        terms[tuple(rest)] = coefficient // factor
    return Dim(terms)


@lru_cache(maxsize=4096)
def _const(value: int) -> Dim:
    return Dim({(): value})


def as_dim(value: DimLike) -> Dim:
    """An int or a Dim as a Dim."""
    return value if isinstance(value, Dim) else _const(int(value))


def divided_up(count: DimLike, size: DimLike) -> Dim:
    """How many parts of `size` (at least 1) hold `count`: the quotient, rounded up."""
    return (as_dim(count) + (as_dim(size) - 1)) // size


def rounded_up(count: DimLike, step: DimLike) -> Dim:
    """The least multiple of `step` (at least 1) that is no less than `count`."""
    return divided_up(count, step) * step


def product(dims: Iterable[DimLike]) -> Dim:
    """The product of sizes; 1 for none."""
    result = _const(1)
    for dim in dims:
        result = result * dim
    return result


# -- parsing --------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(.))")


def parse_dim(text: str) -> Dim:
    """The inverse of ``str(dim)``. Raises ValueError with the text on anything else."""
    tokens: list[str] = []
    for number, name, sign in _TOKEN.findall(text):
        token = number or name or sign
        if token.strip():
            tokens.append(token)
    position = 0

    def peek() -> str:
        return tokens[position] if position < len(tokens) else ""

    def take(expected: str = "") -> str:
        nonlocal position
        token = peek()
        if not token or (expected and token != expected):
            raise ValueError(f"not a dim: {text!r} (expected {expected or 'more'} at {token!r})")
        position += 1
        return token

    def factor() -> Dim:
        token = take()
        if token == "(":
            inner = total()
            take(")")
            return inner
        if token.isdigit():
            return _const(int(token))
        if token in FUNCTIONS:
            take("(")
            left = total()
            take(",")
            right = total()
            take(")")
            return Dim.call(token, left, right)
        if not (token[0].isalpha() or token[0] == "_"):
            raise ValueError(f"not a dim: {text!r} (at {token!r})")
        return Dim.symbol(token)

    def term() -> Dim:
        result = factor()
        while peek() == "*":
            take()
            result = result * factor()
        return result

    def total() -> Dim:
        negative = peek() == "-"
        if negative:
            take()
        result = -term() if negative else term()
        while peek() in ("+", "-"):
            sign = take()
            other = term()
            result = result + other if sign == "+" else result - other
        return result

    result = total()
    if position != len(tokens):
        raise ValueError(f"not a dim: {text!r} (left over: {' '.join(tokens[position:])})")
    return result
