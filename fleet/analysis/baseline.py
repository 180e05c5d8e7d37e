"""What a series is compared with: its own last nights, and a level that somebody pinned.

A series is one cell on one host under one protocol and payload; what rolls up many of them is a series as well (see
`rollup`). Values are step medians, or ratios of such: lower is better. A night is one run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.robust import Floats, jitter_rows, median_rows, spread_rows, take_last
from fleet.model.suite import Cell

NIGHTS = 14
"""So many of the last valid nights make the rolling baseline: short enough to follow slow change, which the pinned one
is for, and long enough for a median absolute deviation."""

LEARNING = 7
"""With fewer valid nights there is no verdict."""

MADS = 4.0
"""So many scaled MADs are a suspicion. 3 gives 184 false ones a night in 6,000 cells of 0.8 % noise, 4 and the least
effect give 15 (statistics measured before this was written: noise of Student's t with 4 degrees)."""

AGAIN_MADS = 3.0
"""So many confirm it in a second run: that one is asked about one suspect, not about 6,000 cells. With 4 in both, a
limit that two weeks happen to make wide is in the way twice, and of steps of 5 % in normal noise of 0.8 % only 87.6 %
are found the same night; with 3 it is 91.0 %, at no more false alarms."""

CELL_FLOOR = 0.005
"""A cell scatters by at least this, relative: two weeks can happen to be quiet."""

DRIFT = 0.05
"""Away from the pinned level by more than this, relative, is drift; where the least effect is larger, that counts."""


@dataclass(frozen=True)
class Rules:
    """What sort of series it is. Relative."""

    effect: float
    """The least difference that counts, however sure it is."""
    floor: float = CELL_FLOOR


ONE_GPU = Rules(0.03)
CPU_OR_MANY = Rules(0.05)
"""Processors shared with a system, and devices that wait for each other, scatter more from night to night."""


def choose_rules(measured: Cell) -> Rules:
    """The rules of a cell; the one that was measured, with its number of devices filled in."""
    return ONE_GPU if measured.device == "gpu" and measured.devices == 1 else CPU_OR_MANY


@dataclass(frozen=True)
class Baseline:
    """Arrays of one entry a series; NaN: not known."""

    level: Floats
    """Median of the last valid nights, in the unit of the series."""
    spread: Floats
    """Night to night: 1.4826 × MAD ÷ level, the floor at least. Relative."""
    nights: NDArray[np.int64]
    """How many made the level."""
    limit: Floats
    """From this change on it is a suspicion: the larger of 4 spreads and the least effect. Relative."""
    again_limit: Floats
    """As `limit`, for the second run: 3 spreads, and the least effect."""
    pinned: Floats
    """NaN: nothing is pinned."""
    drift_limit: Floats
    """As `limit`, away from the pinned level."""

    @property
    def learning(self) -> NDArray[np.bool_]:
        return np.asarray(self.nights < LEARNING)


def make_baseline(
    nights: Floats, effect: Floats | float, floor: Floats | float = CELL_FLOOR, pinned: Floats | None = None
) -> Baseline:
    """The baseline for the night after these.

    Args:
        nights: shape (series, nights), oldest first; without those that do not count (`incident.settle`).
        effect: the least difference that counts, one for all or one a series. Relative.
        floor: the least spread, one for all or one a series. Relative.
        pinned: shape (series,).
    """
    last = take_last(nights, NIGHTS)
    level = median_rows(last)
    spread = np.maximum(spread_rows(last, level), floor)
    return Baseline(
        level=level,
        spread=spread,
        nights=np.count_nonzero(~np.isnan(last), axis=1),
        limit=np.maximum(MADS * spread, effect),
        again_limit=np.maximum(AGAIN_MADS * spread, effect),
        pinned=np.full(len(nights), np.nan) if pinned is None else pinned,
        drift_limit=np.maximum(np.maximum(MADS * spread, effect), DRIFT),
    )


def find_detectable(baseline: Baseline, nights: Floats) -> Floats:
    """The smallest change, relative, that would be found and confirmed the same night in nine of ten cases.

    To print beside a cell: one that is noisy is not held to the least effect. Both values, of the run and of the
    re-run, must pass their limits. Where these are the same, each does so in √0.9 of cases: with Student's t of 4
    degrees, a good model of such noise, 1.93 scaled MADs σ beyond it. The level, which two weeks know to
    √(π/2) ÷ √14 = 0.33 σ, makes it 2.0; normal noise needs 1.7. Where the second limit is lower by a spread, the re-run
    is hardly in the way, and a third of σ less will do. Noise is relative, so that it grows with the change.

    Args:
        nights: shape (series, nights), for σ: as many as there are, since that of two weeks is a guess.
    """
    eased = (baseline.limit - baseline.again_limit) / baseline.spread
    beyond = (2.0 - eased / 3) * np.fmax(jitter_rows(nights), 0)
    return np.where(beyond < 1, (baseline.limit + beyond) / (1 - np.fmin(beyond, 0.99)), np.inf)
