"""A report for programs: other forms on stdout, and files beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.report.csv_table import render_csv
from fleet.report.document import render_json
from fleet.report.junit import render_junit
from fleet.report.markdown import render_markdown
from fleet.report.prometheus import render_prometheus
from fleet.report.terminal import render_terminal
from fleet.report.view_model import View
from fleet.store.files import read_regular, resolve_target, write_atomic

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
    Form.JSON: render_json,
    Form.CSV: render_csv,
    Form.MARKDOWN: render_markdown,
}


def put_out(view: View, outputs: Outputs) -> None:
    """Print the report, and write the files.

    Raises:
        StoreError: a file cannot be written.
    """
    if render := _RENDERERS.get(outputs.form):
        sys.stdout.write(render(view))
    else:
        render_terminal(view, open_stdout())
    if outputs.junit:
        _write(outputs.junit, render_junit(view))
    if outputs.prometheus:
        _write(outputs.prometheus, render_prometheus(view, _read_earlier(outputs.prometheus)))


def _read_earlier(file: Path) -> str:
    try:
        return read_regular(file, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _write(file: Path, text: str) -> None:
    # Whoever reads it (node_exporter, a CI system) is another user.
    write_atomic(resolve_target(file), text.encode(), mode=0o644)
