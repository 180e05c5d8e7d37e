"""Rates over batch sizes, up to what does not fit any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.model.suite import Cell
from fleet.report.columns import Column, Reading, build_columns, find_shared, name_workload
from fleet.report.details_model import BatchCurve, BatchLine, BatchPoint
from fleet.report.view_model import Matrix

_ENOUGH = 0.95
"""The part of the highest rate from which on a larger batch is hardly worth its memory."""


def build_batch_curves(matrix: Matrix) -> Iterator[BatchCurve]:
    """One curve for each workload of which at least two batch sizes have a value on one host."""
    families: dict[Cell, list[int]] = {}
    for place, row in enumerate(matrix.rows):
        families.setdefault(row.cell.model_copy(update={"batch_size": 1}), []).append(place)
    without = find_shared(matrix.rows) | {"batch_size"}
    columns = build_columns(matrix)
    for cell, places in families.items():
        lines = [line for column in columns if (line := _build_line(column, places, matrix)) is not None]
        if any(sum(point.images_per_s is not None for point in line.points) > 1 for line in lines):
            yield BatchCurve(matrix.device, name_workload(cell, without), tuple(lines))


def _build_line(column: Column, places: Sequence[int], matrix: Matrix) -> BatchLine | None:
    points: dict[int, BatchPoint] = {}
    for place in places:
        reading, planned = column.readings[place], matrix.rows[place].cell.batch_size
        size = planned or reading.batch_size
        # A size that was looked for and is among the planned ones says nothing more than that one.
        if size and reading.kind != "unplanned" and (planned or size not in points):
            points[size] = _build_point(size, reading)
    ordered = tuple(points[size] for size in sorted(points))
    rates = {point.batch_size: point.images_per_s for point in ordered if point.images_per_s is not None}
    if not ordered or not (rates or any(point.kind == "result" for point in ordered)):
        return None
    best = max(rates, key=lambda size: rates[size], default=None)
    enough = min((size for size in rates if best and rates[size] >= _ENOUGH * rates[best]), default=None)
    ends = min((point.batch_size for point in ordered if point.word.endswith("OOM")), default=None)
    return BatchLine(column.label, ordered, best, enough, ends)


def _build_point(size: int, reading: Reading) -> BatchPoint:
    return BatchPoint(size, reading.images_per_s, reading.word, reading.kind)
