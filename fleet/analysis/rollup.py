"""Many series as one: a host's cells, and one cell on identical hosts.

A shift of 1 or 2 % that drowns in the noise of a cell stands out in the median of fifty, and what moves many series has
one cause and is worth one line. A rolled-up series is a series like others, of ratios around 1: `baseline`, `judgement`
and `incident` hold for it with rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.baseline import Rules
from fleet.analysis.robust import Floats, median_rows

HOST = Rules(effect=0.0125, floor=0.0035)
"""All cells of a host. +2 % is found in 96 % of nights at 0.2 false alarms a night on 100 hosts, each with 0.3 % of
noise of its own."""

COHORT = Rules(effect=0.006, floor=0.001)
"""One cell on all hosts of a cohort. On 50 hosts +1 % is found in 99 % of nights at less than one false alarm in 300
nights of 120 such series."""

LEAST = 8
"""Fewer members are no group: with spikes in 2 % of nights, four of 1,500 groups of four stand out every night."""


def roll_up(nights: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """How every group did every night: the median over its members of value ÷ the member's usual value.

    The usual value is the member's median over all nights given: any constant serves, since only changes are judged.
    Nights on which fewer than half of the members were measured, or fewer than eight, are NaN.

    Args:
        nights: shape (series, nights).
        groups: row numbers of each group's members.

    Returns: shape (groups, nights).
    """
    logs = np.log(nights / median_rows(nights)[:, None])
    rolled = np.full((len(groups), nights.shape[1]), np.nan)
    for row, members in enumerate(groups):
        of_night = logs[members].T
        count = np.count_nonzero(~np.isnan(of_night), axis=1)
        enough = count >= max(LEAST, len(members) / 2)
        rolled[row] = np.where(enough, np.exp(median_rows(of_night)), np.nan)
    return rolled


def expect_spread(spreads: Floats, groups: Sequence[NDArray[np.intp]], rules: Rules) -> Floats:
    """The least spread of each rolled-up series, relative: two weeks say little of how far a median of few scatters.

    The median of n independent members has the standard deviation √(π/2) ÷ √n of theirs (normal noise, n not small); a
    quarter more for what they have in common.

    Args:
        spreads: shape (series,), of the members (`Baseline.spread`).
    """
    usual = np.array([np.nanmedian(spreads[members]) for members in groups])
    sizes = np.array([len(members) for members in groups])
    expected: Floats = np.fmax(1.25 * np.sqrt(np.pi / 2 / sizes) * usual, rules.floor)
    return expected
