"""From what a host gave back to its one outcome."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.host.diagnosis import diagnose_launch
from fleet.host.documents import DocumentError, parse_document
from fleet.model.base import Record
from fleet.model.facts import HostFacts, Software
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus, Stage, SystemResult
from fleet.model.suite import Cell
from fleet.model.text import make_inert


class ExitRecord(Record):
    """`exit.json`: how the supervisor saw the job end."""

    job_id: str
    stage: Stage
    reason: str
    """`exited`, `deadline`, `cancelled`, `launch_failed`, `pull_failed` or `gone`."""
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


@dataclass(frozen=True)
class Ending:
    """Status, stage, reason, sentence, hint."""

    status: HostStatus
    stage: Stage
    reason: str | None = None
    message: str = ""
    hint: str = ""


def build_outcome(
    expected: Expectation, files: Mapping[str, bytes], facts: HostFacts | None, ending: Ending | None
) -> HostOutcome:
    """The outcome of a job that was started.

    Args:
        files: what was collected, by name.
        ending: what is already known to have gone wrong with the host; None leaves it to the files.
    """
    cells, problems = _read_cells(expected, files)
    record, trouble = _read(files, "exit.json", ExitRecord)
    if trouble:
        problems.insert(0, trouble)
    system, trouble = _read(files, "system.json", SystemResult)
    if trouble and record and record.exit_status == 0:
        problems.append(trouble)
    if ending is None:
        ending = _judge(expected.plan, cells, problems, record, files)
    seconds = record.finished_unix_s - record.started_unix_s if record and record.started_unix_s is not None else None
    return HostOutcome(
        alias=expected.plan.alias,
        job_id=expected.plan.job_id,
        status=ending.status,
        stage=ending.stage,
        reason=ending.reason,
        message=make_inert(ending.message, 600),
        hint=ending.hint,
        job_s=seconds,
        facts=facts,
        software=_read_software(expected.plan, system, files),
        cells=cells,
    )


def _judge(
    plan: HostPlan,
    cells: tuple[CellResult, ...],
    problems: list[str],
    record: ExitRecord | None,
    files: Mapping[str, bytes],
) -> Ending:
    """The first of: the supervisor's reason, documents that are not right, what became of the cells."""
    if record is None:
        return Ending(HostStatus.RESULT_INVALID, Stage.COLLECT, "exit_record", _join(problems), _INVALID_HINT)
    lost = sum(cell.status == CellStatus.LOST for cell in cells)
    if record.reason != "exited" and not (record.reason == "gone" and lost == 0):
        return _judge_interruption(plan, record, files)
    if problems:
        return Ending(HostStatus.RESULT_INVALID, Stage.COLLECT, "document", _join(problems), _INVALID_HINT)
    if record.exit_status or lost:
        return _judge_exit(record, lost, len(cells), files)
    failed = [cell for cell in cells if cell.failed]
    if not failed:
        return Ending(HostStatus.OK, Stage.RUN)
    status = HostStatus.FAILED if len(failed) == len(cells) else HostStatus.PARTIAL
    first = failed[0]
    why = first.message or first.reason or first.status
    said = f"{len(failed)} of {len(cells)} cells failed, first {first.cell_id}: {why}"
    return Ending(status, Stage.RUN, first.reason or first.status, said)


_INVALID_HINT = "What came is kept in the run's directory as it is; look at `log` there, and at the host's disk."


def _judge_interruption(plan: HostPlan, record: ExitRecord, files: Mapping[str, bytes]) -> Ending:
    """The payload did not come to its own end."""
    said = files.get("launch.err", b"").decode(errors="replace")
    if record.reason == "deadline" and record.stage != Stage.PULL:
        hint = "Look at the last cell; raise cell_timeout_s in the suite if the machine is merely slow."
        return Ending(
            HostStatus.TIMED_OUT, Stage.RUN, "deadline", f"the job was ended after {plan.deadline_s:.0f} s", hint
        )
    if record.reason == "deadline":
        return Ending(
            HostStatus.TIMED_OUT,
            Stage.PULL,
            "pull_deadline",
            f"pulling {plan.settings.image} took too long",
            "Pull it there by hand.",
        )
    if record.reason == "cancelled":
        return Ending(HostStatus.CANCELLED, record.stage, "cancelled", "cancelled while it ran")
    if record.reason in {"launch_failed", "pull_failed"}:
        reason, message, hint = diagnose_launch(said, plan.settings.image)
        return Ending(HostStatus.PREFLIGHT_FAILED, record.stage, reason, message, hint)
    return Ending(HostStatus.LOST, record.stage, "killed", "somebody removed the job while it ran", "Run it again.")


def _judge_exit(record: ExitRecord, lost: int, planned: int, files: Mapping[str, bytes]) -> Ending:
    """The payload itself failed: it ended without a document for every cell."""
    state, _ = _read(files, "container.json", ContainerState)
    status = record.exit_status or 0
    left = f"{lost} of {planned} cells were not measured"
    if state and state.OOMKilled:
        hint = "The container's memory limit or the machine's memory is too small for this suite."
        return Ending(
            HostStatus.FAILED,
            Stage.RUN,
            "oom_killed",
            f"the kernel killed the payload for lack of memory; {left}",
            hint,
        )
    if state and state.Error:
        reason, message, hint = diagnose_launch(state.Error, "the container")
        return Ending(HostStatus.PREFLIGHT_FAILED, Stage.LAUNCH, reason, message, hint)
    if status in {126, 127}:
        reason, message, hint = diagnose_launch(f"executable file not found: {_find_reason(files.get('log', b''))}", "")
        return Ending(HostStatus.PREFLIGHT_FAILED, Stage.LAUNCH, reason, message, hint)
    last = _find_reason(files.get("log", b""))
    if status > 128:
        name = signal.Signals(status - 128).name if status - 128 in set(signal.Signals) else f"signal {status - 128}"
        return Ending(
            HostStatus.FAILED,
            Stage.RUN,
            "killed",
            f"the payload was ended by {name}; {left}",
            "Somebody or something killed it: see the host's kernel log.",
        )
    return Ending(
        HostStatus.FAILED,
        Stage.RUN,
        "payload_failed",
        f"the payload ended with exit status {status}; {left}: {last}",
        "See `log` in the run's directory.",
    )


def _find_reason(log: bytes) -> str:
    """The last line of the log that speaks of an error; failing that the last."""
    lines = [line.strip() for line in make_inert(log[-4096:].decode(errors="replace")).split("\n") if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or ["it printed nothing"])[-1][:300]


def _read_cells(expected: Expectation, files: Mapping[str, bytes]) -> tuple[tuple[CellResult, ...], list[str]]:
    """One result for every planned cell, and what was wrong with documents."""
    results, problems = [], []
    for index, cell in enumerate(expected.plan.cells):
        name = f"cells/{index:03d}.json"
        result, problem = _read(files, name, CellResult) if name in files else (None, None)
        if result:
            problem = _check_cell(expected, index, cell, result)
        if problem:
            problems.append(f"{name}: {problem}" if result else problem)
        results.append(result if result and not problem else _lose_cell(expected, index, cell, problem))
    return tuple(results), problems


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
        message=make_inert(problem, 300) if problem else "the job ended before this cell",
        started_unix_s=0,
        duration_s=0,
    )


def _read(files: Mapping[str, bytes], name: str, kind: type[Any]) -> tuple[Any | None, str | None]:
    """The document and None, or None and what is wrong."""
    if name not in files:
        return None, f"{name} is missing"
    try:
        return parse_document(files[name], kind), None
    except DocumentError as error:
        return None, f"{name} cannot be read: {error}"


def _read_software(plan: HostPlan, system: SystemResult | None, files: Mapping[str, bytes]) -> Software | None:
    """The payload's own view, and which image it really was."""
    if plan.settings.runtime == "native":
        return system.software.model_copy(update={"runtime": "native"}) if system else None
    image, _ = _read(files, "image.json", ImageRecord)
    digests = [d.rpartition("@")[2] for d in (image.repo_digests or [])] if image else []
    seen = {
        "runtime": plan.settings.runtime,
        "image": plan.settings.image,
        "image_digest": (digests[0] if digests else image.id) if image else None,
    }
    return system.software.model_copy(update=seen) if system else Software(**seen)


def _join(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more if problems else "nothing came"
