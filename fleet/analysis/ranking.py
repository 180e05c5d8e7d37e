"""Who is best, and how far a set of hosts spreads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Estimate:
    """A rate and how sure it is, in images per second."""

    value: float
    low: float
    high: float

    def tells_from(self, other: Estimate) -> bool:
        """Whether the two differ: their intervals lie apart, and the values by more than `TIE`."""
        apart = self.low > other.high or other.low > self.high
        return apart and abs(self.value - other.value) > TIE * max(self.value, other.value)


def estimate_rate(images_per_s: float, timing: Timing | None) -> Estimate:
    """A cell's rate with the 95 % interval of its median step, widened to the medians of both halves of its steps.

    The interval takes the steps for independent; a clock that sinks or a neighbour that wakes shows in the halves. With
    r = second ÷ first, and their geometric mean at the median, the halves lie at √r and 1/√r of it.
    """
    middle = timing.quantiles_us.get("p50") if timing else None
    if timing is None or not middle or middle <= 0:
        return Estimate(images_per_s, images_per_s, images_per_s)
    drift = math.sqrt(timing.halves_ratio) if timing.halves_ratio > 0 else 1.0
    shortest = min(timing.ci95_us[0], middle * min(drift, 1 / drift))
    longest = max(timing.ci95_us[1], middle * max(drift, 1 / drift))
    high = images_per_s * middle / shortest if shortest > 0 else math.inf
    return Estimate(images_per_s, images_per_s * middle / longest, high)


def estimate_median(estimates: Sequence[Estimate]) -> Estimate | None:
    """The median of several hosts, with its 95 % interval; None when there are none.

    The interval runs between the order statistics of rank n/2 ∓ 0.98 √n (Campbell and Gardner, BMJ 296, 1988, 1454); up
    to five hosts have no such ranks: from the lowest to the highest.
    """
    if not estimates:
        return None
    count = len(estimates)
    outside = max(0, round(count / 2 - 0.98 * math.sqrt(count)) - 1)
    low = sorted(estimate.low for estimate in estimates)[outside]
    high = sorted(estimate.high for estimate in estimates)[count - 1 - outside]
    return Estimate(median(estimate.value for estimate in estimates), low, high)


def find_best(estimates: Mapping[str, Estimate]) -> frozenset[str]:
    """The keys of the highest value and of those that cannot be told from it; empty when that is all of them."""
    if len(estimates) < 2:
        return frozenset()
    highest = max(estimates.values(), key=lambda estimate: estimate.value)
    best = frozenset(key for key, estimate in estimates.items() if not highest.tells_from(estimate))
    return best if len(best) < len(estimates) else frozenset()


def summarise(values: Mapping[str, float]) -> Spread | None:
    """Median, extremes and the slowest host of `alias → images/s`; None when there are no values."""
    if not values:
        return None
    slowest = min(values, key=lambda alias: (values[alias], alias))
    return Spread(len(values), median(values.values()), values[slowest], max(values.values()), slowest)


def relative_spread(timing: Timing) -> float | None:
    """How far the step times scatter: robust standard deviation (1.4826 × MAD) ÷ median. A ratio; None if not known."""
    middle = timing.quantiles_us.get("p50")
    return MAD_TO_SIGMA * timing.mad_us / middle if middle and middle > 0 else None
