"""Machine against machine, run against run: one figure from many cells, and what must not be compared."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from fleet.analysis.baseline import choose_rules
from fleet.analysis.fingerprint import Difference, Fingerprint, diff_fingerprints
from fleet.analysis.judgement import SeriesVerdict
from fleet.analysis.ranking import TIE
from fleet.analysis.robust import Floats
from fleet.analysis.verdict import is_measured
from fleet.model.result import CellResult

Key = TypeVar("Key", bound=Hashable)

RESAMPLES = 2000


@dataclass(frozen=True)
class Measured:
    """One cell's value, and what it may be compared with."""

    cell_id: str
    """Of the cell as it was measured, with its batch size and devices filled in."""
    step_us: float
    """Median."""
    protocol: int
    payload_sha256: str
    fingerprint: Fingerprint
    effect: float
    """The least difference that counts for such a cell. Relative."""


@dataclass(frozen=True)
class Refusal:
    """Two values of one key that are not of the same thing."""

    field: str
    """`cell`, `protocol` or `payload`."""
    left: str
    right: str


@dataclass(frozen=True)
class Comparison(Generic[Key]):
    """Ratios are of times, right ÷ left: 0.5 is twice as fast."""

    ratios: Mapping[Key, float]
    """Key → ratio, of the pairs that could be compared."""
    effects: Mapping[Key, float]
    """Of the same pairs, the least difference that counts. Relative."""
    ratio: float | None
    """Their geometric mean; None: there are none."""
    interval: tuple[float, float] | None
    """95 %, over cells: how far another choice of cells like these might move it. None: fewer than three pairs."""
    total: int
    """Keys measured on either side; n of total is the coverage."""
    refused: Mapping[Key, Refusal]
    differences: Mapping[Difference, int]
    """What of the fingerprints differs, first suspect first, and in how many of the pairs."""

    @property
    def count(self) -> int:
        return len(self.ratios)

    @property
    def verdict(self) -> SeriesVerdict:
        """Incomparable without a pair; better or worse where the interval lies on one side of 1 and the figure is away
        from it by more than two runs of one machine are (`ranking.TIE`); the same where it lies closer to 1 than what
        counts for a cell; else mixed. Too few pairs for an interval are judged each by itself: what does not say that
        they are the same never passes for it."""
        if self.ratio is None:
            return SeriesVerdict.INCOMPARABLE
        if self.interval is None:
            moved = {self.judge(key) for key in self.ratios} - {SeriesVerdict.SAME}
            return SeriesVerdict.MIXED if len(moved) > 1 else next(iter(moved), SeriesVerdict.SAME)
        low, high = self.interval
        if not low <= 1 <= high and abs(math.log(self.ratio)) > TIE:
            return SeriesVerdict.WORSE if self.ratio > 1 else SeriesVerdict.BETTER
        least = max(self.effects.values())
        return SeriesVerdict.SAME if 1 - least <= low and high <= 1 + least else SeriesVerdict.MIXED

    def judge(self, key: Key) -> SeriesVerdict:
        """The verdict on one pair, by the rates as tables show them."""
        change = 1 / self.ratios[key] - 1
        if abs(change) <= self.effects[key]:
            return SeriesVerdict.SAME
        return SeriesVerdict.BETTER if change > 0 else SeriesVerdict.WORSE


def read_measured(cell: CellResult, fingerprint: Fingerprint) -> Measured | None:
    """None: the cell has no value."""
    middle = cell.timing.quantiles_us.get("p50") if cell.timing else None
    if not is_measured(cell) or not middle or middle <= 0:
        return None
    effect = choose_rules(cell.measured).effect
    return Measured(cell.measured.id, middle, cell.protocol, cell.payload_sha256, fingerprint, effect)


def find_refusal(left: Measured, right: Measured) -> Refusal | None:
    """Why two values are not to be compared; None: they may be.

    Another protocol measures something else, another payload may; neither is crossed in silence.
    """
    if left.cell_id != right.cell_id:
        return Refusal("cell", left.cell_id, right.cell_id)
    if left.protocol != right.protocol:
        return Refusal("protocol", str(left.protocol), str(right.protocol))
    if left.payload_sha256 != right.payload_sha256:
        return Refusal("payload", left.payload_sha256[:12], right.payload_sha256[:12])
    return None


def compare(left: Mapping[Key, Measured], right: Mapping[Key, Measured], seed: int = 0) -> Comparison[Key]:
    """Compare what both sides measured under the same key.

    The geometric mean is the one of ratios that does not depend on which side is the base (Fleming and Wallace,
    Commun. ACM 29, 1986, 218). The interval is the percentile bootstrap over pairs.

    Args:
        left: the base. Machine against machine: planned cell id → value; run against run: (alias, planned cell id).
    """
    ratios: dict[Key, float] = {}
    refused: dict[Key, Refusal] = {}
    counts: dict[Difference, int] = {}
    for key in (key for key in left if key in right):
        if refusal := find_refusal(left[key], right[key]):
            refused[key] = refusal
            continue
        ratios[key] = right[key].step_us / left[key].step_us
        for difference in diff_fingerprints(left[key].fingerprint, right[key].fingerprint):
            counts[difference] = counts.get(difference, 0) + 1
    logs = np.log(np.array(list(ratios.values()), dtype=np.float64))
    return Comparison(
        ratios=ratios,
        effects={key: max(left[key].effect, right[key].effect) for key in ratios},
        ratio=float(np.exp(logs.mean())) if len(logs) else None,
        interval=_bootstrap(logs, seed) if len(logs) >= 3 else None,
        total=len({*left, *right}),
        refused=refused,
        differences=dict(sorted(counts.items(), key=lambda entry: -entry[1])),
    )


def _bootstrap(logs: Floats, seed: int) -> tuple[float, float]:
    drawn = np.random.default_rng(seed).integers(0, len(logs), (RESAMPLES, len(logs)))
    low, high = np.quantile(logs[drawn].mean(axis=1), [0.025, 0.975])
    return float(np.exp(low)), float(np.exp(high))
