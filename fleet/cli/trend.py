"""`fleet trend`: how the cells of a suite have gone, run by run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fleet.cli.consoles import open_stdout
from fleet.cli.incidents import describe_incidents
from fleet.cli.index import open_synced
from fleet.cli.judging import Record, judge_runs
from fleet.cli.options import PageOptions
from fleet.cli.words import print_error
from fleet.errors import ExitCode, SelectionError, StoreError
from fleet.report.incident_view import IncidentLine
from fleet.report.json_form import write_document
from fleet.report.terminal_trend import render_trend
from fleet.report.trend_view import TrendView, build_trend
from fleet.store.index import Index
from fleet.store.readings import read_cells, read_environments, read_values
from fleet.store.rundir import Store

_PAGE = "trend.html"


@dataclass(frozen=True)
class Asked:
    """Of which runs, and what of them. None: that of the last run; every host; every model."""

    suite: str | None
    host: str | None
    model: str | None


def print_trend(reports: Path, asked: Asked, *, as_json: bool) -> ExitCode:
    """A line for each cell on each host, on stdout; by a pager where it is longer than the terminal.

    Raises:
        FleetError: there are no complete runs, none of these values, or the index cannot be used.
    """
    with _open(reports) as index:
        view = _build(index, judge_runs(index), asked)
    if as_json:
        sys.stdout.write(write_document(view))
    else:
        _show(view, open_stdout())
    return ExitCode.OK


def write_trend(reports: Path, asked: Asked, options: PageOptions) -> ExitCode:
    """The same as one HTML file, with the incidents of these runs.

    Raises:
        FleetError: as for `print_trend`, or the file cannot be written.
    """
    from fleet.cli.page import put_page
    from fleet.report.html_trend import render_trend_html

    with _open(reports) as index:
        record = judge_runs(index)
        view = _build(index, record, asked)
        told = describe_incidents(index, record, record.incidents)
    chosen = _choose_incidents(told, view)
    file = options.output or reports / _PAGE
    put_page(reports, file, options, lambda href: render_trend_html(view, chosen, plotly_href=href))
    return ExitCode.OK


def _choose_incidents(told: Sequence[IncidentLine], view: TrendView) -> list[IncidentLine]:
    """Those of the runs, hosts and cells that are shown."""
    runs = set(view.run_ids)
    hosts, cells = {line.host for line in view.lines}, {line.cell.id for line in view.lines}
    return [
        incident
        for incident in told
        if incident.opened in runs
        and (incident.level == "cohort" or incident.name in hosts)
        and (incident.level == "host" or incident.cell_id in cells)
    ]


@contextmanager
def _open(reports: Path) -> Iterator[Index]:
    store = Store(reports)
    store.find_newest()
    index, synced = open_synced(store)
    with index:
        for problem in synced.problems:
            print_error(StoreError(problem))
        yield index


def list_nights(index: Index, suite: str | None = None) -> tuple[str, list[str]]:
    """The suite, that of the last complete run where none is named, and its runs, oldest first.

    Raises:
        StoreError: no run is complete.
        SelectionError: none is of this suite.
    """
    complete = [run for run in index.list_runs() if run.state == "complete"]
    if not complete:
        raise StoreError(f"{index.store.root}: no run is complete yet.", "See what there is with: fleet runs")
    chosen = suite or complete[0].suite or ""
    run_ids = sorted(run.run_id for run in complete if run.suite == chosen)
    if not run_ids:
        raise SelectionError(f"no complete run is of suite {chosen}", "See which there are with: fleet runs")
    return chosen, run_ids


def _build(index: Index, record: Record, asked: Asked) -> TrendView:
    chosen, run_ids = list_nights(index, asked.suite)
    values = read_values(index.database, run_ids)
    cells = read_cells(index.database, values.cell_ids)
    rows = [
        row
        for row, (alias, cell_id) in enumerate(zip(values.aliases, values.cell_ids, strict=True))
        if asked.host in {None, alias} and asked.model in {None, cells[cell_id].model}
    ]
    environments = read_environments(index.database, run_ids)
    view = build_trend(chosen, values.select(rows), cells, environments, record.incidents)
    if not view.lines:
        wanted = "".join([f" on {asked.host}" if asked.host else "", f" of {asked.model}" if asked.model else ""])
        hint = "See what the hosts said with: fleet report"
        raise SelectionError(f"the runs of suite {chosen} have measured nothing{wanted}", hint)
    return view


def _show(view: TrendView, console: Console) -> None:
    if console.is_terminal and len(view.lines) > console.height:
        with console.pager():
            render_trend(view, console)
    else:
        render_trend(view, console)
