"""The synthetic year through a real index, night by night, judged by what `fleet report` and `fleet incidents` call.

There the next run confirms what a run suspects: nothing is measured twice in a night. Each night is rows of an import,
as `tests/bench/store.py` makes them, which measures how long a run directory takes to become such rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleet.analysis.finding import Level, Subject
from fleet.analysis.incident import Incident, accept
from fleet.analysis.record import make_state, name_cohorts
from fleet.cli.incidents import describe_incidents
from fleet.cli.judging import Record, judge_runs, read_record
from fleet.model.environment import Environment
from fleet.model.journal import PinnedBaseline
from fleet.model.result import HostStatus
from fleet.store.importing import insert_run
from fleet.store.index import Index
from fleet.store.readings import list_complete, read_series, read_values
from fleet.store.rows import HostRows, RunRows, read_rows
from tests.bench.report_play import ACCEPTED_AFTER, list_lasting
from tests.bench.report_year import FaultKind, Year
from tests.bench.store import make_cells
from tests.run_builder import Ending, make_facts, make_plan, store_run

BEGIN = datetime(2026, 1, 1, 2, 30)
PINNED = 14
"""Nights that the operator pins once they are there."""


@dataclass
class StoredPlay:
    told: dict[Level, set[tuple[int, int]]] = field(default_factory=lambda: {level: set() for level in Level})
    """As `report_play.Track.opened`: night and row."""
    import_s: list[float] = field(default_factory=list)
    judge_s: list[float] = field(default_factory=list)
    """Processor time, a night each."""


def name_night(night: int) -> str:
    return f"{BEGIN + timedelta(days=night):%Y%m%dT%H%M%SZ}-{night:04d}"


def play_stored(year: Year, index: Index) -> StoredPlay:
    """Args: index: empty."""
    template = _make_template(year, index)
    rows = _number_series(year, template)
    done, better = StoredPlay(), frozenset[tuple[str, str, str]]()
    for night in range(year.lab.nights):
        began = time.process_time()
        (index.store.runs_path / name_night(night)).mkdir(parents=True)
        with index.database.writing() as connection:
            insert_run(connection, "", _make_night(year, template, night))
        done.import_s.append(time.process_time() - began)
        if night == PINNED:
            runs = tuple(name_night(number) for number in range(PINNED))
            index.write(PinnedBaseline(time="t", run_ids=runs, reason="as delivered"))
        began = time.process_time()
        record = judge_runs(index)
        done.judge_s.append(time.process_time() - began)
        opened = [incident.subject for incident in record.open if incident.opened == name_night(night)]
        now = frozenset(record.judged.better) if record.judged else better
        opened += [Subject(Level(level), name, cell_id) for level, name, cell_id in now - better]
        better = now
        for subject in opened:
            done.told[subject.level].add((night, rows[subject]))
        _accept(year, index, record, rows, night)
    return done


def clock_views(index: Index) -> dict[str, float]:
    """What is asked of a year, warm: processor seconds, the best of three."""
    database, (alias, cell_id) = index.database, ("host000", make_cells()[0].id)
    asked: dict[str, Callable[[], object]] = {
        "matrix of the last night": lambda: read_values(database, list_complete(database)[-1:]),
        "a cell's year on a host": lambda: read_series(database, alias, cell_id),
        "last night's regressions": lambda: describe_incidents(index, *_read_open(index)),
    }
    return {what: min(_clock(ask) for _ in range(3)) for what, ask in asked.items()}


def _read_open(index: Index) -> tuple[Record, tuple[Incident, ...]]:
    record = read_record(index)
    return record, record.open


def _clock(ask: Callable[[], object]) -> float:
    began = time.process_time()
    ask()
    return time.process_time() - began


def _make_template(year: Year, index: Index) -> RunRows:
    """A real run of all hosts, of which every night is a variation; it does not stay."""
    lab = year.lab
    cells = make_cells()[: lab.cells]
    names = [f"host{host:03d}" for host in range(lab.hosts)]
    endings = {
        names[host]: Ending(facts=make_facts(f"GPU of cohort {number}"))
        for number, members in enumerate(lab.members)
        for host in members.tolist()
    }
    run = store_run(index.store.root / "template", make_plan(dict.fromkeys(names, cells), name_night(0)), endings)
    return read_rows(run.path)


def _make_night(year: Year, template: RunRows, night: int) -> RunRows:
    cells, hosts = year.lab.cells, []
    for place, host in enumerate(template.hosts):
        times = year.times_us[place * cells : (place + 1) * cells, night].tolist()
        if math.isnan(times[0]):  # a host is up or down with all its cells
            outcome = {**host.outcome, "status": HostStatus.UNREACHABLE.value, "protocol": None}
            hosts.append(HostRows(host.alias, outcome, None, {}))
            continue
        results = {
            name: {**row, "step_ns": round(value * 1000)}
            for (name, row), value in zip(host.results.items(), times, strict=True)
        }
        hosts.append(HostRows(host.alias, host.outcome, host.environment, results))
    return RunRows({**template.run, "run_id": name_night(night), "stamp": night}, tuple(hosts), template.cells, ())


def _number_series(year: Year, template: RunRows) -> dict[Subject, int]:
    """The rows of the year's series, as `report_play.make_tracks` numbers them; a cohort is found by its first host."""
    lab = year.lab
    names = [host.alias for host in template.hosts]
    cells = list(template.hosts[0].results)
    rows = {Subject(Level.HOST, name): place for place, name in enumerate(names)}
    for place, name in enumerate(names):
        rows |= {Subject(Level.CELL, name, cell): place * lab.cells + number for number, cell in enumerate(cells)}
    environments = {host.alias: host.environment for host in template.hosts}
    for number, members in enumerate(lab.members):
        known = environments[names[int(members[0])]]
        assert known is not None
        (cohort,) = name_cohorts({"": Environment.model_validate_json(str(known[1]["fields"]))})
        rows |= {Subject(Level.COHORT, cohort, cell): number * lab.cells + c for c, cell in enumerate(cells)}
    return rows


def _accept(year: Year, index: Index, record: Record, rows: dict[Subject, int], night: int) -> None:
    """The operator accepts what is old enough and there to stay."""
    stays = {
        Level.CELL: list_lasting(year, FaultKind.STEP) | list_lasting(year, FaultKind.HOST),
        Level.HOST: {row // year.lab.cells for row in list_lasting(year, FaultKind.HOST)},
        Level.COHORT: set(range(year.lab.cells // 6)),
    }
    for incident in record.open:
        old = incident.opened <= name_night(max(0, night - ACCEPTED_AFTER))
        if old and rows[incident.subject] in stays[incident.subject.level]:
            index.write(make_state(accept(incident, name_night(night), "it is there to stay"), "t"))
