"""`fleet incidents` and `fleet baseline`: what was confirmed, and what somebody has decided about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from fleet.analysis.incident import Incident, accept
from fleet.analysis.record import fold_incidents, make_state, name_cohorts
from fleet.cli.causes import find_causes
from fleet.cli.consoles import open_stdout
from fleet.cli.index import open_synced
from fleet.cli.judging import Record, judge_runs, pick_environments, read_past, stamp
from fleet.cli.words import print_error
from fleet.errors import ConfigError, ExitCode, SelectionError, StoreError
from fleet.model.journal import PinnedBaseline
from fleet.report.incident_view import (
    BaselineView,
    IncidentLine,
    IncidentList,
    build_baseline,
    build_incidents,
    say_changes,
)
from fleet.report.json_form import write_document
from fleet.report.terminal_incidents import render_incidents
from fleet.report.view_model import Found
from fleet.report.wording import count_things
from fleet.store.index import Index
from fleet.store.readings import read_environments
from fleet.store.rundir import Store


def print_incidents(reports: Path, *, everything: bool, as_json: bool) -> ExitCode:
    """The open incidents, or all there ever were, on stdout.

    Raises:
        FleetError: there are no runs, or the index cannot be used.
    """
    with _open(reports) as (index, record):
        lines = describe_incidents(index, record, record.incidents if everything else record.open)
    still_open = [line for line in lines if line.state == "open"]
    said = say_changes(record.judged, still_open)[len(still_open) :] if record.judged else ("no run is complete yet",)
    if as_json:
        sys.stdout.write(write_document(IncidentList(lines, said)))
        return ExitCode.OK
    render_incidents(lines, said, open_stdout())
    return ExitCode.OK


def find_in_run(index: Index, run_id: str) -> Found:
    """What was found in a run against those before it.

    Raises:
        StoreError: the index or the journal cannot be read.
    """
    past = read_past(index, run_id)
    if past.judged is None:
        return Found()
    lines = describe_incidents(index, past, past.incidents)
    cohorts = _find_cohorts(index, past)
    slower = [incident.subject for incident in past.open if incident.recovered is None]
    return Found(
        changes=say_changes(past.judged, lines),
        regressions=tuple(f"{line.what} (incident {line.id})" for line in lines if line.state == "open"),
        slower=frozenset((alias, of.cell_id) for of in slower for alias in cohorts.get(of.name, {of.name})),
    )


def describe_incidents(index: Index, record: Record, chosen: Sequence[Incident]) -> tuple[IncidentLine, ...]:
    """A line for each group of incidents, with the first suspect of those that are open.

    Args:
        chosen: of the record's.

    Raises:
        StoreError: the index cannot be read.
    """
    if not record.judged or not chosen:
        return ()
    cohorts = _find_cohorts(index, record)
    groups = fold_incidents(chosen, cohorts)
    suspects = find_causes(index, [group for group in groups if group.head.ending is None], cohorts)
    return build_incidents(chosen, cohorts, suspects)


def set_baseline(reports: Path, run_id: str, reason: str) -> ExitCode:
    """Pin a run: from now on, values are held against it as well as against the runs before.

    Raises:
        StoreError: there is no such run, it is not complete, or it is not one of these reports.
    """
    store = Store(reports)
    path = store.locate(run_id)
    run = store.load(f"{path}/")
    if run.summary is None:
        raise StoreError(f"run {path.name} is not complete.", f"End it first, with: fleet resume {path.name}")
    if path.parent.resolve() != store.runs_path.resolve():
        raise StoreError(f"{path} is not one of the runs in {store.root}.", "Take it in first, with: fleet runs import")
    if not run.summary.cells_ok:
        raise SelectionError(f"run {path.name} has measured nothing that one could compare with")
    with _open(reports) as (index, _):
        index.write(PinnedBaseline(time=stamp(), run_ids=(path.name,), reason=reason))
    typer.echo(f"run {path.name} is the baseline; the rolling one of the last 14 runs counts as well")
    return ExitCode.OK


def show_baseline(reports: Path, *, as_json: bool) -> ExitCode:
    """What runs are compared with, on stdout.

    Raises:
        FleetError: there are no runs, or the index cannot be used.
    """
    with _open(reports) as (index, record):
        view = build_baseline(index.read_baselines(), record.judged)
    if as_json:
        sys.stdout.write(write_document(view))
        return ExitCode.OK
    for pin in view.pinned:
        where = f"{pin.host or 'all hosts'}, {pin.cell_id or 'all cells'}"
        why = f": {pin.reason}" if pin.reason else ""
        typer.echo(f"pinned: run {', '.join(pin.run_ids)} for {where}{why}")
    if not view.pinned:
        typer.echo("no run is pinned: slow drift is not found. Pin one with: fleet baseline set RUN")
    typer.echo(_say_rolling(view))
    return ExitCode.OK


def _say_rolling(view: BaselineView) -> str:
    rule = "rolling: every value is also held against the median of its last 14 runs in the same suite"
    if view.nights is None:
        return f"{rule}, from the {view.needed + 1}th on; none was judged yet"
    if view.nights < view.needed:
        return f"{rule}, from the {view.needed + 1}th on; the last run had {count_things(view.nights, 'run')} before it"
    return f"{rule}; the last run had {count_things(view.nights, 'such run')} before it"


def accept_incident(reports: Path, name: str, reason: str) -> ExitCode:
    """Make the level of an open incident the one to compare with, and end it, with all that it tells.

    Raises:
        ConfigError: no reason is given.
        SelectionError: no open incident, or more than one, is named so.
    """
    if not reason.strip():
        raise ConfigError("--reason is empty", hint="Say why: whoever finds the new level in a year wants to know.")
    with _open(reports) as (index, record):
        groups = fold_incidents(record.open, _find_cohorts(index, record))
        found = [group for group in groups if name and group.id.startswith(name)]
        if len(found) != 1 or record.judged is None:
            what = "no open incident is" if not found else f"{len(found)} open incidents are"
            raise SelectionError(f"{what} named {name[:80]!r}", "See which there are with: fleet incidents")
        accepted: list[Incident] = [
            accept(incident, record.judged.run_id, reason) for incident in (found[0].head, *found[0].covers)
        ]
        now = stamp()
        index.write(*(make_state(incident, now) for incident in accepted))
    typer.echo(f"{count_things(len(accepted), 'incident')} accepted; what was measured since is the new level")
    return ExitCode.OK


@contextmanager
def _open(reports: Path) -> Iterator[tuple[Index, Record]]:
    """The index, and what is known when all complete runs have been judged."""
    store = Store(reports)
    store.find_newest()
    index, synced = open_synced(store)
    with index:
        for problem in synced.problems:
            print_error(StoreError(problem))
        yield index, judge_runs(index)


def _find_cohorts(index: Index, record: Record) -> dict[str, frozenset[str]]:
    if record.judged is None:
        return {}
    run_id = record.judged.run_id
    return name_cohorts(pick_environments(read_environments(index.database, [run_id]), run_id))
