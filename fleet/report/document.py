"""A report for programs: its view and its details as one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.model.suite import Cell, Device
from fleet.report.details_model import Details
from fleet.report.view_model import (
    Entry,
    FailureLine,
    GroupEntry,
    HardwareGroup,
    HostRow,
    Matrix,
    RunHead,
    SettingLine,
    VerdictLine,
    View,
)


@dataclass(frozen=True)
class RowDocument:
    """One cell across hosts."""

    cell_id: str
    cell: Cell
    results: tuple[Entry, ...]
    """One per host of the matrix, in its order."""
    by_hardware: tuple[GroupEntry, ...]
    """One per set of identical hosts, in their order."""


@dataclass(frozen=True)
class MatrixDocument:
    """The hosts of one kind of device, and the cells planned for them."""

    device: Device
    hosts: tuple[str, ...]
    hardware: tuple[HardwareGroup, ...]
    rows: tuple[RowDocument, ...]


@dataclass(frozen=True)
class ReportDocument:
    """A run. Rates are images per second, times and sizes carry their unit in the key; unknown is null or an empty
    string."""

    run: RunHead
    verdict: VerdictLine
    matrices: tuple[MatrixDocument, ...]
    hosts: tuple[HostRow, ...]
    failures: tuple[FailureLine, ...]
    notes: tuple[str, ...]
    legend: Mapping[str, str]
    """Word in place of a value → what it means, for the words that occur."""
    to_come: str
    """Of which hosts nothing is known yet, and the command that goes on from there; empty: of none."""
    changes: tuple[str, ...]
    """What this run changed against those before it, a line each; empty: it was not held against any."""
    settings: tuple[SettingLine, ...]
    """How hosts are set, what is broken first."""
    details: Details
    schema: Literal["fleet.report/1"] = "fleet.report/1"


def make_document(view: View, details: Details) -> ReportDocument:
    """The report of a run; the same view and details give the same document."""
    return ReportDocument(
        run=view.run,
        verdict=view.verdict,
        matrices=tuple(_describe_matrix(matrix) for matrix in view.matrices),
        hosts=view.hosts,
        failures=view.failures,
        notes=view.notes,
        legend=view.legend,
        to_come=view.to_come,
        changes=view.changes,
        settings=view.settings,
        details=details,
    )


def _describe_matrix(matrix: Matrix) -> MatrixDocument:
    rows = tuple(RowDocument(row.cell_id, row.cell, row.entries, row.groups) for row in matrix.rows)
    return MatrixDocument(matrix.device, matrix.hosts, matrix.groups, rows)
