"""The cross-machine matrix of a view: cells × hosts, and cells × groups of identical hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from fleet.analysis.cohort import group_by_hardware
from fleet.analysis.ranking import find_best, relative_spread, summarise
from fleet.analysis.verdict import NO_OUTCOME, is_measured
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus
from fleet.model.suite import Cell, Device, Phase, Precision
from fleet.report.view_model import Entry, GroupEntry, HardwareGroup, Matrix, Row, WordCount
from fleet.report.wording import make_line, name_hardware, say_cell, say_status
from fleet.store.reader import StoredRun

_DEVICES: tuple[Device, ...] = ("gpu", "cpu")
_PHASES: tuple[Phase, ...] = get_args(Phase)
_PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def build_matrices(run: StoredRun) -> tuple[Matrix, ...]:
    """One matrix per kind of device that has cells: GPUs and CPUs are on scales of their own."""
    return tuple(matrix for device in _DEVICES if (matrix := _build_matrix(run, device)) is not None)


def _build_matrix(run: StoredRun, device: Device) -> Matrix | None:
    hosts = [host for host in run.plan.hosts if any(cell.device == device for cell in host.cells)]
    cells = {cell.id: cell for host in hosts for cell in host.cells if cell.device == device}
    if not cells:
        return None
    facts = {host.alias: outcome.facts if (outcome := run.outcomes.get(host.alias)) else None for host in hosts}
    groups = tuple(
        HardwareGroup(name_hardware(cohort.facts), tuple(make_line(alias) for alias in cohort.aliases))
        for cohort in group_by_hardware(facts)
    )
    models = list(dict.fromkeys(cell.model for cell in cells.values()))
    ordered = sorted(cells.values(), key=lambda cell: (models.index(cell.model), *_order(cell)))
    rows = tuple(_build_row(cell, hosts, run, groups) for cell in ordered)
    return Matrix(device, tuple(make_line(host.alias) for host in hosts), groups, rows)


def _order(cell: Cell) -> tuple[object, ...]:
    """Within a model: phase, then what one compares side by side."""
    phase, precision = _PHASES.index(cell.phase), _PRECISIONS.index(cell.precision)
    return (phase, precision, cell.devices, cell.batch_size, cell.data_format, cell.variants)


def _build_row(cell: Cell, hosts: Sequence[HostPlan], run: StoredRun, groups: Sequence[HardwareGroup]) -> Row:
    entries = [_build_entry(cell, host, run.outcomes.get(host.alias)) for host in hosts]
    values = {entry.alias: entry.images_per_s for entry in entries if entry.images_per_s is not None}
    best = find_best(values)
    marked = tuple(_mark(entry) if entry.alias in best else entry for entry in entries)
    shown = cell.model_copy(update={"model": make_line(cell.model, 80)})
    return Row(make_line(cell.id), shown, marked, _build_groups(marked, groups))


def _mark(entry: Entry) -> Entry:
    return Entry(**{**vars(entry), "best": True})


def _build_entry(cell: Cell, host: HostPlan, outcome: HostOutcome | None) -> Entry:
    alias = make_line(host.alias)
    if all(planned.id != cell.id for planned in host.cells):
        return Entry(alias, "unplanned")
    if outcome is None:
        return Entry(alias, "failure", say_status(NO_OUTCOME), status=NO_OUTCOME)
    result = next((found for found in outcome.cells if found.cell_id == cell.id), None)
    if result is not None and is_measured(result):
        return _build_value(alias, result)
    gone = result is None or result.status is CellStatus.LOST
    if gone and outcome.status not in {HostStatus.OK, HostStatus.PARTIAL}:
        # That the document is missing is no news; why the host has none is.
        return Entry(alias, "failure", say_status(outcome.status), status=outcome.status.value)
    if result is None:
        return Entry(alias, "failure", "lost", status=CellStatus.LOST.value)
    return Entry(
        alias,
        "failure" if result.failed or result.status is CellStatus.OK else "result",
        "no value" if result.status is CellStatus.OK else say_cell(result),
        status=result.status.value,
        reason=make_line(result.reason, 80),
        message=make_line(result.message),
    )


def _build_value(alias: str, result: CellResult) -> Entry:
    timing, throughput = result.timing, result.throughput
    return Entry(
        alias,
        "value",
        images_per_s=throughput.images_per_s if throughput else None,
        images_per_s_total=throughput.images_per_s_total if throughput else None,
        step_us=timing.quantiles_us.get("p50") if timing else None,
        spread=relative_spread(timing) if timing else None,
        steady=timing.steady if timing else None,
        status=result.status.value,
    )


def _build_groups(entries: Sequence[Entry], groups: Sequence[HardwareGroup]) -> tuple[GroupEntry, ...]:
    by_alias = {entry.alias: entry for entry in entries}
    built = [_summarise_group([by_alias[alias] for alias in group.aliases]) for group in groups]
    medians = {str(place): entry.median for place, entry in enumerate(built) if entry.median is not None}
    best = find_best(medians)
    return tuple(
        GroupEntry(**{**vars(entry), "best": True}) if str(place) in best else entry
        for place, entry in enumerate(built)
    )


def _summarise_group(entries: Sequence[Entry]) -> GroupEntry:
    values = {entry.alias: entry.images_per_s for entry in entries if entry.images_per_s is not None}
    counted = Counter((entry.word, entry.kind) for entry in entries if entry.word).most_common()
    words = tuple(WordCount(word, count, kind) for (word, kind), count in counted)
    spread = summarise(values)
    if spread is None:
        return GroupEntry(0, words=words)
    slowest = spread.slowest if spread.count > 1 else ""
    return GroupEntry(spread.count, spread.median, spread.lowest, spread.highest, slowest, words=words)
