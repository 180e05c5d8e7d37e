"""A night's verdict on many series: threshold, least effect, and a second run that agrees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.baseline import Baseline
from fleet.analysis.robust import Floats, median_rows, take_last

DRIFT_NIGHTS = 3
"""The median of so many nights is held against the pinned level."""

Signs = NDArray[np.int8]
"""1: slower, −1: faster, 0: neither."""


class SeriesVerdict(StrEnum):
    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    INCOMPARABLE = "incomparable"
    """It was not measured by the same protocol and payload: see `comparison`."""
    LEARNING = "learning"
    """Fewer nights than a baseline needs."""
    MIXED = "mixed"
    """Of many cells: some went one way and others did not, so that nothing is to be said of all."""


@dataclass(frozen=True)
class Judgement:
    """One night; arrays of one entry a series. Changes are relative: 0.05 is 5 % slower. NaN: cannot be said."""

    baseline: Baseline
    change: Floats
    """Against the rolling level."""
    drift: Floats
    """Of the last three nights' median, this one included, against the pinned level."""
    step: Signs
    """Beyond the rolling limit."""
    drifted: Signs
    """Beyond the limit around the pinned level: the three nights' median and tonight's value by itself."""
    before: Signs
    """As `step`, of the night before."""
    unsure: NDArray[np.bool_]
    """After a second run: it agrees, and is of another size. To be measured a third time."""

    @property
    def suspect(self) -> NDArray[np.bool_]:
        """To be measured again tonight, in a fresh container."""
        return np.asarray((self.step != 0) | (self.drifted != 0))

    @property
    def mads(self) -> Floats:
        """The change in spreads of the series."""
        return self.change / self.baseline.spread

    @property
    def step_settled(self) -> NDArray[np.bool_]:
        """Within half the limit: so an incident does not end, and open again, by noise."""
        return np.asarray(np.abs(self.change) < self.baseline.limit / 2)

    @property
    def drift_settled(self) -> NDArray[np.bool_]:
        """As `step_settled`, around the pinned level."""
        return np.asarray(np.abs(self.drift) < self.baseline.drift_limit / 2)

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """A `SeriesVerdict` each; empty: not measured tonight."""
        sign = np.where(self.step != 0, self.step, self.drifted)
        words = [SeriesVerdict.LEARNING.value, "", SeriesVerdict.WORSE.value, SeriesVerdict.BETTER.value]
        learning = self.baseline.learning & np.isnan(self.drift)
        unmeasured = np.isnan(self.change) & np.isnan(self.drift) & ~learning
        return np.select([learning, unmeasured, sign > 0, sign < 0], words, SeriesVerdict.SAME.value)


def judge(baseline: Baseline, nights: Floats) -> Judgement:
    """Suspicions, to be confirmed.

    Args:
        nights: shape (series, nights), the last column is the one to judge; three are enough. NaN: not measured.
    """
    tonight = nights[:, -1]
    change = np.where(baseline.learning, np.nan, tonight / baseline.level - 1)
    recent = median_rows(take_last(nights, DRIFT_NIGHTS))
    drift = np.where(np.isnan(tonight), np.nan, recent / baseline.pinned - 1)
    return Judgement(
        baseline=baseline,
        change=change,
        drift=drift,
        step=_sign_beyond(change, baseline.limit),
        drifted=_agree(
            _sign_beyond(drift, baseline.drift_limit), _sign_beyond(tonight / baseline.pinned - 1, baseline.drift_limit)
        ),
        before=_sign_beyond(nights[:, -2] / baseline.level - 1, baseline.limit),
        unsure=np.zeros(len(nights), dtype=np.bool_),
    )


def confirm(judgement: Judgement, again: Floats, known: NDArray[np.bool_] | None = None) -> Judgement:
    """What is left of the suspicions when the suspects were measured again.

    A suspicion stays where every further value is beyond its own limit on the same side. For a step the two must be
    alike, too: two chance disturbances in one night are rarely of a size. Where they are not it is `unsure`, and a
    third run says whether it was one disturbance on top of a step. A machine that is slow by another amount every time
    is confirmed by the night before.

    Measured, 6,000 cells of 0.8 % noise of which 2 % have a spike, in every run anew: 146 suspicions a night, 3.1 where
    any second value will do, 2.0 so; the third run is for one cell a night. A step of 5 % is confirmed the same night
    in 95 % of cases; where noise is normal, and so two weeks' MAD larger, in 91 %.

    Args:
        again: shape (series, runs), one or two of them; NaN: there was no such run. The first confirms nothing if NaN.
        known: series whose incident is open, which need no second run.
    """
    baseline = judgement.baseline
    second, third = again[:, 0] / baseline.level - 1, again[:, -1] / baseline.level - 1
    third = np.where(np.isnan(third), second, third)
    limit = baseline.again_limit
    step = _agree(judgement.step, _sign_beyond(second, limit), _sign_beyond(third, limit))
    alike = _are_alike(judgement.change, second) | (judgement.before == judgement.step)
    alike |= (again.shape[1] > 1) & ~np.isnan(again[:, -1])
    unsure = (step != 0) & ~alike
    step = np.where(alike, step, 0).astype(np.int8)
    drifted = _agree(judgement.drifted, _sign_beyond(again[:, 0] / baseline.pinned - 1, baseline.drift_limit))
    if known is not None:
        step, drifted = np.where(known, judgement.step, step), np.where(known, judgement.drifted, drifted)
        unsure &= ~known
    return replace(judgement, step=step, drifted=drifted, unsure=unsure)


def uphold(judgement: Judgement, suspected: Judgement, known: NDArray[np.bool_]) -> Judgement:
    """What this run confirms of what the one before it was suspected of, where nothing is measured twice in a night.

    Only what was a suspicion then, by the baseline of then: a value from before there was one, or within its limit, has
    suspected nothing. Asked about one suspect, 3 spreads suffice now, if both are alike; 4 need not be.

    Args:
        suspected: the judgement of the run before; a subject that was not measured in it, of the last that did.
        known: series whose incident is open, which need no confirmation.
    """
    baseline = judgement.baseline
    step = _agree(suspected.step, _sign_beyond(judgement.change, baseline.again_limit))
    alike = _are_alike(judgement.change, suspected.change) | (judgement.step == step)
    step = np.where(known, judgement.step, np.where(alike, step, 0)).astype(np.int8)
    drifted = np.where(known, judgement.drifted, _agree(suspected.drifted, judgement.drifted))
    return replace(judgement, step=step, drifted=drifted)


def _are_alike(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Neither is more than twice the other."""
    sizes = np.abs(np.stack([first, second]))
    return np.asarray(sizes.max(axis=0) <= 2 * sizes.min(axis=0))


def _sign_beyond(change: Floats, limit: Floats) -> Signs:
    return np.where(np.abs(change) > limit, np.sign(change), 0).astype(np.int8)


def _agree(first: Signs, *others: Signs) -> Signs:
    same = np.all([first == other for other in others], axis=0)
    return np.where(same, first, 0).astype(np.int8)
