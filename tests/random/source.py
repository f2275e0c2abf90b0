"""Where choices come from: hypothesis, or a plain generator of random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Source:
    """Choices. `integer(low, high)` draws one number, both ends included."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def of(self, items: Sequence[T]) -> T:
        """One of the items; ValueError if there is none."""
        if not items:
            raise ValueError("nothing to choose from")
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        """True that often."""
        return self.integer(0, 99) >= 100 - percent

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Between 0 and `most` of the items, in their order, none twice."""
        left, result = list(range(len(items))), []
        for _ in range(min(most, len(items))):
            if self.chance(60):
                result.append(left.pop(self.integer(0, len(left) - 1)))
        return [items[i] for i in sorted(result)]


def from_hypothesis(draw: Callable[[Any], Any]) -> Source:
    """Choices of a generator that hypothesis draws.

    Hypothesis's own integers favour the ends of a range and what it drew before, which is for shrinking; here a third of the
    graphs came out nearly empty. Recipes are cut by `shrink.py` instead.
    """
    return Source(draw(st.randoms(use_true_random=True)).randint)


def from_seed(seed: int) -> Source:
    """Choices of a seed."""
    return Source(random.Random(seed).randint)
