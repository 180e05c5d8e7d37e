"""A synthetic year, night by night, through fleet's rules and through two plain ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.baseline import ONE_GPU, Rules, make_baseline
from fleet.analysis.finding import Level, Subject, collect_findings
from fleet.analysis.incident import EventKind, Incident, State, accept, advance, settle
from fleet.analysis.judgement import confirm, judge
from fleet.analysis.outlier import find_outliers, find_slow_hosts
from fleet.analysis.robust import Floats, median_rows
from fleet.analysis.rollup import COHORT, HOST, expect_spread, roll_up
from tests.bench.report_year import SETTLED, FaultKind, Year

ACCEPTED_AFTER = 10
"""Nights after which the operator of the synthetic lab accepts what is there to stay."""


@dataclass
class Track:
    """All series of one level, and what became of them so far."""

    subjects: Sequence[Subject]
    nights: Floats
    rules: Rules
    floor: Floats | float
    pinned: Floats
    again: tuple[Floats, Floats] | None = None
    """None: what rolls up many is not measured again."""
    state: State = field(default_factory=State)
    ended: list[tuple[int, Incident]] = field(default_factory=list)
    opened: list[tuple[int, int]] = field(default_factory=list)
    """Night and row of what was told: incidents that were opened, and what got better."""
    drift_found: set[int] = field(default_factory=set)
    reruns: int = 0
    slowest_s: float = 0.0
    """What the night took that took longest."""

    def __post_init__(self) -> None:
        self.rows = {subject: row for row, subject in enumerate(self.subjects)}

    def live(self, night: int) -> None:
        began = time.perf_counter()
        rows = [(self.rows[subject], incident) for subject, incident in self.state.open.items()]
        runs = [name_run(number) for number in range(night)]
        history, pinned = settle(self.nights[:, :night], self.pinned, runs, [*self.ended, *rows])
        baseline = make_baseline(history, self.rules.effect, self.floor, pinned)
        judgement = judge(baseline, self.nights[:, night - 2 : night + 1])
        if self.again:
            known = np.zeros(len(self.subjects), dtype=np.bool_)
            known[[row for row, _ in rows]] = True
            second = np.where(judgement.suspect & ~known, self.again[0][:, night], np.nan)[:, None]
            once = confirm(judgement, second, known)
            third = np.where(once.unsure, self.again[1][:, night], np.nan)
            judgement = confirm(judgement, np.column_stack([second, third]), known)
            self.reruns += int(np.count_nonzero(~np.isnan(second)) + np.count_nonzero(~np.isnan(third)))
        done = advance(self.state, name_run(night), collect_findings(judgement, self.subjects, self.state.open))
        self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
        self.state = done.state
        self.ended += [(self.rows[incident.subject], incident) for incident in done.ended]
        told = {EventKind.OPENED, EventKind.BETTER}
        self.opened += [(night, self.rows[event.subject]) for event in done.events if event.kind in told]

    def accept(self, rows: set[int], night: int) -> None:
        """The operator accepts the incidents of these rows that are old enough."""
        for subject, incident in list(self.state.open.items()):
            row = self.rows[subject]
            if row in rows and incident.opened <= name_run(night - ACCEPTED_AFTER):
                self.ended.append((row, accept(incident, name_run(night), "it is there to stay")))
                self.state = replace(self.state, open={k: v for k, v in self.state.open.items() if k != subject})


def name_run(night: int) -> str:
    return f"night{night:04d}"


@dataclass(frozen=True)
class Played:
    cells: Track
    hosts: Track
    cohorts: Track
    slow: NDArray[np.bool_]
    """Hosts that are slow among their likes, by all their cells. Shape: (hosts, nights)."""
    slow_cells: NDArray[np.bool_]
    """By one cell. Shape: (hosts, cells, nights)."""


def play(year: Year) -> Played:
    cells, hosts, cohorts = make_tracks(year)
    lasting = {kind: list_lasting(year, kind) for kind in FaultKind}
    stay_cells = lasting[FaultKind.STEP]
    stay_hosts = {row // year.lab.cells for row in lasting[FaultKind.HOST]}
    for night in range(7, year.lab.nights):
        for track in (cells, hosts, cohorts):
            track.live(night)
        cells.accept(stay_cells | lasting[FaultKind.HOST], night)
        hosts.accept(stay_hosts, night)
        cohorts.accept(set(range(year.lab.cells // 6)), night)
    slow = np.zeros((year.lab.hosts, year.lab.nights), dtype=np.bool_)
    slow_cells = np.zeros((year.lab.hosts, year.lab.cells, year.lab.nights), dtype=np.bool_)
    cube = year.times_us.reshape(year.lab.hosts, year.lab.cells, year.lab.nights)
    for night in range(year.lab.nights):
        for members in year.lab.members:
            slow[members, night] = find_slow_hosts(cube[members, :, night]).slow[:, 0]
            slow_cells[members, :, night] = find_outliers(cube[members, :, night]).slow
    return Played(cells, hosts, cohorts, slow, slow_cells)


def make_tracks(year: Year) -> tuple[Track, Track, Track]:
    lab, times = year.lab, year.times_us
    subjects = [Subject(Level.CELL, f"host{h:03d}", f"cell{c:02d}") for h in range(lab.hosts) for c in range(lab.cells)]
    cells = Track(subjects, times, ONE_GPU, ONE_GPU.floor, pin(times), year.again_us)
    spreads = make_baseline(times[:, :SETTLED], ONE_GPU.effect).spread
    of_host = [np.arange(host * lab.cells, (host + 1) * lab.cells) for host in range(lab.hosts)]
    of_cohort = [members * lab.cells + cell for members in lab.members for cell in range(lab.cells)]
    names = [(f"cohort{number}", cell) for number in range(len(lab.cohorts)) for cell in range(lab.cells)]
    hosts = [Subject(Level.HOST, f"host{host:03d}") for host in range(lab.hosts)]
    cohorts = [Subject(Level.COHORT, name, f"cell{cell:02d}") for name, cell in names]
    return (
        cells,
        _make_rolled(hosts, roll_up(times, of_host), HOST, expect_spread(spreads, of_host, HOST)),
        _make_rolled(cohorts, roll_up(times, of_cohort), COHORT, expect_spread(spreads, of_cohort, COHORT)),
    )


def _make_rolled(subjects: Sequence[Subject], rolled: Floats, rules: Rules, floor: Floats) -> Track:
    return Track(subjects, rolled, rules, floor, pin(rolled))


def pin(nights: Floats) -> Floats:
    """What an operator would: the first two weeks."""
    return median_rows(nights[:, :14])


def list_lasting(year: Year, kind: FaultKind) -> set[int]:
    """The series of faults that stay."""
    return {row for fault in year.faults if fault.kind is kind and fault.end == year.lab.nights for row in fault.rows}


def flag_by_previous(times_us: Floats) -> NDArray[np.bool_]:
    """A plain rule: more than 5 % away from the last night that was measured. Shape: (series, nights)."""
    flags = np.zeros(times_us.shape, dtype=np.bool_)
    last = times_us[:, 0].copy()
    for night in range(1, times_us.shape[1]):
        flags[:, night] = np.abs(times_us[:, night] / last - 1) > 0.05
        last = np.where(np.isnan(times_us[:, night]), last, times_us[:, night])
    return flags


def flag_by_sigma(times_us: Floats) -> NDArray[np.bool_]:
    """A plain rule: more than three standard deviations away from the mean of the last 14 nights."""
    flags = np.zeros(times_us.shape, dtype=np.bool_)
    for night in range(14, times_us.shape[1]):
        window = times_us[:, night - 14 : night]
        away = np.abs(times_us[:, night] - np.nanmean(window, axis=1))
        flags[:, night] = away > 3 * np.nanstd(window, axis=1, ddof=1)
    return flags
