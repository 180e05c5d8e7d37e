"""What a lower precision gains over fp32 on the same host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fleet.model.suite import Cell
from fleet.report.columns import Reading, build_columns, find_shared, name_family, name_workload
from fleet.report.details_model import PrecisionGain, PrecisionRow, Ratio
from fleet.report.view_model import Matrix


def build_precision_gain(matrix: Matrix) -> PrecisionGain | None:
    """Every workload that is measured in fp32 and in something else, on at least one host; None when there is none."""
    places = {row.cell: place for place, row in enumerate(matrix.rows)}
    without = find_shared(matrix.rows) | {"precision"}
    columns = build_columns(matrix)
    rows = []
    for cell, place in places.items():
        base = places.get(_in_fp32(cell))
        if base is None or base == place:
            continue
        ratios = tuple(divide(column.readings[place], column.readings[base]) for column in columns)
        if find_known([ratios]):
            rows.append(PrecisionRow(name_workload(cell, without), name_family(cell), cell.precision, ratios))
    kept = find_known([row.ratios for row in rows])
    if not kept:
        return None
    return PrecisionGain(
        matrix.device,
        tuple(columns[place].label for place in kept),
        tuple(replace(row, ratios=tuple(row.ratios[place] for place in kept)) for row in rows),
    )


def _in_fp32(cell: Cell) -> Cell:
    return cell.model_copy(update={"precision": "fp32"})


def find_known(rows: Sequence[Sequence[Ratio]]) -> list[int]:
    """Places of the columns in which a row has a value: of a host without any there is nothing to say here."""
    return sorted({place for row in rows for place, ratio in enumerate(row) if ratio.value is not None})


def divide(above: Reading, below: Reading) -> Ratio:
    """One rate ÷ another, or why there is no quotient: the word of the one that is missing."""
    if above.images_per_s is None or below.images_per_s is None:
        return Ratio(None, above.word or below.word)
    value = above.images_per_s / below.images_per_s if below.images_per_s > 0 else math.inf
    return Ratio(value if math.isfinite(value) else None)
