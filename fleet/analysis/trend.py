"""How every series has gone: its last value against the nights before, what could be found in it, where it changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleet.analysis.baseline import LEARNING, Rules, find_detectable, make_baseline
from fleet.analysis.changepoint import ChangePoint, find_changes
from fleet.analysis.history import find_last
from fleet.analysis.incident import Incident, settle
from fleet.analysis.robust import Floats


@dataclass(frozen=True)
class Trend:
    """One series. Changes are of times, relative: 0.05 is 5 % slower."""

    nights: tuple[float | None, ...]
    """Median steps, in microseconds; None: not measured, or not to be compared with the last one."""
    last: int
    """The night of the last value."""
    count: int
    """Nights that made the baseline."""
    change: float | None
    """Of the last value against the rolling baseline; None: it is still learning."""
    limit: float | None
    """From this change on it is a suspicion."""
    detectable: float | None
    """What would be found at least, for certain; None: not known, or nothing."""
    changes: tuple[ChangePoint, ...]


def find_trends(
    nights: Floats, rules: Sequence[Rules], run_ids: Sequence[str], incidents: Iterable[tuple[int, Incident]]
) -> tuple[Trend | None, ...]:
    """The trend of every series; None: it has no value.

    Args:
        nights: as `history.align_nights` gives them.
        rules: one a series.
        run_ids: one a night.
        incidents: row and incident, as for `incident.settle`: a baseline does not follow what is an open incident.
    """
    if nights.size == 0:
        return (None,) * len(nights)
    rows, last = np.arange(len(nights)), find_last(nights)
    before = nights.copy()
    before[rows, last] = np.nan
    before, _ = settle(before, np.full(len(nights), np.nan), run_ids, incidents)
    effect, floor = (np.array([getattr(rule, name) for rule in rules]) for name in ("effect", "floor"))
    baseline = make_baseline(before, effect, floor)
    change = nights[rows, last] / baseline.level - 1
    detectable = find_detectable(baseline, nights)
    learning = baseline.nights < LEARNING
    return tuple(
        None
        if math.isnan(nights[row, last[row]])
        else Trend(
            nights=tuple(None if math.isnan(value) else value for value in nights[row].tolist()),
            last=int(last[row]),
            count=int(baseline.nights[row]),
            change=None if learning[row] else float(change[row]),
            limit=None if learning[row] else float(baseline.limit[row]),
            detectable=float(detectable[row]) if not learning[row] and np.isfinite(detectable[row]) else None,
            changes=find_changes(nights[row]),
        )
        for row in rows.tolist()
    )
