"""What a night found, and which findings say the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fleet.analysis.judgement import Judgement, SeriesVerdict


class Level(StrEnum):
    CELL = "cell"
    """One cell on one host."""
    HOST = "host"
    """All cells of a host."""
    COHORT = "cohort"
    """One cell on all hosts of a cohort."""


@dataclass(frozen=True)
class Subject:
    """What a series is of."""

    level: Level
    name: str
    """The host's alias, or the cohort's name."""
    cell_id: str = ""
    """Empty for a host."""


class Kind(StrEnum):
    STEP = "step"
    """Away from the last two weeks."""
    DRIFT = "drift"
    """Away from the pinned level, three nights long."""


@dataclass(frozen=True)
class Finding:
    """A night of one subject. Changes are of times, relative: 0.05 is 5 % slower."""

    subject: Subject
    verdict: SeriesVerdict
    kind: Kind
    change: float
    """Against the level that `kind` names."""
    limit: float
    """What the change was held against."""
    spread: float
    """Of the series, night to night. Relative."""
    baseline: float
    """That level, in the unit of the series."""
    settled: frozenset[Kind]
    """From which levels it is away by less than half the limit."""

    @property
    def mads(self) -> float:
        return abs(self.change) / self.spread


def collect_findings(
    judgement: Judgement, subjects: Sequence[Subject], watched: Iterable[Subject] = ()
) -> dict[Subject, Finding]:
    """The subjects that are better or worse, and those watched that were measured tonight.

    Args:
        judgement: confirmed; `subjects` are its rows.
        watched: those with an open incident.
    """
    verdicts = judgement.verdicts
    wanted = set(watched)
    told = np.isin(verdicts, [SeriesVerdict.BETTER, SeriesVerdict.WORSE])
    rows = set(np.flatnonzero(told).tolist())
    rows |= {row for row, subject in enumerate(subjects) if subject in wanted and verdicts[row]} if wanted else set()
    return {subjects[row]: _make_finding(judgement, row, subjects[row], str(verdicts[row])) for row in sorted(rows)}


def _make_finding(judgement: Judgement, row: int, subject: Subject, verdict: str) -> Finding:
    baseline = judgement.baseline
    settled = {Kind.STEP: judgement.step_settled, Kind.DRIFT: judgement.drift_settled}
    drifting = judgement.step[row] == 0 and judgement.drifted[row] != 0
    return Finding(
        subject=subject,
        verdict=SeriesVerdict(verdict),
        kind=Kind.DRIFT if drifting else Kind.STEP,
        change=float((judgement.drift if drifting else judgement.change)[row]),
        limit=float((baseline.drift_limit if drifting else baseline.limit)[row]),
        spread=float(baseline.spread[row]),
        baseline=float((baseline.pinned if drifting else baseline.level)[row]),
        settled=frozenset(kind for kind, near in settled.items() if near[row]),
    )


@dataclass(frozen=True)
class Told:
    """A finding that is told, with those that it tells as well."""

    finding: Finding
    covers: tuple[Finding, ...] = ()

    @property
    def likes(self) -> int:
        """How many of them are of the same host, or of the same cohort, in other cells."""
        subject = self.finding.subject
        return sum((f.subject.level, f.subject.name) == (subject.level, subject.name) for f in self.covers)


def fold_findings(findings: Iterable[Finding], cohorts: dict[str, frozenset[str]]) -> tuple[Told, ...]:
    """One line for what moved together: a cohort's cell tells the cell on its hosts, a host tells its cells.

    A finding is told by a larger one unless it differs from it by more than its own limit: a host that is 20 % slow in
    a cohort that got 1 % slower has a line of its own. A host that tells no cell of its own is told by its cohort's
    cells. What is left of one host, or of one cohort, and went the same way is one line.

    Args:
        cohorts: name → aliases.
    """
    everything = list(findings)
    by_level = {level: [f for f in everything if f.subject.level is level] for level in Level}
    told: dict[Subject, list[Finding]] = {f.subject: [] for f in everything}
    for cell in by_level[Level.CELL]:
        larger = [f for f in by_level[Level.COHORT] if _holds(f, cell, cohorts)]
        larger += [f for f in by_level[Level.HOST] if f.subject.name == cell.subject.name]
        if by := next((f for f in larger if _tells(f, cell)), None):
            told[by.subject].append(cell)
            del told[cell.subject]
    for host in by_level[Level.HOST]:
        larger = [f for f in by_level[Level.COHORT] if host.subject.name in cohorts.get(f.subject.name, ())]
        if not told[host.subject] and (by := next((f for f in larger if _tells(f, host)), None)):
            told[by.subject].append(host)
            del told[host.subject]
    return _join_likes([Told(f, tuple(told[f.subject])) for f in everything if f.subject in told])


def _join_likes(told: list[Told]) -> tuple[Told, ...]:
    """One line for the cells of one host, or of one cohort, that went the same way; the largest change heads it."""
    lines: dict[tuple[Level, str, SeriesVerdict], list[Told]] = {}
    for line in told:
        subject = line.finding.subject
        lines.setdefault((subject.level, subject.name, line.finding.verdict), []).append(line)
    joined = []
    for likes in lines.values():
        head = max(likes, key=lambda line: abs(math.log1p(line.finding.change)))
        others = [finding for line in likes if line is not head for finding in (line.finding, *line.covers)]
        joined.append(Told(head.finding, (*head.covers, *others)))
    return tuple(joined)


def _holds(cohort: Finding, cell: Finding, cohorts: dict[str, frozenset[str]]) -> bool:
    members = cohorts.get(cohort.subject.name, frozenset())
    return cohort.subject.cell_id == cell.subject.cell_id and cell.subject.name in members


def _tells(larger: Finding, smaller: Finding) -> bool:
    # One that went the other way is further apart than that.
    return abs(math.log1p(larger.change) - math.log1p(smaller.change)) <= math.log1p(smaller.limit)
