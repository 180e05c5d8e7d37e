"""Who is best, and how far a set of hosts spreads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from fleet.model.result import Timing

TIE = 0.005
"""Values this close (relative) are equal: two runs of one machine differ by about as much."""

MAD_TO_SIGMA = 1.4826
"""Scales a median absolute deviation to the standard deviation of a normal distribution: 1 ÷ Φ⁻¹(3/4)."""


@dataclass(frozen=True)
class Spread:
    """A set of hosts in one cell; values are images per second."""

    count: int
    median: float
    lowest: float
    highest: float
    slowest: str
    """The host with the lowest value."""


def find_best(values: Mapping[str, float]) -> frozenset[str]:
    """The keys of the highest value and of those within `TIE` of it; empty when there is nothing to compare."""
    if len(values) < 2:
        return frozenset()
    highest = max(values.values())
    return frozenset(key for key, value in values.items() if value >= highest * (1 - TIE))


def summarise(values: Mapping[str, float]) -> Spread | None:
    """Median, extremes and the slowest host of `alias → images/s`; None when there are no values."""
    if not values:
        return None
    slowest = min(values, key=lambda alias: (values[alias], alias))
    return Spread(len(values), median(values.values()), values[slowest], max(values.values()), slowest)


def relative_spread(timing: Timing) -> float | None:
    """How far the step times scatter: robust standard deviation (1.4826 × MAD) ÷ median. A ratio; None if not known."""
    middle = timing.quantiles_us.get("p50")
    return MAD_TO_SIGMA * timing.mad_us / middle if middle else None
