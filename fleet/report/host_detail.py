"""One host in full: how its cards are set, what each cell did there, and the files it gave us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fleet.model.facts import Gpu, HostFacts
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, HostOutcome
from fleet.model.telemetry import GpuTelemetry, Telemetry
from fleet.report.details_model import CardFact, CellReading, HostDetail
from fleet.report.legend import mark_entry
from fleet.report.view_model import Entry
from fleet.report.wording import make_line
from fleet.store.naming import HOSTS_DIRECTORY, OUTCOME_FILE, is_kept_name, name_directories
from fleet.store.reader import StoredRun

_MOST_VALUES = 2000
"""With more values than this in a run, a host's own table has only the cells with something to mind."""

_HOT = ("hw_slowdown", "hw_thermal", "sw_thermal", "hw_power_brake")
"""Throttling that is not usual under load."""


def build_host_details(
    run: StoredRun, entries: Mapping[tuple[str, str], Entry], *, whole: bool
) -> tuple[HostDetail, ...]:
    """Every planned host, in the order of the plan.

    Args:
        entries: the matrix's, by the alias and the cell's id as they are shown.
        whole: with all cells, however many there are.
    """
    names = name_directories(host.alias for host in run.plan.hosts)
    brief = len(entries) > _MOST_VALUES and not whole
    return tuple(_build_detail(run, host, names[host.alias], entries, brief) for host in run.plan.hosts)


def _build_detail(
    run: StoredRun, host: HostPlan, name: str, entries: Mapping[tuple[str, str], Entry], brief: bool
) -> HostDetail:
    alias = make_line(host.alias)
    outcome = run.outcomes.get(host.alias)
    here = run.path / HOSTS_DIRECTORY / name
    files = _list_files(here)
    results = {result.cell_id: result for result in outcome.cells} if outcome else {}
    cells = [
        _build_reading(make_line(cell.id), entry, results.get(cell.id), files)
        for cell in host.cells
        if (entry := entries.get((alias, make_line(cell.id)))) is not None
    ]
    kept = tuple(cell for cell in cells if not brief or cell.kind == "failure" or cell.marks)
    facts = (outcome.facts if outcome else None) or HostFacts()
    return HostDetail(
        alias=alias,
        directory=f"{HOSTS_DIRECTORY}/{name}",
        files=tuple(file for file in files if not file.startswith("cells/")),
        facts=tuple((label, value) for label, value in _list_facts(facts, outcome) if value),
        cards=tuple(_build_card(card) for card in facts.gpus),
        cells=kept,
        left_out=len(cells) - len(kept),
    )


def _list_files(directory: Path) -> tuple[str, ...]:
    """The outcome and whatever the host gave, by name; nothing else that lies there, and no links."""
    found = [path for path in (*_scan(directory), *_scan(directory / "cells")) if not path.is_symlink()]
    names = [path.relative_to(directory).as_posix() for path in found if path.is_file()]
    return tuple(name for name in sorted(names) if name == OUTCOME_FILE or is_kept_name(name))


def _scan(directory: Path) -> list[Path]:
    try:
        return [] if directory.is_symlink() else list(directory.iterdir())
    except OSError:
        return []  # a host that gave nothing has no directory


def _list_facts(facts: HostFacts, outcome: HostOutcome | None) -> Iterator[tuple[str, str]]:
    software = outcome.software if outcome else None
    yield "machine", make_line(facts.product, 80)
    yield "virtualisation", make_line(facts.virtualisation, 40)
    yield "architecture", make_line(facts.architecture, 40)
    yield "sockets", str(facts.cpu.sockets or "")
    yield "CPU governor", make_line(facts.cpu.governor, 40)
    yield "microcode", make_line(facts.cpu.microcode, 40)
    yield "NUMA nodes", str(facts.numa_nodes or "")
    if outcome and outcome.processors is not None:
        yield "processors to be used", f"{outcome.processors:.3g}"
    if outcome and outcome.memory_limit_bytes is not None:
        yield "memory to be used", f"{outcome.memory_limit_bytes / 2**30:,.1f} GiB"
    if software:
        yield "Python", make_line(software.python, 40)
        yield "cuDNN", make_line(software.cudnn, 40)
        yield "NCCL", make_line(software.nccl, 40)
        settings = sorted(software.environment.items())
        yield "environment", make_line(" ".join(f"{name}={value}" for name, value in settings), 600)


def _build_card(card: Gpu) -> CardFact:
    limit, usual = card.power_limit_w, card.power_default_w
    power = f"{limit:,.0f} W" if limit is not None else ""
    if limit is not None and usual is not None and limit < usual:
        power = f"{limit:,.0f} W of {usual:,.0f} W"
    return CardFact(
        name=make_line(card.name, 60),
        uuid=make_line(card.uuid, 60),
        vbios=make_line(card.vbios, 40),
        power=power,
        ecc=make_line(card.ecc, 20),
        mig=make_line(card.mig, 20),
        persistence=make_line(card.persistence, 20),
    )


def _build_reading(cell_id: str, entry: Entry, result: CellResult | None, files: tuple[str, ...]) -> CellReading:
    telemetry = result.telemetry if result else None
    timing = result.timing if result else None
    file = f"cells/{result.index:03d}.json" if result else ""
    slow_us = timing.quantiles_us.get("p95") if timing and entry.kind == "value" else None
    return CellReading(
        cell_id=cell_id,
        file=file if file in files else "",
        status=entry.status,
        kind=entry.kind,
        word=entry.word,
        message=entry.message,
        images_per_s=entry.images_per_s,
        step_ms=entry.step_us / 1000 if entry.step_us is not None else None,
        p95_ms=slow_us / 1000 if slow_us is not None else None,
        spread=entry.spread,
        marks=mark_entry(entry),
        clock_mhz=_find_clock(telemetry) if telemetry else None,
        power_w=_sum_known([gpu.power_w_mean for gpu in telemetry.gpus]) if telemetry else None,
        temperature_c=_find_most([gpu.temperature_c_max for gpu in telemetry.gpus]) if telemetry else None,
        throttled_s=_find_throttling(telemetry) if telemetry else None,
        memory_bytes=result.memory.peak_bytes if result and result.memory else None,
    )


def _find_clock(telemetry: Telemetry) -> float | None:
    """Of the slowest card, or of the processors where no card took part."""
    clocks = [gpu.sm_mhz_p50 for gpu in telemetry.gpus if gpu.sm_mhz_p50 is not None]
    return min(clocks) if clocks else None if telemetry.gpus else telemetry.cpu.frequency_mhz_p50


def _find_throttling(telemetry: Telemetry) -> float | None:
    if not telemetry.gpus:
        return telemetry.cpu.throttled_s
    return _find_most([_sum_heat(gpu) for gpu in telemetry.gpus])


def _sum_heat(gpu: GpuTelemetry) -> float | None:
    """The longest of the reasons: they hold at the same time."""
    return max((gpu.throttle_s.get(reason, 0.0) for reason in _HOT), default=None) if gpu.throttle_s else None


def _find_most(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum_known(values: list[float | None]) -> float | None:
    """None unless all of them are known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
