"""`fleet outliers`: who is slow among identical hosts."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.errors import ExitCode
from fleet.report.json_form import write_document
from fleet.report.outlier_view import build_outliers
from fleet.report.terminal_outliers import render_outliers
from fleet.store.rundir import Store


def print_outliers(reports: Path, run_id: str | None, *, as_json: bool) -> ExitCode:
    """The odd ones of a run, on stdout; NOTHING where it measured nothing.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    view = build_outliers(Store(reports).load(run_id))
    if as_json:
        sys.stdout.write(write_document(view))
    else:
        render_outliers(view, open_stdout())
    return ExitCode.OK if view.measured else ExitCode.NOTHING
