"""Complete runs are judged once each, in their order; what comes of it is kept in the journal beside them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from fleet.analysis.baseline import choose_rules
from fleet.analysis.finding import Level, Subject
from fleet.analysis.incident import Incident, State, advance
from fleet.analysis.night import Judged, judge_night
from fleet.analysis.record import make_state, name_cohorts, read_state
from fleet.analysis.sentence import say_told
from fleet.cli.words import tell
from fleet.model.environment import Environment
from fleet.model.journal import Entry, JudgedRun, PinnedBaseline, Suspicion
from fleet.report.wording import count_things, make_line
from fleet.store.index import Index
from fleet.store.journal import list_incidents, read_journal
from fleet.store.readings import Values, read_cells, read_environments, read_values

REACH = 30
"""Runs that are looked at before the first that counts: a baseline wants fourteen in which the cell was measured."""

_BATCH = 30
"""Runs that are read at once."""

_MANY = 20
"""Runs that take long enough to say so."""


@dataclass(frozen=True)
class Record:
    """What the journal says of the runs."""

    judged: JudgedRun | None
    """The last one that was."""
    incidents: tuple[Incident, ...]
    """As they stand, in the order in which they were opened."""

    @property
    def open(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self.incidents if incident.ending is None)


def judge_runs(index: Index) -> Record:
    """Judge the complete runs that are newer than the last one judged; what is known then.

    A run that is taken up and completed later than a newer one is only compared with.

    Raises:
        StoreError: the index or the journal cannot be read or written.
    """
    record = read_record(index)
    last = record.judged.run_id if record.judged else ""
    complete = sorted((run.run_id, run.suite or "") for run in index.list_runs() if run.state == "complete")
    new = [run for run in complete if run[0] > last]
    if len(new) >= _MANY:
        tell(f"judging {count_things(len(new), 'run')}, once …")
    for suite, some in groupby(new, key=lambda run: run[1]):
        run_ids = [run_id for run_id, _ in some]
        nights = [run_id for run_id, of in complete if of == suite]
        for first in range(0, len(run_ids), _BATCH):
            record = _judge_batch(index, record, nights, run_ids[first : first + _BATCH])
    return record


def read_record(index: Index) -> Record:
    """What the journal says.

    Raises:
        StoreError: it cannot be read.
    """
    entries, _ = read_journal(index.store.root)
    judged = max((e for e in entries if isinstance(e, JudgedRun)), key=lambda entry: entry.run_id, default=None)
    return Record(judged, tuple(map(read_state, list_incidents(entries))))


def read_past(index: Index, run_id: str) -> Record:
    """What was known when this run had been judged, with what was accepted since; nothing of one that was not judged.

    Raises:
        StoreError: the journal cannot be read.
    """
    entries, _ = read_journal(index.store.root)
    judged = next((e for e in reversed(entries) if isinstance(e, JudgedRun) and e.run_id == run_id), None)
    if judged is None:
        return Record(None, ())
    states = [state for state in list_incidents(entries) if state.covers(run_id)]
    return Record(judged, tuple(read_state(state.as_of(run_id)) for state in states))


def stamp() -> str:
    """Now, as the journal writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _judge_batch(index: Index, record: Record, nights: Sequence[str], batch: Sequence[str]) -> Record:
    """Args: nights: all runs of the suite; batch: those of them to judge, which follow each other."""
    pins = index.read_baselines()
    run_ids = _choose_runs(nights, batch, record, pins)
    values = read_values(index.database, run_ids)
    cells = read_cells(index.database, values.cell_ids)
    rules = [choose_rules(cells[cell_id]) for cell_id in values.cell_ids]
    levels = _place_pins(values, pins)
    environments = read_environments(index.database, batch)
    for run_id in batch:
        cohorts = name_cohorts(pick_environments(environments, run_id))
        count = run_ids.index(run_id) + 1
        judged = judge_night(values, count, rules, cohorts, levels, record.incidents)
        record = _keep(index, record, run_id, judged, {name: len(aliases) for name, aliases in cohorts.items()})
    return record


def pick_environments(environments: dict[tuple[str, str], Environment], run_id: str) -> dict[str, Environment]:
    """By alias, those of one run."""
    return {alias: known for (of, alias), known in environments.items() if of == run_id}


def _choose_runs(
    nights: Sequence[str], batch: Sequence[str], record: Record, pins: Sequence[PinnedBaseline]
) -> list[str]:
    """What to read: back to before the oldest open incident, and what levels that somebody decided on are made of."""
    oldest = min([batch[0], *(incident.opened for incident in record.open)])
    first = max(0, bisect_left(nights, oldest) - REACH)
    chosen = set(nights[first : bisect_right(nights, batch[-1])])
    chosen |= {run_id for pin in pins for run_id in pin.run_ids if run_id in nights}
    for incident in record.incidents:
        if incident.ending == "accepted" and pins:
            chosen |= set(nights[bisect_left(nights, incident.opened) : bisect_right(nights, incident.ended or "")])
    return sorted(chosen)


def _place_pins(values: Values, pins: Sequence[PinnedBaseline]) -> list[tuple[frozenset[int], str]]:
    """Of each series, which of the runs are its pinned level; what is said of a cell on a host counts before what is
    said of more."""
    places = {run_id: place for place, run_id in enumerate(values.run_ids)}
    known = {
        (pin.alias, pin.cell_id): (frozenset(places[run] for run in pin.run_ids if run in places), max(pin.run_ids))
        for pin in pins
    }
    blank: tuple[frozenset[int], str] = (frozenset(), "")

    def choose(alias: str, cell_id: str) -> tuple[frozenset[int], str]:
        wanted = ((alias, cell_id), (alias, ""), ("", cell_id), ("", ""))
        return next((known[key] for key in wanted if key in known), blank)

    return [choose(alias, cell_id) for alias, cell_id in zip(values.aliases, values.cell_ids, strict=True)]


def _keep(index: Index, record: Record, run_id: str, judged: Judged, sizes: dict[str, int]) -> Record:
    """Write what a run has decided, and go on from there."""
    better = record.judged.better if record.judged else ()
    told = frozenset(Subject(Level(level), name, cell_id) for level, name, cell_id in better)
    night = advance(State({i.subject: i for i in record.open}, told), run_id, judged.findings)
    now = stamp()
    changed = [*night.ended, *night.state.open.values()]
    entries: list[Entry] = [make_state(incident, now) for incident in changed if incident not in record.incidents]
    entry = JudgedRun(
        time=now,
        run_id=run_id,
        measured=judged.measured,
        learning=judged.learning,
        nights=judged.nights,
        suspicions=tuple(
            Suspicion(
                level=told.finding.subject.level.value,
                name=told.finding.subject.name,
                cell_id=told.finding.subject.cell_id,
                kind=told.finding.kind.value,
                change=told.finding.change,
                sentence=make_line(say_told(told, sizes.get(told.finding.subject.name, 0))),
            )
            for told in judged.suspicions
        ),
        better=tuple(sorted((s.level.value, s.name, s.cell_id) for s in night.state.better)),
    )
    index.write(*entries, entry)
    ended = [incident for incident in record.incidents if incident.ending is not None]
    incidents = sorted([*ended, *changed], key=lambda incident: incident.opened)
    return Record(entry, tuple(incidents))
