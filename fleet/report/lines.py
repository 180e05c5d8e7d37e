"""A view as flat lines, one for each cell on each host: what tables, test reports and metrics are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.model.suite import Cell
from fleet.report.view_model import Entry, Row, View


@dataclass(frozen=True)
class Line:
    """One planned cell on one host."""

    host: str
    cell_id: str
    cell: Cell
    entry: Entry


def list_lines(view: View) -> Iterator[Line]:
    """All that was planned, in the order of the matrices: cell by cell, host by host."""
    for matrix in view.matrices:
        for row in matrix.rows:
            yield from _list_row(row)


def _list_row(row: Row) -> Iterator[Line]:
    for entry in row.entries:
        if entry.kind != "unplanned":
            yield Line(entry.alias, row.cell_id, row.cell, entry)
