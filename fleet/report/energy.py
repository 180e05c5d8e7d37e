"""What the cells took: images per joule, and power against the card's limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from fleet.model.facts import Gpu
from fleet.model.result import CellResult, HostOutcome
from fleet.model.telemetry import Telemetry
from fleet.report.columns import build_columns, find_shared, name_family, name_workload
from fleet.report.details_model import Energy, EnergyReading, EnergyRow
from fleet.report.view_model import Matrix
from fleet.store.reader import StoredRun


def build_energy(run: StoredRun, matrix: Matrix, results: Mapping[tuple[str, str], CellResult]) -> Energy | None:
    """The cells of which energy or power is known on at least one host; None when there are none.

    Args:
        results: by the alias and the cell's id as the matrix has them.
    """
    without = find_shared(matrix.rows)
    columns = build_columns(matrix)
    outcomes = {alias: run.outcomes[alias] for alias in matrix.hosts if alias in run.outcomes}
    rows = []
    for row in matrix.rows:
        readings = tuple(
            _summarise(list(_read_all(column.aliases, row.cell_id, outcomes, results))) for column in columns
        )
        if any(readings):
            rows.append(EnergyRow(name_workload(row.cell, without), name_family(row.cell), readings))
    if not rows:
        return None
    # Of a host that tells nothing of its power there is nothing to say here.
    kept = [place for place in range(len(columns)) if any(row.readings[place] for row in rows)]
    return Energy(
        matrix.device,
        tuple(columns[place].label for place in kept),
        tuple(replace(row, readings=tuple(row.readings[place] for place in kept)) for row in rows),
    )


def _read_all(
    aliases: Sequence[str],
    cell_id: str,
    outcomes: Mapping[str, HostOutcome],
    results: Mapping[tuple[str, str], CellResult],
) -> Iterator[EnergyReading]:
    for alias in aliases:
        outcome, result = outcomes.get(alias), results.get((alias, cell_id))
        if outcome is not None and result is not None and (reading := read_energy(result, outcome)) is not None:
            yield reading


def read_energy(result: CellResult, outcome: HostOutcome) -> EnergyReading | None:
    """What one cell took; None when neither energy nor power is known."""
    if result.telemetry is None or result.throughput is None:
        return None
    telemetry = result.telemetry
    joules = _sum_joules(telemetry)
    images = result.throughput.images_per_s_total * telemetry.window_s
    powers = [gpu.power_w_mean for gpu in telemetry.gpus if gpu.power_w_mean is not None]
    if not telemetry.gpus and joules is not None and telemetry.window_s > 0:
        powers = [joules / telemetry.window_s]
    shares = [
        gpu.power_w_mean / limit
        for gpu in telemetry.gpus
        if gpu.power_w_mean is not None and (limit := find_limit(gpu.uuid, outcome)) is not None
    ]
    if joules is None and not powers:
        return None
    return EnergyReading(
        images_per_j=images / joules if joules else None,
        power_w=sum(powers) / len(powers) if powers else None,
        limit_share=max(shares, default=None),
    )


def _sum_joules(telemetry: Telemetry) -> float | None:
    """Of all cards that took part, or of the processors where there is no card; None when one of them is not known."""
    energies = [gpu.energy_j for gpu in telemetry.gpus] or [telemetry.cpu.energy_j]
    known = [energy for energy in energies if energy is not None and energy > 0]
    return sum(known) if len(known) == len(energies) else None


def find_limit(uuid: str, outcome: HostOutcome) -> float | None:
    """A card's power limit in force, in watts; None: not known."""
    cards: tuple[Gpu, ...] = outcome.facts.gpus if outcome.facts else ()
    limit = next((card.power_limit_w for card in cards if card.uuid == uuid), None)
    return limit if limit else None


def _summarise(readings: Sequence[EnergyReading]) -> EnergyReading | None:
    if not readings:
        return None
    return EnergyReading(
        _find_middle([reading.images_per_j for reading in readings]),
        _find_middle([reading.power_w for reading in readings]),
        max((reading.limit_share for reading in readings if reading.limit_share is not None), default=None),
    )


def _find_middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
