"""`fleet report --html`: the report as a file."""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fleet.cli.report import find_changes
from fleet.cli.words import tell
from fleet.errors import ConfigError, ExitCode, StoreError
from fleet.report.details import build_details
from fleet.report.html import PLOTLY, read_plotly, render_html
from fleet.report.view import build_view
from fleet.store.files import write_atomic
from fleet.store.rundir import Store

_NAME = "report.html"
_ASSETS = "assets"
_FOR_ALL = 0o666
"""A page is made to be shown: who may read it is for the umask and the directory to say."""


@dataclass(frozen=True)
class PageOptions:
    output: Path | None
    """None: into the run's directory."""
    shared: bool
    """plotly.js lies once beside the runs, in place of a copy in the page."""
    show: bool
    as_json: bool


def write_page(reports: Path, run_id: str | None, options: PageOptions) -> ExitCode:
    """Write a run's report as HTML, whole or not at all, and print where it is; the exit code as of `print_report`.

    Raises:
        ConfigError: the options do not go together.
        StoreError: there is no such run, it cannot be read, or the file cannot be written.
    """
    if options.as_json:
        raise ConfigError("--json and --html do not go together.", hint="Use one or the other.")
    if options.output is not None and options.output.is_dir():
        raise ConfigError(f"{options.output} is a directory.", hint="Name a file in it with --output.")
    store = Store(reports)
    run = store.load(run_id)
    changes, regressed = find_changes(run, store)
    view = build_view(run, changes)
    details = build_details(run, view)
    file = options.output or run.path / _NAME
    plotly = _keep_plotly(reports) if options.shared else None
    page = render_html(
        view,
        details,
        run_href=_find_href(run.path, file, "/"),
        plotly_href=_find_href(plotly, file) if plotly is not None else None,
    )
    _write(file, page.encode(), options.output is not None)
    sys.stdout.write(f"{file}\n")
    if options.show and not webbrowser.open(file.resolve().as_uri()):
        tell("fleet: no browser was found to open it.")
    return ExitCode.REGRESSION if regressed else ExitCode.OK


def _keep_plotly(reports: Path) -> Path:
    """plotly.js beside the runs, where it is not there yet."""
    file = reports / _ASSETS / PLOTLY
    content = read_plotly()
    if not file.is_file() or file.read_bytes() != content:
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{file.parent}: {error.strerror}.", "Leave --assets shared out.") from error
        write_atomic(file, content, mode=_FOR_ALL)
    return file


def _find_href(target: Path, page: Path, end: str = "") -> str:
    """The address of a file or directory relative to the page; empty for the page's own directory."""
    relative = os.path.relpath(target.resolve(), page.resolve().parent)
    return "" if relative == "." else quote(Path(relative).as_posix()) + end


def _write(file: Path, content: bytes, named: bool) -> None:
    try:
        write_atomic(file, content, mode=_FOR_ALL)
    except StoreError as error:
        hint = "Name another file with --output." if named else "Name a file elsewhere with --output."
        raise StoreError(error.message, hint) from error
