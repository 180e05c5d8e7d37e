"""The documents a job leaves: each is of this very job and says what it must, or it does not count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.host.documents import Document, DocumentError, parse_document
from fleet.model.base import Record
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, Stage, Throughput, Timing
from fleet.model.suite import Cell
from fleet.model.text import make_inert


class ExitRecord(Record):
    """`exit.json`: how the supervisor saw the job end."""

    job_id: str
    stage: Stage
    reason: Literal["exited", "deadline", "cancelled", "launch_failed", "pull_failed", "gone"]
    exit_status: int | None = None
    started_unix_s: int | None = None
    finished_unix_s: int


class ContainerState(Record):
    """The part of `docker inspect` that is needed."""

    OOMKilled: bool = False
    Error: str = ""


class ImageRecord(Record):
    """What really ran."""

    id: str
    repo_digests: list[str] | None = None


@dataclass(frozen=True)
class Expectation:
    """What documents of this job must say of themselves."""

    plan: HostPlan
    run_id: str
    payload_sha256: str


def read_cells(expected: Expectation, files: Mapping[str, bytes]) -> tuple[tuple[CellResult, ...], list[str]]:
    """One result for every planned cell, and what was wrong with documents."""
    results, problems = [], []
    for index, cell in enumerate(expected.plan.cells):
        name = f"cells/{index:03d}.json"
        result, problem = read_document(files, name, CellResult) if name in files else (None, None)
        if result:
            problem = _check_cell(expected, index, cell, result)
        if problem:
            problems.append(f"{name}: {problem}" if result else problem)
        results.append(result if result and not problem else _lose_cell(expected, index, cell, problem))
    return tuple(results), problems


def lose_cells(expected: Expectation) -> tuple[CellResult, ...]:
    """All planned cells of a job that nothing came back from."""
    return read_cells(expected, {})[0]


def _check_cell(expected: Expectation, index: int, cell: Cell, result: CellResult) -> str | None:
    """Whether the document is of this cell of this job, and says what it must."""
    wanted = (expected.run_id, expected.plan.job_id, expected.plan.alias, expected.payload_sha256, index, cell)
    if (result.run_id, result.job_id, result.alias, result.payload_sha256, result.index, result.cell) != wanted:
        return "it is of another job or cell"
    if result.status == CellStatus.OK:
        if result.timing is None or result.throughput is None:
            return "it says ok and has no timing"
        if cell.batch_size == 0 and not (result.batch_search and result.batch_search.batch_size):
            return "it says ok and not for which batch size"
        if cell.devices == 0 and not (result.execution and result.execution.devices):
            return "it says ok and not on how many devices"
        if result.throughput.images_per_s <= 0 or result.timing.steps < 1:
            return "it says ok and has no throughput"
    return _find_implausible(result)


_STEP_US = (1.0, 1e12)
"""From what no clock here tells from nothing to eleven days."""

_SPREAD_US = (0.0, 1e12)
_SECONDS = (0.0, 1e9)
_RATE = (1e-9, 1e9)
"""Images per second."""

_RATIO = (1e-9, 1e9)
_COUNT = (0.0, 1e9)


def _find_implausible(result: CellResult) -> str | None:
    """A figure that no machine can have measured; with it no report could be calculated."""
    figures = [("duration_s", result.duration_s, _SECONDS)]
    if result.timing:
        figures += _list_timing(result.timing)
    if result.throughput:
        figures += _list_throughput(result.throughput)
    for name, value, (low, high) in figures:
        if not low <= value <= high:
            return f"{name} is {value:g}, which is not from {low:g} to {high:g}"
    if result.timing:
        quantiles = [result.timing.quantiles_us[name] for name in _QUANTILES if name in result.timing.quantiles_us]
        for name, rising in (("quantiles_us", quantiles), ("ci95_us", list(result.timing.ci95_us))):
            if rising != sorted(rising):
                return f"{name} do not rise"
    return None


_QUANTILES: tuple[Literal["p05", "p25", "p50", "p75", "p95", "p99"], ...] = ("p05", "p25", "p50", "p75", "p95", "p99")

_Figure = tuple[str, float, tuple[float, float]]
"""Name, value, and the least and the most it can be."""


def _list_timing(timing: Timing) -> list[_Figure]:
    return [
        ("warmup_steps", timing.warmup_steps, _COUNT),
        ("warmup_s", timing.warmup_s, _SECONDS),
        ("steps", timing.steps, _COUNT),
        ("dropped_steps", timing.dropped_steps, _COUNT),
        ("total_s", timing.total_s, _SECONDS),
        *((f"quantiles_us.{name}", value, _STEP_US) for name, value in timing.quantiles_us.items()),
        # 0 stands for a median that is missing: there is no figure without one.
        ("quantiles_us.p50", timing.quantiles_us.get("p50", 0.0), _STEP_US),
        ("mean_us", timing.mean_us, _STEP_US),
        ("sd_us", timing.sd_us, _SPREAD_US),
        ("mad_us", timing.mad_us, _SPREAD_US),
        *(("ci95_us", value, _STEP_US) for value in timing.ci95_us),
        ("halves_ratio", timing.halves_ratio, _RATIO),
    ]


def _list_throughput(throughput: Throughput) -> list[_Figure]:
    figures = [
        ("images_per_s", throughput.images_per_s, _RATE),
        ("images_per_s_total", throughput.images_per_s_total, _RATE),
    ]
    if throughput.images_per_s_per_device is not None:
        figures.append(("images_per_s_per_device", throughput.images_per_s_per_device, _RATE))
    return figures


def _lose_cell(expected: Expectation, index: int, cell: Cell, problem: str | None) -> CellResult:
    return CellResult(
        schema_="fleet.result/1",
        kind="cell",
        protocol=0,
        payload_sha256=expected.payload_sha256,
        run_id=expected.run_id,
        job_id=expected.plan.job_id,
        alias=expected.plan.alias,
        index=index,
        cell_id=cell.id,
        cell=cell,
        status=CellStatus.LOST,
        stage="start",
        reason="document_invalid" if problem else "no_document",
        message=make_inert(problem, 300) if problem else "no document of it came back",
        started_unix_s=0,
        duration_s=0,
    )


def read_document(files: Mapping[str, bytes], name: str, kind: type[Document]) -> tuple[Document | None, str | None]:
    """The document and None, or None and what is wrong."""
    if name not in files:
        return None, f"{name} is missing"
    try:
        return parse_document(files[name], kind), None
    except DocumentError as error:
        return None, f"{name} cannot be read: {error}"
