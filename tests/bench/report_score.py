"""How many planted faults a rule finds, and what it says where nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.robust import Floats
from tests.bench.report_play import Played
from tests.bench.report_year import SETTLED, Fault, FaultKind, Year


@dataclass(frozen=True)
class Score:
    """Shares are of 1. None: the rule has no answer to this."""

    rule: str
    steps: float
    """Found on their first night, after the re-run where the rule has one."""
    drifts: float
    """Found between their first night and the end of the year."""
    flat: float
    """As many series without a fault, over the same nights, of which it says the same."""
    hosts: float | None
    cohorts: float | None
    slow: float | None
    """Nights on which the slow hosts are found among their likes."""
    slow_cells: float | None
    """As `slow`, by each of their cells alone."""
    false_alarms: float
    """A night, all levels together."""
    reruns: float
    """Cells measured again, a night."""


def score_fleet(year: Year, played: Played) -> Score:
    lab, changed = year.lab, _list_changed(year)
    cells, hosts, cohorts = (set(track.opened) for track in (played.cells, played.hosts, played.cohorts))
    slow_hosts = [fault.rows[0] // lab.cells for fault in _list_faults(year, FaultKind.SLOW)]
    up = ~np.isnan(year.times_us[:: lab.cells])  # a host is up or down with all its cells
    struck = {fault.rows[0] // lab.cells for fault in _list_faults(year, FaultKind.HOST)}
    shifted = set(range(lab.cells // 6))  # the series of the first cohort come first
    others = np.delete(played.slow, slow_hosts, axis=0)
    begun = others[:, SETTLED:] & ~others[:, SETTLED - 1 : -1]
    false = sum(
        _count_false(*told) for told in ((cells, changed), (hosts, struck), (cohorts, shifted))
    ) + np.count_nonzero(begun)
    on_time = [
        (_find_onset(f, year.times_us), f.rows[0] // lab.cells) in hosts for f in _list_faults(year, FaultKind.HOST)
    ]
    shifts = [(fault.first, fault.rows[0] % lab.cells) in cohorts for fault in _list_faults(year, FaultKind.COHORT)]
    return Score(
        rule="fleet",
        steps=_share(_find_steps(year, cells)),
        **_find_drifts(year, cells),
        hosts=_share(on_time),
        cohorts=_share(shifts),
        slow=float(played.slow[slow_hosts][up[slow_hosts]].mean()),
        slow_cells=float(np.mean([played.slow_cells[host][:, up[host]].mean() for host in slow_hosts])),
        false_alarms=float(false / (lab.nights - SETTLED)),
        reruns=played.cells.reruns / lab.nights,
    )


def score_flags(rule: str, year: Year, flags: NDArray[np.bool_]) -> Score:
    """Args: flags: shape (series, nights)."""
    told = {(int(night), int(row)) for row, night in zip(*np.nonzero(flags), strict=True)}
    return Score(
        rule=rule,
        steps=_share(_find_steps(year, told)),
        **_find_drifts(year, told),
        hosts=None,
        cohorts=None,
        slow=None,
        slow_cells=None,
        false_alarms=_count_false(told, _list_changed(year)) / (year.lab.nights - SETTLED),
        reruns=0,
    )


def _find_steps(year: Year, told: set[tuple[int, int]]) -> list[bool]:
    steps = _list_faults(year, FaultKind.STEP)
    return [(_find_onset(fault, year.times_us), fault.rows[0]) in told for fault in steps]


def _find_drifts(year: Year, told: set[tuple[int, int]]) -> dict[str, float]:
    """`drifts` and `flat` of a score."""
    faults = _list_faults(year, FaultKind.DRIFT)
    quiet = sorted(set(range(len(year.times_us))) - {row for fault in year.faults for row in fault.rows})
    nights: dict[int, list[int]] = {}
    for night, row in told:
        nights.setdefault(row, []).append(night)

    def is_told(row: int, first: int) -> bool:
        return any(night >= first for night in nights.get(row, ()))

    return {
        "drifts": _share([is_told(fault.rows[0], fault.first) for fault in faults]),
        "flat": _share([is_told(row, fault.first) for fault in faults for row in quiet]),
    }


def _find_onset(fault: Fault, times_us: Floats) -> int | None:
    """The first night on which it could be seen: its host was up. None: there was none."""
    measured = np.flatnonzero(~np.isnan(times_us[fault.rows[0], fault.first : fault.end]))
    return fault.first + int(measured[0]) if len(measured) else None


def _list_faults(year: Year, kind: FaultKind) -> list[Fault]:
    return [fault for fault in year.faults if fault.kind is kind]


def _list_changed(year: Year) -> set[int]:
    """Series of which something may be said. A cohort's shift of 1 % is none of a cell; a slow host never changed."""
    kinds = {FaultKind.STEP, FaultKind.DRIFT, FaultKind.HOST}
    return {row for fault in year.faults if fault.kind in kinds for row in fault.rows}


def _count_false(told: Iterable[tuple[int, int]], expected: set[int]) -> int:
    return sum(night >= SETTLED and row not in expected for night, row in told)


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found) if found else float("nan")
