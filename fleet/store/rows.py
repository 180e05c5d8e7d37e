"""A run directory as rows of the index. Values of hosts are cut and checked, so that none of them stops an import."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import StoreError
from fleet.model.disturbance import find_disturbance
from fleet.model.environment import Environment, describe_environment
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus, RunSummary, Timing
from fleet.model.suite import Cell
from fleet.model.telemetry import Telemetry
from fleet.model.text import make_inert
from fleet.store.naming import RUN_FILE
from fleet.store.reader import StoredRun, read_run
from fleet.store.tables import STATUS_CODES

Row = dict[str, object]

DAMAGED = "damaged"
"""The reason of a host whose outcome cannot be read."""

_LONGEST = 500
_HELD_DOWN = ("hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")
"""Reasons of lower clocks that are not usual under load."""


@dataclass(frozen=True)
class RunRows:
    """What the index keeps of one run."""

    run: Row
    hosts: tuple[HostRows, ...]
    """Of every planned host, by alias. One whose outcome cannot be read has its status alone."""
    cells: Mapping[str, Cell]
    """By their canonical names."""
    problems: tuple[str, ...]
    """Sentences on those."""


@dataclass(frozen=True)
class HostRows:
    """What the index keeps of one host of a run."""

    alias: str
    outcome: Row
    environment: tuple[str, Row] | None
    """Its fingerprint, and its row."""
    results: Mapping[str, Row]
    """By the canonical names of the planned cells."""


def read_rows(path: Path) -> RunRows:
    """Read the complete run in the directory `path`.

    Raises:
        StoreError: it cannot be read, or is not complete.
    """
    # The time first: what is written later is another state, and is read again.
    stamp = stamp_run(path)
    run = read_run(path)
    if stamp is None or run.summary is None:
        raise StoreError(f"run {path.name} is not complete.", f"End it first, with: fleet resume {path.name}")
    statuses = run.summary.hosts
    cells = {cell: cell.id for host in run.plan.hosts for cell in host.cells}
    hosts = sorted(run.plan.hosts, key=lambda host: host.alias)
    return RunRows(
        {**_make_run(run.plan, run.summary), "stamp": stamp},
        tuple(_make_host(run, host, [cells[cell] for cell in host.cells], statuses[host.alias]) for host in hosts),
        {name: cell for cell, name in cells.items()},
        tuple(f"run {path.name}: {problem}" for problem in run.problems.values()),
    )


def stamp_run(path: Path) -> int | None:
    """When the run in the directory `path` was completed, by its file system; None: it is not complete."""
    try:
        return (path / RUN_FILE).stat().st_mtime_ns
    except OSError:
        return None


def _make_run(plan: Plan, summary: RunSummary) -> Row:
    return {
        "run_id": plan.run_id,
        "created": _text(plan.created),
        "finished": _text(summary.finished),
        "suite": _text(plan.suite),
        "inventory": _text(plan.inventory),
        "fleet_version": _text(plan.fleet_version),
        "payload_sha256": _text(plan.payload_sha256),
        "interrupted": summary.interrupted,
        "exit_code": summary.exit_code,
        "hosts_ok": sum(status is HostStatus.OK for status in summary.hosts.values()),
        "hosts_total": len(plan.hosts),
        "cells_ok": _fit(summary.cells_ok),
        "cells_total": sum(len(host.cells) for host in plan.hosts),
    }


def _make_host(run: StoredRun, host: HostPlan, cells: Sequence[str], status: HostStatus) -> HostRows:
    alias, outcome = host.alias, run.outcomes.get(host.alias)
    if outcome is None:
        row: Row = {"status": status.value, "stage": None, "reason": DAMAGED, "job_s": None, "protocol": None}
        return HostRows(alias, row, None, {})
    protocols = {cell.protocol for cell in outcome.cells}
    row = {
        "status": outcome.status.value,
        "stage": outcome.stage.value,
        "reason": _text(outcome.reason),
        "job_s": outcome.job_s,
        "protocol": _fit(max(protocols, default=None)),
    }
    known = describe_environment(outcome, host.settings, run.plan.rules)
    environment = (known.fingerprint, _make_environment(known)) if known else None
    planned = set(cells)
    results = {cell.cell_id: _make_result(cell, outcome) for cell in outcome.cells if cell.cell_id in planned}
    return HostRows(alias, row, environment, results)


def _make_environment(known: Environment) -> Row:
    gpus = [make_inert(gpu.name or "?", _LONGEST) for gpu in known.gpus]
    kinds = [f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)]
    return {
        "product": _text(known.product),
        "kernel": _text(known.kernel),
        "os": _text(known.os),
        "cpu_model": _text(known.cpu_model),
        "gpu": _text(", ".join(kinds) or None),
        "driver": _text(known.driver),
        "image": _text(known.image),
        "tensorflow": _text(known.tensorflow),
        "fields": known.model_dump_json(),
    }


def _make_result(cell: CellResult, outcome: HostOutcome) -> Row:
    found = cell.measured if 0 in (cell.cell.batch_size, cell.cell.devices) else cell.cell
    row: Row = {
        "status": STATUS_CODES[cell.status],
        "reason": None if cell.status is CellStatus.OK else _text(cell.reason),
        "batch_size": None if cell.cell.batch_size else found.batch_size or None,
        "devices": None if cell.cell.devices else found.devices or None,
    }
    row |= _make_timing(cell.timing)
    rate = cell.throughput
    images = rate.images_per_s_total * cell.timing.total_s if rate and cell.timing else 0
    row |= _make_telemetry(cell.telemetry, images)
    row["disturbed"] = bool(find_disturbance(cell, outcome)) if cell.telemetry else None
    return row


def _make_timing(timing: Timing | None) -> Row:
    names = ("p05_bp", "p25_bp", "p75_bp", "p95_bp", "mean_bp", "ci_low_bp", "ci_high_bp")
    median = timing.quantiles_us.get("p50") if timing else None
    if timing is None or not median or median < 0:
        return {"step_ns": None, **dict.fromkeys(names), "steady": None}
    quantiles = timing.quantiles_us
    spread = [quantiles.get("p05"), quantiles.get("p25"), quantiles.get("p75"), quantiles.get("p95")]
    values = [*spread, timing.mean_us, *timing.ci95_us]
    parts = (None if value is None else _fit((value / median - 1) * 1e4) for value in values)
    return {"step_ns": _fit(median * 1e3, 63), **dict(zip(names, parts, strict=True)), "steady": timing.steady}


def _make_telemetry(telemetry: Telemetry | None, images: float) -> Row:
    names = ("energy_uj_per_image", "clock_mhz", "temperature_c", "throttled_bp")
    if telemetry is None:
        return dict.fromkeys(names)
    gpus, cpu = telemetry.gpus, telemetry.cpu
    energies = [gpu.energy_j for gpu in gpus] if gpus else [cpu.energy_j]
    known = [energy for energy in energies if energy is not None]
    # Of some GPUs alone it would pass for the energy of all.
    energy = sum(known) / images * 1e6 if images > 0 and len(known) == len(energies) else None
    clocks = [gpu.sm_mhz_p50 for gpu in gpus] if gpus else [cpu.frequency_mhz_p50]
    held = [sum(gpu.throttle_s.get(why, 0) for why in _HELD_DOWN) for gpu in gpus if gpu.throttle_s is not None]
    share = max(held) / telemetry.window_s if held and telemetry.window_s > 0 else None
    heats = [gpu.temperature_c_max for gpu in gpus if gpu.temperature_c_max is not None]
    return {
        "energy_uj_per_image": _fit(energy, 63),
        "clock_mhz": _fit(min((clock for clock in clocks if clock is not None), default=None)),
        "temperature_c": _fit(max(heats, default=None), 15),
        "throttled_bp": _fit(None if share is None else share * 1e4),
    }


def _text(value: str | None) -> str | None:
    return None if value is None else make_inert(value, _LONGEST)


def _fit(value: float | None, bits: int = 31) -> int | None:
    """The nearest integer; None for what a column of so many bits cannot hold, and no machine can have measured."""
    if value is None or not math.isfinite(value) or abs(value) >= 2**bits - 1:
        return None
    return round(value)
