"""A report for programs: other forms on stdout, and files beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.report.csv_table import render_csv
from fleet.report.junit import render_junit
from fleet.report.markdown import render_markdown
from fleet.report.prometheus import render_prometheus
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.report.view_model import Found, View
from fleet.store.files import read_regular, resolve_target, write_atomic
from fleet.store.reader import StoredRun

_MOST_BYTES = 64 << 20
"""Of an earlier file for Prometheus."""


class Form(StrEnum):
    """What stdout gets."""

    TERMINAL = "terminal"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@dataclass(frozen=True)
class Outputs:
    """What a report is made into."""

    form: Form = Form.TERMINAL
    junit: Path | None = None
    prometheus: Path | None = None


_RENDERERS: Mapping[Form, Callable[[View], str]] = {
    Form.CSV: render_csv,
    Form.MARKDOWN: render_markdown,
}


def put_out(run: StoredRun, found: Found, outputs: Outputs) -> None:
    """Print the report, and write the files.

    Args:
        found: in the run, against those before it.

    Raises:
        StoreError: a file cannot be written.
    """
    view = build_view(run, found)
    if outputs.form is Form.JSON:
        sys.stdout.write(_render_json(run, view))
    elif render := _RENDERERS.get(outputs.form):
        sys.stdout.write(render(view))
    else:
        render_terminal(view, open_stdout())
    if outputs.junit:
        _write(outputs.junit, render_junit(view))
    if outputs.prometheus:
        _write(outputs.prometheus, render_prometheus(view, _read_earlier(outputs.prometheus)))


def _render_json(run: StoredRun, view: View) -> str:
    from fleet.report.details import build_details  # with numpy, for which no other form waits
    from fleet.report.document import make_document
    from fleet.report.json_form import write_document

    return write_document(make_document(view, build_details(run, view, whole=True)))


def _read_earlier(file: Path) -> str:
    try:
        return read_regular(file, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _write(file: Path, text: str) -> None:
    # Whoever reads it (node_exporter, a CI system) is another user.
    write_atomic(resolve_target(file), text.encode(), mode=0o644)
