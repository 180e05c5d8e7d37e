"""Incidents as the journal keeps them, and which of them one line tells."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.analysis.baseline import CPU_OR_MANY
from fleet.analysis.finding import Finding, Kind, Level, Subject, Told, fold_findings
from fleet.analysis.incident import Ending, Incident
from fleet.analysis.judgement import SeriesVerdict
from fleet.analysis.rollup import COHORT, HOST
from fleet.model.environment import Environment
from fleet.model.journal import IncidentState

_EFFECTS = {Level.CELL: CPU_OR_MANY.effect, Level.HOST: HOST.effect, Level.COHORT: COHORT.effect}


@dataclass(frozen=True)
class IncidentGroup:
    """Incidents that were opened by the same run and tell the same."""

    head: Incident
    covers: tuple[Incident, ...]
    told: Told
    """The same, to be put into words."""

    @property
    def id(self) -> str:
        return name_incident(self.head)


def name_incident(incident: Incident) -> str:
    """Eight hexadecimal digits, of what it is of and when it was opened."""
    subject = incident.subject
    words = "\n".join([subject.level, subject.name, subject.cell_id, incident.opened])
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def read_state(state: IncidentState) -> Incident:
    return Incident(
        subject=Subject(Level(state.level), state.name, state.cell_id),
        kind=Kind(state.kind),
        opened=state.opened,
        baseline=state.baseline,
        change=state.change,
        good_nights=state.good_nights,
        recovered=state.recovered,
        beyond_nights=state.beyond_nights,
        ending=Ending(state.ending) if state.ending else None,
        ended=state.ended,
        reason=state.reason,
    )


def make_state(incident: Incident, time: str) -> IncidentState:
    """Args: time: ISO 8601, UTC."""
    subject = incident.subject
    return IncidentState(
        time=time,
        level=subject.level.value,
        name=subject.name,
        cell_id=subject.cell_id,
        kind=incident.kind.value,
        opened=incident.opened,
        baseline=incident.baseline,
        change=incident.change,
        good_nights=incident.good_nights,
        recovered=incident.recovered,
        beyond_nights=incident.beyond_nights,
        ending=incident.ending.value if incident.ending else None,
        ended=incident.ended,
        reason=incident.reason,
    )


def fold_incidents(incidents: Iterable[Incident], cohorts: Mapping[str, frozenset[str]]) -> tuple[IncidentGroup, ...]:
    """One group for what was opened by one run, ended alike and moved together, in the order of opening."""
    by_run: dict[tuple[str, str], dict[Subject, Incident]] = {}
    for incident in incidents:
        by_run.setdefault((incident.opened, incident.ended or ""), {})[incident.subject] = incident
    return tuple(
        IncidentGroup(opened[told.finding.subject], tuple(opened[f.subject] for f in told.covers), told)
        for _, opened in sorted(by_run.items())
        for told in fold_findings(map(_make_finding, opened.values()), dict(cohorts))
    )


def _make_finding(incident: Incident) -> Finding:
    return Finding(
        subject=incident.subject,
        verdict=SeriesVerdict.WORSE,
        kind=incident.kind,
        change=incident.change,
        limit=_EFFECTS[incident.subject.level],
        spread=math.nan,
        baseline=incident.baseline,
        settled=frozenset(),
    )


def name_cohorts(environments: Mapping[str, Environment]) -> dict[str, frozenset[str]]:
    """Hosts with identical hardware, by what it is.

    Args:
        environments: alias → environment.
    """
    cohorts: dict[str, set[str]] = {}
    for alias, known in environments.items():
        gpus = [f"{gpu.name or '?'} {(gpu.memory_bytes or 0) >> 30} GiB" for gpu in known.gpus]
        kinds = [f"{gpus.count(kind)} × {kind}" for kind in sorted(set(gpus))]
        cpu = f"{known.cpu_sockets} × {known.cpu_model} ({known.cpu_cores}/{known.cpu_threads})"
        cohorts.setdefault(", ".join([*kinds, cpu, f"{known.memory_gib} GiB"]), set()).add(alias)
    return {name: frozenset(aliases) for name, aliases in cohorts.items()}
