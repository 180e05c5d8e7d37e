"""Rates over numbers of devices, and how much of N times one is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.model.suite import Cell
from fleet.report.columns import Column, build_columns, find_shared, name_workload
from fleet.report.details_model import ScalingCurve, ScalingLine, ScalingPoint
from fleet.report.view_model import Matrix


def build_scaling(matrix: Matrix) -> Iterator[ScalingCurve]:
    """One curve for each workload that has a value on at least two numbers of devices of one host."""
    families: dict[Cell, list[int]] = {}
    for place, row in enumerate(matrix.rows):
        families.setdefault(row.cell.model_copy(update={"devices": 1}), []).append(place)
    without = find_shared(matrix.rows) | {"devices"}
    columns = build_columns(matrix)
    for cell, places in families.items():
        # On one device there is nothing to exchange: what exchanges nothing on several begins at the same point.
        alone = cell.model_copy(update={"variable_update": "replicated"})
        first = [place for place in families.get(alone, []) if matrix.rows[place].cell.devices == 1]
        used = list(dict.fromkeys([*first, *places]))
        lines = [line for column in columns if (line := _build_line(column, used, matrix)) is not None]
        if lines:
            yield ScalingCurve(name_workload(cell, without), tuple(lines))


def _build_line(column: Column, places: Sequence[int], matrix: Matrix) -> ScalingLine | None:
    found: dict[int, ScalingPoint] = {}
    for place in places:
        reading, planned = column.readings[place], matrix.rows[place].cell.devices
        devices = planned or reading.devices
        if devices and reading.kind != "unplanned" and (planned or devices not in found):
            found[devices] = ScalingPoint(devices, reading.images_per_s, word=reading.word, kind=reading.kind)
    per_device = {
        devices: point.images_per_s / devices
        for devices, point in found.items()
        if point.images_per_s is not None and point.images_per_s > 0
    }
    if len(per_device) < 2:
        return None
    base = min(per_device)
    points = tuple(
        ScalingPoint(
            devices,
            found[devices].images_per_s,
            per_device[devices] / per_device[base] if devices in per_device else None,
            found[devices].word,
            found[devices].kind,
        )
        for devices in sorted(found)
    )
    return ScalingLine(column.label, base, points)
