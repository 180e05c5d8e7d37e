"""A confirmed regression until it is resolved or accepted. Pure: an incident and a night give the next one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from fleet.analysis.finding import Finding, Kind, Subject
from fleet.analysis.judgement import SeriesVerdict
from fleet.analysis.robust import Floats

GOOD_NIGHTS = 3
"""So many in a row resolve an incident: one could be chance, and a fault that comes and goes stays one incident."""

BEYOND_NIGHTS = 2
"""So many in a row beyond what was told make it worse: an open incident is not measured a second time."""


class Ending(StrEnum):
    RESOLVED = "resolved"
    ACCEPTED = "accepted"
    """Somebody said why it is as it should be: the new level is the baseline."""


@dataclass(frozen=True)
class Incident:
    """Runs are named by their ids, which sort by time."""

    subject: Subject
    kind: Kind
    opened: str
    """The run that confirmed it."""
    baseline: float
    """The level before, in the unit of the series; it stays while the incident is open."""
    change: float
    """What was told last, relative: 0.05 is 5 % slower."""
    good_nights: int = 0
    recovered: str | None = None
    """The first of these good nights."""
    beyond_nights: int = 0
    ending: Ending | None = None
    ended: str | None = None
    """The last run that counts to it."""
    reason: str = ""
    """Why it was accepted."""


class EventKind(StrEnum):
    OPENED = "opened"
    WORSE = "worse"
    """Open, and further away than was told, by more than its limit."""
    RESOLVED = "resolved"
    BETTER = "better"
    """Faster than the baseline, where it was not the night before. No incident: the baseline follows."""


@dataclass(frozen=True)
class Event:
    """What is worth telling, once."""

    kind: EventKind
    subject: Subject
    finding: Finding
    incident: Incident | None
    """None: better."""


@dataclass(frozen=True)
class State:
    """What one night hands to the next."""

    open: Mapping[Subject, Incident] = field(default_factory=dict)
    better: frozenset[Subject] = frozenset()
    """Told already."""


@dataclass(frozen=True)
class Night:
    state: State
    events: tuple[Event, ...]
    ended: tuple[Incident, ...]
    """Resolved tonight: no longer in the state."""


def advance(state: State, run_id: str, findings: Mapping[Subject, Finding]) -> Night:
    """The state after a night.

    Args:
        findings: as `finding.collect_findings` gives them with the open incidents watched. A subject that is missing
            was not measured, or is as it was: an incident waits, and what was better may be told again.
    """
    events: list[Event] = []
    still_open: dict[Subject, Incident] = {}
    ended: list[Incident] = []
    for subject, incident in state.open.items():
        finding = findings.get(subject)
        kind, after = _continue(incident, run_id, finding) if finding else (None, incident)
        if after.ending is None:
            still_open[subject] = after
        else:
            ended.append(after)
        if finding and kind:
            events.append(Event(kind, subject, finding, after))
    better = set()
    for subject, finding in findings.items():
        if finding.verdict is SeriesVerdict.BETTER and subject not in state.open:
            better.add(subject)
            if subject not in state.better:
                events.append(Event(EventKind.BETTER, subject, finding, None))
        elif finding.verdict is SeriesVerdict.WORSE and subject not in state.open:
            still_open[subject] = Incident(subject, finding.kind, run_id, finding.baseline, finding.change)
            events.append(Event(EventKind.OPENED, subject, finding, still_open[subject]))
    return Night(State(still_open, frozenset(better)), tuple(events), tuple(ended))


def _continue(incident: Incident, run_id: str, finding: Finding) -> tuple[EventKind | None, Incident]:
    fine = finding.verdict is SeriesVerdict.SAME and incident.kind in finding.settled
    if fine or finding.verdict is SeriesVerdict.BETTER:
        good, recovered = incident.good_nights + 1, incident.recovered or run_id
        after = replace(incident, good_nights=good, recovered=recovered, beyond_nights=0)
        if good < GOOD_NIGHTS:
            return None, after
        return EventKind.RESOLVED, replace(after, ending=Ending.RESOLVED, ended=run_id)
    same_kind = finding.kind is incident.kind
    beyond = incident.beyond_nights + 1 if same_kind and finding.change > incident.change + finding.limit else 0
    after = replace(incident, good_nights=0, recovered=None, beyond_nights=beyond)
    if beyond < BEYOND_NIGHTS:
        return None, after
    return EventKind.WORSE, replace(after, change=finding.change, beyond_nights=0)


def accept(incident: Incident, run_id: str, reason: str) -> Incident:
    """The incident, ended: what was measured from its first run to this one is the new level.

    Raises ValueError without a reason, and where it has ended before.
    """
    if not reason.strip():
        raise ValueError("say why: whoever finds the new level in a year wants to know")
    if incident.ending:
        raise ValueError(f"it was {incident.ending.value} in {incident.ended}")
    return replace(incident, ending=Ending.ACCEPTED, ended=run_id, reason=reason.strip())


def settle(
    nights: Floats, pinned: Floats, run_ids: Sequence[str], incidents: Iterable[tuple[int, Incident]]
) -> tuple[Floats, Floats]:
    """The nights and pinned levels that a baseline is made of, with what incidents have decided of them.

    Open: its nights do not count, which freezes the baseline. Resolved: its nights until it recovered do not count.
    Accepted: the nights before it move to the new level, with their scatter, so that nothing is to be learned anew; the
    new level is pinned. Drift leaves the rolling baseline alone, which has followed it anyway.

    Args:
        nights: shape (series, nights); a copy is returned.
        pinned: shape (series,); NaN: nothing is pinned.
        run_ids: one a night, sorted. They must reach back to 14 valid nights before the oldest open incident.
        incidents: row and incident, those of one row in the order in which they were opened.
    """
    nights, pinned = nights.copy(), pinned.copy()
    for row, incident in incidents:
        first = bisect_left(run_ids, incident.opened)
        if incident.ending is Ending.ACCEPTED:
            during = nights[row, first : bisect_right(run_ids, incident.ended or "")]
            if np.isnan(during).all():
                continue
            level = float(np.nanmedian(during))
            if incident.kind is Kind.STEP:
                nights[row, :first] *= level / incident.baseline
            if not np.isnan(pinned[row]):
                pinned[row] = level
        elif incident.kind is Kind.STEP:
            good = bisect_left(run_ids, incident.recovered) if incident.ending and incident.recovered else len(run_ids)
            nights[row, first:good] = np.nan
    return nights, pinned
