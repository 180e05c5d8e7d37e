"""`fleet trend`: how the cells of a suite have gone, run by run."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from fleet.cli.consoles import open_stdout
from fleet.cli.index import open_synced
from fleet.cli.judging import judge_runs
from fleet.cli.words import print_error
from fleet.errors import ExitCode, SelectionError, StoreError
from fleet.report.terminal_trend import render_trend
from fleet.report.trend_view import TrendView, build_trend, render_trend_json
from fleet.store.index import Index
from fleet.store.readings import read_cells, read_environments, read_values
from fleet.store.rundir import Store


def print_trend(reports: Path, suite: str | None, host: str | None, model: str | None, *, as_json: bool) -> ExitCode:
    """A line for each cell on each host, on stdout; by a pager where it is longer than the terminal.

    Raises:
        FleetError: there are no complete runs, none of these values, or the index cannot be used.
    """
    store = Store(reports)
    store.find_newest()
    index, synced = open_synced(store)
    with index:
        for problem in synced.problems:
            print_error(StoreError(problem))
        view = _build(index, suite, host, model)
    if as_json:
        sys.stdout.write(render_trend_json(view))
    else:
        _show(view, open_stdout())
    return ExitCode.OK


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


def _build(index: Index, suite: str | None, host: str | None, model: str | None) -> TrendView:
    chosen, run_ids = list_nights(index, suite)
    values = read_values(index.database, run_ids)
    cells = read_cells(index.database, values.cell_ids)
    rows = [
        row
        for row, (alias, cell_id) in enumerate(zip(values.aliases, values.cell_ids, strict=True))
        if host in {None, alias} and model in {None, cells[cell_id].model}
    ]
    view = build_trend(
        chosen, values.select(rows), cells, read_environments(index.database, run_ids), judge_runs(index).incidents
    )
    if not view.lines:
        wanted = "".join([f" on {host}" if host else "", f" of {model}" if model else ""])
        hint = "See what the hosts said with: fleet report"
        raise SelectionError(f"the runs of suite {chosen} have measured nothing{wanted}", hint)
    return view


def _show(view: TrendView, console: Console) -> None:
    if console.is_terminal and len(view.lines) > console.height:
        with console.pager():
            render_trend(view, console)
    else:
        render_trend(view, console)
