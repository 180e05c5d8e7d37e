"""How many planted faults a rule finds, and what it says where nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.finding import Level
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
    lab = year.lab
    slow_hosts = [fault.rows[0] // lab.cells for fault in _list_faults(year, FaultKind.SLOW)]
    up = ~np.isnan(year.times_us[:: lab.cells])  # a host is up or down with all its cells
    others = np.delete(played.slow, slow_hosts, axis=0)
    begun = others[:, SETTLED:] & ~others[:, SETTLED - 1 : -1]
    tracks = {Level.CELL: played.cells, Level.HOST: played.hosts, Level.COHORT: played.cohorts}
    told = score_told("fleet", year, {level: set(track.opened) for level, track in tracks.items()})
    return replace(
        told,
        slow=float(played.slow[slow_hosts][up[slow_hosts]].mean()),
        slow_cells=float(np.mean([played.slow_cells[host][:, up[host]].mean() for host in slow_hosts])),
        false_alarms=told.false_alarms + float(np.count_nonzero(begun) / (lab.nights - SETTLED)),
        reruns=played.cells.reruns / lab.nights,
    )


def score_told(rule: str, year: Year, told: Mapping[Level, set[tuple[int, int]]], later: int = 0) -> Score:
    """Of what was told in nights: found is what was told so many measured nights after the first.

    Args:
        told: night and row.
    """
    lab = year.lab
    expected = {
        Level.CELL: _list_changed(year),
        Level.HOST: {fault.rows[0] // lab.cells for fault in _list_faults(year, FaultKind.HOST)},
        Level.COHORT: set(range(lab.cells // 6)),  # the series of the first cohort come first
    }
    on_time = [
        (_find_onset(f, year.times_us, later), f.rows[0] // lab.cells) in told[Level.HOST]
        for f in _list_faults(year, FaultKind.HOST)
    ]
    shifts = [
        (fault.first + later, fault.rows[0] % lab.cells) in told[Level.COHORT]
        for fault in _list_faults(year, FaultKind.COHORT)
    ]
    return Score(
        rule=rule,
        steps=_share(_find_steps(year, told[Level.CELL], later)),
        **_find_drifts(year, told[Level.CELL]),
        hosts=_share(on_time),
        cohorts=_share(shifts),
        slow=None,
        slow_cells=None,
        false_alarms=sum(_count_false(told[level], rows) for level, rows in expected.items()) / (lab.nights - SETTLED),
        reruns=0,
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


def _find_steps(year: Year, told: set[tuple[int, int]], later: int = 0) -> list[bool]:
    steps = _list_faults(year, FaultKind.STEP)
    return [(_find_onset(fault, year.times_us, later), fault.rows[0]) in told for fault in steps]


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


def _find_onset(fault: Fault, times_us: Floats, later: int = 0) -> int | None:
    """The first night on which it could be seen, or so many later: its host was up. None: there was none."""
    measured = np.flatnonzero(~np.isnan(times_us[fault.rows[0], fault.first : fault.end]))
    return fault.first + int(measured[later]) if len(measured) > later else None


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
