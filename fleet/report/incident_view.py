"""Incidents, and what a run changed, in words: computed once and made inert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.baseline import LEARNING
from fleet.analysis.fingerprint import Suspect
from fleet.analysis.incident import Incident
from fleet.analysis.record import IncidentGroup, fold_incidents
from fleet.analysis.sentence import say_told
from fleet.model.journal import JudgedRun, PinnedBaseline
from fleet.report.wording import count_things, make_line


@dataclass(frozen=True)
class IncidentLine:
    """What was opened by one run, and tells the same."""

    id: str
    """To name it by."""
    state: str
    """`open`, `resolved` or `accepted`."""
    what: str
    """`gpu03 −6.2 % in all cells`, with the first suspect before it."""
    level: str
    """`cell`, `host` or `cohort`."""
    name: str
    """The host, or the hardware of the cohort."""
    cell_id: str
    change: float
    """Of the time, relative: 0.05 is 5 % slower."""
    opened: str
    """The run that confirmed it."""
    ended: str | None
    reason: str
    covers: int
    """How many more it tells: cells of the host, hosts of the cohort."""


@dataclass(frozen=True)
class IncidentList:
    """Incidents, oldest first. Changes are of times, relative."""

    incidents: tuple[IncidentLine, ...]
    remarks: tuple[str, ...]
    """What else is known of the last run, or why nothing could be judged, a line each."""
    schema: Literal["fleet.incidents/1"] = "fleet.incidents/1"


@dataclass(frozen=True)
class PinLine:
    """Runs that somebody has made a baseline."""

    run_ids: tuple[str, ...]
    host: str
    """Empty: all hosts."""
    cell_id: str
    """Empty: all cells."""
    reason: str
    time: str
    """ISO 8601, UTC: when."""


@dataclass(frozen=True)
class BaselineView:
    """What runs are compared with."""

    pinned: tuple[PinLine, ...]
    nights: int | None
    """Runs in the rolling baseline of the last run, at most; None: none was judged yet."""
    needed: int
    """Runs that a rolling baseline needs."""
    schema: Literal["fleet.baseline/1"] = "fleet.baseline/1"


def build_baseline(pins: Sequence[PinnedBaseline], judged: JudgedRun | None) -> BaselineView:
    """What the journal says of baselines.

    Args:
        judged: the last run that was.
    """
    lines = tuple(
        PinLine(
            run_ids=tuple(map(make_line, pin.run_ids)),
            host=make_line(pin.alias),
            cell_id=make_line(pin.cell_id),
            reason=make_line(pin.reason),
            time=make_line(pin.time, 40),
        )
        for pin in pins
    )
    return BaselineView(lines, judged.nights if judged else None, LEARNING)


def build_incidents(
    incidents: Iterable[Incident],
    cohorts: Mapping[str, frozenset[str]],
    suspects: Mapping[str, Suspect | None] | None = None,
) -> tuple[IncidentLine, ...]:
    """A line for each group of incidents, oldest first.

    Args:
        cohorts: name → aliases.
        suspects: by the id of a group, what may be the reason.
    """
    groups = fold_incidents(incidents, cohorts)
    return tuple(_build_line(group, cohorts, (suspects or {}).get(group.id)) for group in groups)


def say_changes(judged: JudgedRun, lines: Sequence[IncidentLine]) -> tuple[str, ...]:
    """What a run changed against those before it, the worst first. That nothing did is said only of what was judged.

    Args:
        lines: of the incidents that are open, or were in that run.
    """
    said = [_say_incident(line) for line in lines]
    said += [f"suspicion: {make_line(found.sentence)}, for the next run to confirm" for found in judged.suspicions]
    known = judged.measured - judged.learning
    if judged.measured == 0:
        said.append("nothing was measured, so nothing was judged")
    elif known == 0:
        said.append(f"learning: {judged.nights} of {LEARNING} runs; until then nothing can be judged")
    else:
        if not said:
            said.append(f"nothing is slower than in the runs before, of {count_things(known, 'value')} judged")
        if judged.learning:
            said.append(f"learning: {count_things(judged.learning, 'value')} with fewer than {LEARNING} runs before")
    return tuple(said)


def _say_incident(line: IncidentLine) -> str:
    said = f"incident {line.id}: {line.what}, confirmed by run {line.opened}"
    return said if line.state == "open" else f"{said}, {line.state}: {line.reason}"


def _build_line(group: IncidentGroup, cohorts: Mapping[str, frozenset[str]], suspect: Suspect | None) -> IncidentLine:
    head = group.head
    subject = head.subject
    return IncidentLine(
        id=group.id,
        state=head.ending.value if head.ending else "open",
        what=make_line(say_told(group.told, len(cohorts.get(subject.name, ())), suspect)),
        level=subject.level.value,
        name=make_line(subject.name),
        cell_id=make_line(subject.cell_id),
        change=head.change,
        opened=head.opened,
        ended=head.ended,
        reason=make_line(head.reason),
        covers=len(group.covers),
    )
