"""`--html`: a report as a file."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from fleet.cli.options import PageOptions
from fleet.cli.report import find_changes
from fleet.cli.words import tell
from fleet.errors import ExitCode, StoreError
from fleet.report.details import build_details
from fleet.report.html import render_html
from fleet.report.html_page import PLOTLY, read_plotly
from fleet.report.view import build_view
from fleet.store.files import write_atomic
from fleet.store.rundir import Store

_NAME = "report.html"
_ASSETS = "assets"
_FOR_ALL = 0o666
"""A page is made to be shown: who may read it is for the umask and the directory to say."""


def write_report(reports: Path, run_id: str | None, options: PageOptions) -> ExitCode:
    """Write a run's report as HTML, and print where it is; the exit code as of `print_report`.

    Raises:
        StoreError: there is no such run, it cannot be read, or the file cannot be written.
    """
    store = Store(reports)
    run = store.load(run_id)
    found = find_changes(run, store)
    view = build_view(run, found)
    details = build_details(run, view)
    file = options.output or run.path / _NAME
    run_href = _find_href(run.path, file, "/")
    put_page(reports, file, options, lambda href: render_html(view, details, run_href=run_href, plotly_href=href))
    return ExitCode.REGRESSION if found.regressions else ExitCode.OK


def put_page(reports: Path, file: Path, options: PageOptions, render: Callable[[str | None], str]) -> None:
    """Write a page, whole or not at all, print where it is, and show it where that is asked for.

    Args:
        render: the page; it is given where plotly.js lies as seen from it, None: it is to be part of the page.

    Raises:
        StoreError: it cannot be written.
    """
    plotly = _keep_plotly(reports) if options.shared else None
    page = render(_find_href(plotly, file) if plotly is not None else None)
    try:
        write_atomic(file, page.encode(), mode=_FOR_ALL)
    except StoreError as error:
        hint = "Name another file with --output." if options.output else "Name a file elsewhere with --output."
        raise StoreError(error.message, hint) from error
    sys.stdout.write(f"{file}\n")
    if options.show and not webbrowser.open(file.resolve().as_uri()):
        tell("fleet: no browser was found to open it.")


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
