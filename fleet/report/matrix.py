"""The cross-machine matrix of a view: cells × hosts, and cells × groups of identical hardware."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import get_args

from fleet.analysis.cohort import group_by_hardware
from fleet.analysis.ranking import Estimate, estimate_median, estimate_rate, find_best, relative_spread, summarise
from fleet.analysis.verdict import NO_OUTCOME, is_measured
from fleet.model.disturbance import find_disturbance
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus
from fleet.model.suite import Cell, Device, Phase, Precision
from fleet.report.view_model import Entry, GroupEntry, HardwareGroup, Matrix, Row, WordCount
from fleet.report.wording import make_line, name_hardware, say_cell, say_found, say_sentence, say_status
from fleet.store.reader import StoredRun

_DEVICES: tuple[Device, ...] = ("gpu", "cpu")
_PHASES: tuple[Phase, ...] = get_args(Phase)
_PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def build_matrices(run: StoredRun, slower: Set[tuple[str, str]] = frozenset()) -> tuple[Matrix, ...]:
    """One matrix per kind of device that has cells: GPUs and CPUs are on scales of their own.

    Args:
        slower: as in `Found`.
    """
    return tuple(matrix for device in _DEVICES if (matrix := _build_matrix(run, device, slower)) is not None)


def _build_matrix(run: StoredRun, device: Device, slower: Set[tuple[str, str]]) -> Matrix | None:
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
    columns = [_Column.of(host, run.outcomes.get(host.alias), slower) for host in hosts]
    rows = tuple(_build_row(cell, columns, groups) for cell in ordered)
    return Matrix(device, tuple(make_line(host.alias) for host in hosts), groups, rows)


def _order(cell: Cell) -> tuple[object, ...]:
    """Within a model: phase, then what one compares side by side."""
    phase, precision = _PHASES.index(cell.phase), _PRECISIONS.index(cell.precision)
    return (phase, precision, cell.devices, cell.batch_size, cell.data_format, cell.variants)


@dataclass(frozen=True)
class _Column:
    """One host, its cells and results by id: a run may have hundreds of hosts with as many cells."""

    alias: str
    planned: frozenset[str]
    outcome: HostOutcome | None
    results: Mapping[str, CellResult]
    slower: Set[tuple[str, str]]

    @classmethod
    def of(cls, host: HostPlan, outcome: HostOutcome | None, slower: Set[tuple[str, str]]) -> _Column:
        # The first counts, should there be two of one cell.
        results = {result.cell_id: result for result in reversed(outcome.cells)} if outcome else {}
        return cls(host.alias, frozenset(cell.id for cell in host.cells), outcome, results, slower)


def _build_row(cell: Cell, columns: Sequence[_Column], groups: Sequence[HardwareGroup]) -> Row:
    entries = [_build_entry(cell.id, column) for column in columns]
    best = find_best({entry.alias: estimate for entry in entries if (estimate := _read_estimate(entry)) is not None})
    marked = tuple(_mark(entry) if entry.alias in best else entry for entry in entries)
    shown = cell.model_copy(update={"model": make_line(cell.model, 80)})
    return Row(make_line(cell.id), shown, marked, _build_groups(marked, groups))


def _mark(entry: Entry) -> Entry:
    return Entry(**{**vars(entry), "best": True})


def _read_estimate(entry: Entry) -> Estimate | None:
    if entry.images_per_s is None or entry.images_per_s_low is None:
        return None
    high = math.inf if entry.images_per_s_high is None else entry.images_per_s_high
    return Estimate(entry.images_per_s, entry.images_per_s_low, high)


def _build_entry(cell_id: str, column: _Column) -> Entry:
    alias, outcome = make_line(column.alias), column.outcome
    if cell_id not in column.planned:
        return Entry(alias, "unplanned")
    if outcome is None:
        return Entry(alias, "failure", say_status(NO_OUTCOME), status=NO_OUTCOME)
    result = column.results.get(cell_id)
    if result is not None and is_measured(result):
        slower = not column.slower.isdisjoint({(column.alias, cell_id), (column.alias, "")})
        return _build_value(alias, result, outcome, slower)
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
        message=say_sentence(make_line(result.message, 600), column.alias),
    )


def _build_value(alias: str, result: CellResult, outcome: HostOutcome, slower: bool) -> Entry:
    timing, throughput = result.timing, result.throughput
    estimate = estimate_rate(throughput.images_per_s, timing) if throughput else None
    return Entry(
        alias,
        "value",
        images_per_s=_keep_finite(estimate.value) if estimate else None,
        images_per_s_low=_keep_finite(estimate.low) if estimate else None,
        images_per_s_high=_keep_finite(estimate.high) if estimate else None,
        images_per_s_total=throughput.images_per_s_total if throughput else None,
        step_us=timing.quantiles_us.get("p50") if timing else None,
        spread=_keep_finite(relative_spread(timing)) if timing else None,
        steady=timing.steady if timing else None,
        disturbed=make_line(find_disturbance(result, outcome), 120),
        slower=slower,
        steps=timing.steps - timing.dropped_steps if timing else None,
        found=say_found(result),
        batch_size=result.measured.batch_size or None,
        devices=result.measured.devices or None,
        status=result.status.value,
    )


def _keep_finite(value: float | None) -> float | None:
    """None for an infinity, or what infinities make: a stored figure may be as large as a number can be."""
    return value if value is not None and math.isfinite(value) else None


def _build_groups(entries: Sequence[Entry], groups: Sequence[HardwareGroup]) -> tuple[GroupEntry, ...]:
    by_alias = {entry.alias: entry for entry in entries}
    members = [[by_alias[alias] for alias in group.aliases] for group in groups]
    estimates = {}
    for place, group in enumerate(members):
        known = [estimate for entry in group if (estimate := _read_estimate(entry)) is not None]
        if (middle := estimate_median(known)) is not None:
            estimates[str(place)] = middle
    best = find_best(estimates)
    return tuple(_summarise_group(group, str(place) in best) for place, group in enumerate(members))


def _summarise_group(entries: Sequence[Entry], best: bool) -> GroupEntry:
    values = {entry.alias: entry.images_per_s for entry in entries if entry.images_per_s is not None}
    counted = Counter((entry.word, entry.kind) for entry in entries if entry.word).most_common()
    words = tuple(WordCount(word, count, kind) for (word, kind), count in counted)
    spread = summarise(values)
    if spread is None:
        return GroupEntry(0, words=words)
    slowest = spread.slowest if spread.count > 1 else ""
    middle = _keep_finite(spread.median)
    found = tuple(dict.fromkeys(entry.found for entry in entries if entry.found))
    return GroupEntry(spread.count, middle, spread.lowest, spread.highest, slowest, best, found, words)
