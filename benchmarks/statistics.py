"""Numbers that stand for many times: order statistics, ratios of medians, geometric means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear between the two nearest of the sorted values. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values: nothing was measured")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Summary:
    """Order statistics of times, in the unit of what was given."""

    count: int
    minimum: float
    first_quartile: float
    median: float
    third_quartile: float
    maximum: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Raises ValueError if there are no values."""
        return cls(
            len(values),
            percentile(values, 0),
            percentile(values, 25),
            percentile(values, 50),
            percentile(values, 75),
            percentile(values, 100),
        )

    def as_ms(self) -> dict[str, float]:
        """Seconds to the fields of a result, in milliseconds."""
        return {
            "calls": self.count,
            "min_ms": self.minimum * 1e3,
            "q1_ms": self.first_quartile * 1e3,
            "median_ms": self.median * 1e3,
            "q3_ms": self.third_quartile * 1e3,
            "max_ms": self.maximum * 1e3,
        }


def net(whole: float, empty: float) -> float | None:
    """What is left after an empty graph's time is taken off; None if that is not positive.

    Then the work is below what can be told from a call's own cost, and no ratio of it means a thing.
    """
    return whole - empty if whole > empty else None


def ratio(other: float | None, own: float | None) -> float | None:
    """How many times faster `own` is than `other`; None where one of them is not known."""
    return other / own if other is not None and own else None


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of no values. Raises ValueError if one is not positive."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None
