"""One run judged against those before it: every cell on every host, every host, every cohort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.baseline import CELL_FLOOR, Rules, make_baseline
from fleet.analysis.finding import Finding, Level, Subject, Told, collect_findings, fold_findings
from fleet.analysis.history import align_nights, find_last
from fleet.analysis.incident import Ending, Incident, settle
from fleet.analysis.judgement import DRIFT_NIGHTS, SeriesVerdict, judge, uphold
from fleet.analysis.robust import Floats, median_rows, take_last
from fleet.analysis.rollup import COHORT, HOST, LEAST, expect_spread, roll_up
from fleet.store.readings import Values


@dataclass(frozen=True)
class Judged:
    findings: Mapping[Subject, Finding]
    """Confirmed, and those with an open incident: for `incident.advance`."""
    suspicions: tuple[Told, ...]
    """Slower tonight, and not so in the run before: nothing is confirmed by one run."""
    measured: int
    """Cells on hosts with a value tonight."""
    learning: int
    """Those of them that have too few nights before for a verdict."""
    nights: int
    """The most nights that any of them has."""


def judge_night(
    values: Values,
    count: int,
    rules: Sequence[Rules],
    cohorts: Mapping[str, frozenset[str]],
    pinned: Sequence[tuple[frozenset[int], str]],
    incidents: Iterable[Incident],
) -> Judged:
    """Judge the last of the first `count` runs.

    There is no second run in a night. What a run suspects is confirmed by the next one that finds the same; what it
    could not judge yet, it did not suspect.

    Args:
        values: runs of one suite, oldest first.
        rules: one a series of `values`.
        cohorts: name → aliases.
        pinned: of each series, the runs (places) that are its pinned level, and the id of the newest of them.
        incidents: all, in the order in which they were opened.
    """
    cells = align_nights(values, count)
    subjects, groups = _name_groups(values, cohorts)
    nights = np.concatenate([cells, roll_up(cells, groups)]) if groups else cells
    incidents = list(incidents)
    places = {subject: row for row, subject in enumerate(subjects)}
    decided = [(places[incident.subject], incident) for incident in incidents if incident.subject in places]
    pins = [pinned[row] for row in range(len(cells))] + [_pin_group(members, pinned) for members in groups]
    levels = np.array([_find_level(nights[row], runs, count) for row, (runs, _) in enumerate(pins)])
    settled, moved = settle(nights[:, :-1], levels, values.run_ids[: count - 1], decided)
    for row, incident in decided:
        # Whoever pinned a run after the change has pinned the new level.
        if incident.ending is Ending.ACCEPTED and pins[row][1] >= incident.opened:
            moved[row] = levels[row]
    effects = [rule.effect for rule in rules] + [_choose(subject).effect for subject in subjects[len(cells) :]]
    floors = np.concatenate([[rule.floor for rule in rules], _expect(settled[: len(cells)], rules, groups, subjects)])
    baseline = make_baseline(settled, np.array(effects), floors, moved)
    recent = np.concatenate([take_last(nights[:, :-1], DRIFT_NIGHTS), nights[:, -1:]], axis=1)
    first = judge(baseline, recent)
    earlier = make_baseline(_leave_out_last(settled, nights[:, :-1]), np.array(effects), floors, moved)
    watched = {incident.subject for incident in incidents if incident.ending is None}
    known = np.array([subject in watched for subject in subjects], dtype=np.bool_)
    confirmed = uphold(first, judge(earlier, recent[:, :-1]), known)
    findings = collect_findings(confirmed, subjects, watched)
    suspected = collect_findings(first, subjects)
    open_now = {
        subject: finding
        for subject, finding in suspected.items()
        if finding.verdict is SeriesVerdict.WORSE and subject not in findings
    }
    tonight = ~np.isnan(cells[:, -1])
    known_nights = baseline.nights[: len(cells)][tonight]
    return Judged(
        findings=findings,
        suspicions=fold_findings(open_now.values(), dict(cohorts)),
        measured=int(np.count_nonzero(tonight)),
        learning=int(np.count_nonzero(baseline.learning[: len(cells)][tonight])),
        nights=int(known_nights.max(initial=0)),
    )


def _leave_out_last(settled: Floats, nights: Floats) -> Floats:
    """What the last value of each series was judged by."""
    left = settled.copy()
    if nights.shape[1]:
        left[np.arange(len(left)), find_last(nights)] = np.nan
    return left


def _name_groups(values: Values, cohorts: Mapping[str, frozenset[str]]) -> tuple[list[Subject], list[NDArray[np.intp]]]:
    """What every row is of, cells first, and the rows of each group."""
    subjects = [Subject(Level.CELL, *names) for names in zip(values.aliases, values.cell_ids, strict=True)]
    members: dict[Subject, list[int]] = {}
    names = {alias: name for name, aliases in cohorts.items() for alias in aliases}
    for row, cell in enumerate(list(subjects)):
        members.setdefault(Subject(Level.HOST, cell.name), []).append(row)
        if cell.name in names:
            members.setdefault(Subject(Level.COHORT, names[cell.name], cell.cell_id), []).append(row)
    large = {subject: rows for subject, rows in members.items() if len(rows) >= LEAST}
    return [*subjects, *large], [np.array(rows, dtype=np.intp) for rows in large.values()]


def _choose(subject: Subject) -> Rules:
    return HOST if subject.level is Level.HOST else COHORT


def _expect(
    cells: Floats, rules: Sequence[Rules], groups: Sequence[NDArray[np.intp]], subjects: Sequence[Subject]
) -> Floats:
    """The least spread of each group."""
    if not groups:
        return np.empty(0)
    spreads = make_baseline(cells, np.array([rule.effect for rule in rules])).spread
    spreads = np.where(np.isnan(spreads), CELL_FLOOR, spreads)
    expected = [
        expect_spread(spreads, [members], _choose(subject))
        for members, subject in zip(groups, subjects[len(cells) :], strict=True)
    ]
    return np.concatenate(expected)


def _pin_group(members: NDArray[np.intp], pinned: Sequence[tuple[frozenset[int], str]]) -> tuple[frozenset[int], str]:
    """A group is held to a pinned level where all of its members are held to the same runs."""
    pins = {pinned[row] for row in members.tolist()}
    return pins.pop() if len(pins) == 1 else (frozenset(), "")


def _find_level(nights: Floats, runs: frozenset[int], count: int) -> float:
    places = [place for place in runs if place < count]
    return float(median_rows(nights[places][None])[0]) if places else np.nan
