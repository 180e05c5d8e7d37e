"""How many times as fast as a CPU host one GPU is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.model.suite import Cell
from fleet.report.columns import Column, Reading, build_group_columns, find_shared, name_workload
from fleet.report.details_model import DeviceRatios, DeviceRow
from fleet.report.precision_gain import divide, find_known
from fleet.report.view_model import Matrix, Row

_OWN = {"batch_size": 1, "data_format": "NHWC", "devices": 1, "device": "cpu"}
"""What may differ between the two sides of one comparison."""


@dataclass(frozen=True)
class _Side:
    """The rows of one workload in one matrix, and the matrix's columns."""

    rows: dict[int, int]
    """Batch size → place of the row."""
    columns: tuple[Column, ...]

    def find_fastest(self, column: Column, batches: Sequence[int]) -> tuple[int, Reading] | None:
        """The batch size, of these, with the highest rate, and its reading."""
        found = [(size, column.readings[self.rows[size]]) for size in batches]
        known = [(size, reading) for size, reading in found if reading.images_per_s is not None]
        return max(known, key=lambda pair: pair[1].images_per_s or 0, default=None)


def build_device_ratios(matrices: Sequence[Matrix]) -> DeviceRatios | None:
    """Workloads that are measured on CPUs and on one GPU, by kinds of hardware; None when there are none.

    Both sides take the same batch size where one is measured on both (of several the largest), else the fastest each.
    """
    by_device = {matrix.device: matrix for matrix in matrices}
    if set(by_device) != {"cpu", "gpu"}:
        return None
    cpu, gpu = by_device["cpu"], by_device["gpu"]
    cpu_columns, gpu_columns = build_group_columns(cpu), build_group_columns(gpu)
    cpu_rows, gpu_rows = _collect(cpu.rows), _collect(gpu.rows)
    without = find_shared([*cpu.rows, *gpu.rows]) | {"batch_size", "devices", "data_format"}
    rows: list[DeviceRow] = []
    for workload in (cell for cell in gpu_rows if cell in cpu_rows):
        sides = _Side(cpu_rows[workload], cpu_columns), _Side(gpu_rows[workload], gpu_columns)
        rows += _compare(name_workload(workload, without), *sides)
    kept = find_known([row.ratios for row in rows])
    if not kept:
        return None
    return DeviceRatios(
        tuple(gpu_columns[place].label for place in kept),
        tuple(replace(row, ratios=tuple(row.ratios[place] for place in kept)) for row in rows),
    )


def _collect(rows: Sequence[Row]) -> dict[Cell, dict[int, int]]:
    """Workload → batch size → place of its row; cells on several devices and open batch sizes are left out."""
    found: dict[Cell, dict[int, int]] = {}
    for place, row in enumerate(rows):
        if row.cell.devices == 1 and row.cell.batch_size:
            found.setdefault(row.cell.model_copy(update=_OWN), {})[row.cell.batch_size] = place
    return found


def _compare(workload: str, cpu: _Side, gpu: _Side) -> list[DeviceRow]:
    common = [max(set(cpu.rows) & set(gpu.rows))] if set(cpu.rows) & set(gpu.rows) else []
    fastest = [gpu.find_fastest(column, common or list(gpu.rows)) for column in gpu.columns]
    if not any(fastest):
        return []
    rows = []
    for column in cpu.columns:
        base = cpu.find_fastest(column, common or list(cpu.rows))
        if base is None or not base[1].images_per_s:
            continue
        missing = [each.readings[min(gpu.rows.values())] for each in gpu.columns]
        ratios = tuple(
            divide(found[1] if found else lacking, base[1]) for found, lacking in zip(fastest, missing, strict=True)
        )
        sizes = sorted({found[0] for found in fastest if found})
        batches = (
            f"batch {common[0]} on both"
            if common
            else f"batch {base[0]} on the CPU, {' or '.join(map(str, sizes))} on the GPU"
        )
        rows.append(DeviceRow(workload, column.label, base[1].images_per_s, batches, ratios))
    return rows
