"""The documents a job leaves: each is of this very job and says what it must, or it does not count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.host.documents import Document, DocumentError, parse_document
from fleet.model.base import Record
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, Stage
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
        if result.throughput.images_per_s <= 0 or result.timing.steps < 1:
            return "it says ok and has no throughput"
    return None


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
