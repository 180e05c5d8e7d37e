"""`fleet compare`: two runs, two hosts, or a run and published figures."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.errors import ConfigError, ExitCode, SelectionError
from fleet.reference import find_reference
from fleet.report.comparison_view import build_comparison
from fleet.report.json_form import write_document
from fleet.report.reference_view import build_reference_view
from fleet.report.terminal_comparison import render_comparison
from fleet.report.terminal_reference import render_reference
from fleet.store.journal import list_pinned, read_journal
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store

BASELINE = "baseline"
"""The run that is pinned for all hosts and cells."""
REFERENCE = "reference:"


def compare_runs(reports: Path, names: tuple[str, str | None], hosts: str | None, *, as_json: bool) -> ExitCode:
    """Print the comparison; NOTHING where nothing could be compared.

    Args:
        names: a run each, or one of the words above; without a second one two hosts of the first are compared.
        hosts: `A,B`: host A of the first run with host B of the second.

    Raises:
        FleetError: there is no such run or host, or it is not said what to compare with what.
    """
    store = Store(reports)
    figures = [name for name in names if name and name.startswith(REFERENCE)]
    runs = [name for name in names if name and not name.startswith(REFERENCE)]
    if figures and hosts is not None:
        raise ConfigError("--hosts and published figures do not go together", hint="Leave --hosts out.")
    if len(figures) == len(runs) == 1:
        return _compare_with_figures(store, runs[0], figures[0].removeprefix(REFERENCE), as_json=as_json)
    if figures:
        hint = f"Name one: fleet compare last {figures[0]}"
        raise ConfigError("published figures are compared with a run", hint=hint)
    chosen = _read_hosts(hosts) if hosts is not None else None
    if names[1] is None and chosen is None:
        hint = "Name two runs, or two hosts of one: fleet compare last --hosts gpu01,gpu02"
        raise ConfigError("there is nothing to compare the run with", hint=hint)
    left, right = (_load(store, name) for name in (names[0], names[1] or names[0]))
    for run, host in zip((left, right), chosen or (), strict=False):
        if all(planned.alias != host for planned in run.plan.hosts):
            raise SelectionError(f"run {run.plan.run_id} has no host {host}", f"See: fleet report {run.plan.run_id}")
    view = build_comparison(left, right, chosen)
    if as_json:
        sys.stdout.write(write_document(view))
    else:
        render_comparison(view, open_stdout())
    return ExitCode.OK if view.cells else ExitCode.NOTHING


def _compare_with_figures(store: Store, name: str, reference: str, *, as_json: bool) -> ExitCode:
    view = build_reference_view(_load(store, name), find_reference(reference))
    if as_json:
        sys.stdout.write(write_document(view))
    else:
        render_reference(view, open_stdout())
    return ExitCode.OK if view.count else ExitCode.NOTHING


def _load(store: Store, name: str) -> StoredRun:
    if name == BASELINE:
        return store.load(_find_pinned(store))
    return store.load(name)


def _find_pinned(store: Store) -> str:
    store.find_newest()  # that there are no runs says more than that none is pinned
    pinned = list_pinned(read_journal(store.root)[0]).get(("", ""))
    if pinned is None:
        raise SelectionError("no run is pinned as the baseline", "Pin one with: fleet baseline set RUN")
    return pinned.run_ids[-1]


def _read_hosts(text: str) -> tuple[str, str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise ConfigError("--hosts names two hosts, with a comma between them", hint="For example: --hosts gpu01,gpu02")
    return names[0], names[1]
