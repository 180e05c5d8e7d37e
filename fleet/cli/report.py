"""`fleet report`: what was measured, again and again."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.report.document import render_json
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store


def print_report(reports: Path, run_id: str | None, *, as_json: bool) -> None:
    """One run's report, on stdout.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    print_run(Store(reports).load(run_id), as_json=as_json)


def print_run(run: StoredRun, *, as_json: bool) -> None:
    """The report of a run that is loaded, on stdout."""
    view = build_view(run)
    if as_json:
        sys.stdout.write(render_json(view))
    else:
        render_terminal(view, open_stdout())
