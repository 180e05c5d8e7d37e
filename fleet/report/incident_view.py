"""Incidents, and what a run changed, in words: computed once and made inert."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fleet.analysis.baseline import LEARNING
from fleet.analysis.fingerprint import Suspect
from fleet.analysis.incident import Incident
from fleet.analysis.record import IncidentGroup, fold_incidents
from fleet.analysis.sentence import say_told
from fleet.model.journal import JudgedRun
from fleet.report.wording import count_things, make_line

SCHEMA = "fleet.incidents/1"


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


def render_incidents_json(lines: Sequence[IncidentLine]) -> str:
    """One JSON document (`fleet.incidents/1`). Changes are of times, relative."""
    document = {"schema": SCHEMA, "incidents": [asdict(line) for line in lines]}
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def say_changes(judged: JudgedRun, lines: Sequence[IncidentLine]) -> tuple[str, ...]:
    """What a run changed against those before it, the worst first. That nothing did is said only of what was judged.

    Args:
        lines: of the incidents that are open.
    """
    said = [f"incident {line.id}: {line.what}, confirmed by run {line.opened}" for line in lines]
    said += [
        f"suspicion: {make_line(found.sentence)}, not confirmed: there was no second run" for found in judged.suspicions
    ]
    known = judged.measured - judged.learning
    if judged.measured == 0:
        said.append("nothing was measured, so nothing was judged")
    elif known == 0:
        said.append(f"learning: {judged.nights} of {LEARNING} nights; until then nothing can be judged")
    else:
        if not said:
            said.append(f"nothing is slower than in the runs before, of {count_things(known, 'value')} judged")
        if judged.learning:
            said.append(f"learning: {count_things(judged.learning, 'value')} with fewer than {LEARNING} nights before")
    return tuple(said)


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
