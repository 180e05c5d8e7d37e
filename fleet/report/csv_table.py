"""A view as CSV: a line for each cell on each host."""

from __future__ import annotations

import csv
import io

from fleet.report.lines import Line, list_lines
from fleet.report.view_model import View

COLUMNS = (
    "run_id",
    "created",
    "suite",
    "host",
    "cell_id",
    "model",
    "phase",
    "precision",
    "batch_size",
    "device",
    "devices",
    "data_format",
    "variants",
    "found",
    "status",
    "reason",
    "images_per_s",
    "images_per_s_low",
    "images_per_s_high",
    "images_per_s_total",
    "step_us",
    "spread",
    "steady",
    "disturbed",
    "slower",
    "steps",
    "message",
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet would take for a formula (OWASP, CSV Injection)."""


def render_csv(view: View) -> str:
    """The report as CSV (RFC 4180, but for the line ends, which are `\\n`), with a head line.

    Rates are images per second, `step_us` is the median step; what is not known is empty. A text that a spreadsheet
    would take for a formula has a `'` before it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in list_lines(view):
        writer.writerow([_write(value) for value in _describe(view, line)])
    return out.getvalue()


def _describe(view: View, line: Line) -> tuple[object, ...]:
    cell, entry = line.cell, line.entry
    return (
        view.run.run_id,
        view.run.created,
        view.run.suite,
        line.host,
        line.cell_id,
        cell.model,
        cell.phase,
        cell.precision,
        cell.batch_size or None,
        cell.device,
        cell.devices or None,
        cell.data_format,
        " ".join(cell.variants),
        entry.found,
        entry.status,
        entry.reason,
        entry.images_per_s,
        entry.images_per_s_low,
        entry.images_per_s_high,
        entry.images_per_s_total,
        entry.step_us,
        entry.spread,
        entry.steady,
        entry.disturbed,
        entry.slower if entry.kind == "value" else None,
        entry.steps,
        entry.message,
    )


def _write(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
