"""`fleet schema`: the JSON Schema of every document that a command prints with `--json`."""

from __future__ import annotations

import json
import sys

from rich.text import Text

from fleet.cli.clean import CleanedList
from fleet.cli.consoles import open_stdout
from fleet.cli.models import ModelList
from fleet.cli.ping import PongList
from fleet.cli.push_image import PushList
from fleet.cli.status import RunNow
from fleet.errors import ConfigError
from fleet.model.plan import Plan
from fleet.report.comparison_view import ComparisonView
from fleet.report.document import ReportDocument
from fleet.report.incident_view import BaselineView, IncidentList
from fleet.report.json_form import make_schema, name_schema
from fleet.report.outlier_view import OutlierView
from fleet.report.reference_view import ReferenceView
from fleet.report.run_details import RunDetails
from fleet.report.runs import RunList
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.trend_view import TrendView

DOCUMENTS: tuple[tuple[type, str], ...] = (
    (ReportDocument, "fleet report, and of a run: fleet run, fleet resume, fleet cancel"),
    (ComparisonView, "fleet compare"),
    (ReferenceView, "fleet compare RUN reference:SET"),
    (OutlierView, "fleet outliers"),
    (TrendView, "fleet trend"),
    (IncidentList, "fleet incidents"),
    (BaselineView, "fleet baseline show"),
    (RunList, "fleet runs"),
    (RunDetails, "fleet runs show"),
    (RunNow, "fleet status"),
    (Plan, "fleet run --dry-run"),
    (PongList, "fleet ping"),
    (PushList, "fleet push-image"),
    (CleanedList, "fleet clean"),
    (ModelList, "fleet models"),
)
"""Each kind, and who prints it."""


def print_schema(name: str | None, *, as_json: bool) -> None:
    """One schema, or which there are, on stdout.

    Args:
        name: `report`, or `fleet.report/1` as the document itself says; None: all.

    Raises:
        ConfigError: there is no such document.
    """
    kinds = {name_schema(kind): kind for kind, _ in DOCUMENTS}
    if name is not None:
        kind = next((kind for full, kind in kinds.items() if name in {full, shorten_name(full)}), None)
        if kind is None:
            raise ConfigError(f"there is no document {name[:80]!r}", hint="See which there are with: fleet schema")
        _write(make_schema(kind))
    elif as_json:
        _write({full: make_schema(kind) for full, kind in kinds.items()})
    else:
        _print_names()


def shorten_name(full: str) -> str:
    """`report`, of `fleet.report/1`."""
    return full.removeprefix("fleet.").partition("/")[0]


def _write(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")


def _print_names() -> None:
    console = open_stdout()
    ink = Ink.of(console)
    names: list[Text] = [ink.text(shorten_name(name_schema(kind)), "bold") for kind, _ in DOCUMENTS]
    columns = [
        Column(ink.text("document"), tuple(ink.text(name_schema(kind)) for kind, _ in DOCUMENTS)),
        Column(ink.text("printed with --json by"), tuple(ink.text(by) for _, by in DOCUMENTS), widest=40),
    ]
    print_blocks(console, [Column(ink.text("name"), tuple(names))], columns, even=False, gap=False)
