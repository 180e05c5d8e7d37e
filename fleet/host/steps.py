"""The single steps of a job on its host: each is one round trip."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic import Field

from fleet.errors import Busy, ContactLost, PreflightFailed, ResultInvalid
from fleet.host.documents import DocumentError, parse_document
from fleet.host.framing import Section, Shell, read_count, read_script
from fleet.host.preflight import disk_full
from fleet.model.base import Record
from fleet.model.inventory import Settings
from fleet.model.plan import HostPlan
from fleet.model.result import Stage
from fleet.model.suite import Rules
from fleet.model.text import make_inert
from fleet.runtime.base import HostJob
from fleet.runtime.choose import choose_runtime

START_TIMEOUT_S = 60.0
POLL_TIMEOUT_S = 30.0
COLLECT_TIMEOUT_S = 180.0
COLLECT_CELL_S = 0.05
"""For each document: 10 kB over a slow line."""
CLEAN_TIMEOUT_S = 60.0
PULL_DEADLINE_S = 3600
"""NGC's images are 11 to 28 GB unpacked, about half that to transfer: an hour is 5 MB/s."""
MAX_FILE_BYTES = 1 << 20
"""Of one collected file. A document with 1,000 step times is about 10 kB; of the log the last 256 KiB are kept."""

MAX_COLLECTED_BYTES = 512 << 20
"""Of all files together; it is held in memory. 10,000 documents are about 100 MB."""


@dataclass(frozen=True)
class Task:
    """One host's part of a run, and what is pushed for it."""

    plan: HostPlan
    run_id: str
    rules: Rules
    payload: bytes
    payload_sha256: str
    holder: str
    """Who we are, for whoever finds the machine locked: `user@control-node run …`."""

    def build_spec(self) -> bytes:
        """The spec file: what to measure, and what the documents must say of themselves."""
        spec = {
            "schema": "fleet.spec/1",
            "run_id": self.run_id,
            "job_id": self.plan.job_id,
            "alias": self.plan.alias,
            "payload_sha256": self.payload_sha256,
            "rules": self.rules.model_dump(),
            "cells": [cell.model_dump() for cell in self.plan.cells],
        }
        return json.dumps(spec).encode()


class ProgressFile(Record):
    """`progress.json`, the payload's."""

    index: int | None
    """Place of the current cell; None between cells."""
    done: int = Field(ge=0)


@dataclass(frozen=True)
class JobState:
    """What one poll saw."""

    boot_id: str
    present: bool
    """The job's directory is there."""
    ended: bool
    """exit.json is there."""
    supervised: bool
    stage: Stage | None
    elapsed_s: float
    """From its start to its end, or to now."""
    progress: ProgressFile | None


def start_job(shell: Shell, task: Task, settings: Settings, job: HostJob, *, push: bool) -> None:
    """Push the payload if asked, claim the job, start its supervisor. Safe to repeat: a job is started once.

    Raises:
        Busy: the machine's lock is held by somebody else.
        PreflightFailed: the work directory takes no files, or the payload did not arrive as it was sent.
        HostError: as the transport's.
    """
    runtime, spec = choose_runtime(settings), task.build_spec()
    payload = task.payload if push else b""
    fixed = [
        job.workdir,
        job.job_id,
        task.payload_sha256,
        str(len(payload)),
        str(len(spec)),
        task.holder,
        read_script("supervise"),
    ]
    supervisor = [runtime.name, job.container, settings.image, f"{task.plan.deadline_s:.0f}", str(PULL_DEADLINE_S)]
    arguments = [*fixed, *supervisor, *runtime.build_arguments(settings, job)]
    _, sections = shell.read("start", arguments, stage=Stage.START, timeout_s=START_TIMEOUT_S, stdin=spec + payload)
    answer = sections[-1]
    if answer.name == "payload_gone" and not push:
        start_job(shell, task, settings, job, push=True)
    elif answer.name not in {"started", "attached", "adopted"}:
        raise _refuse(shell.alias, answer, job)


def _refuse(alias: str, answer: Section, job: HostJob) -> Busy | PreflightFailed:
    words = make_inert(" ".join(answer.words), 400)
    if answer.name == "busy" and job.run_id in words:
        message = f"it is a machine that this run measures already: {words}"
        return Busy(alias, Stage.START, "same_machine", message, "Leave one of the two names out of the inventory.")
    if answer.name == "busy":
        holder = words or "another fleet (it left no name)"
        return Busy(
            alias,
            Stage.START,
            "locked",
            f"the machine is being measured by {holder}",
            "Wait for it with --wait-idle 10m, or run again when it has ended.",
        )
    if answer.name == "disk_full":
        return disk_full(alias, job.workdir, (read_count(words) or 0) << 10, Stage.START)
    sentences = {
        "not_writable": f"cannot write to the work directory {job.workdir}",
        "not_written": f"the {words} could not be written to {job.workdir}",
        "not_lockable": f"the file system of the work directory {job.workdir} knows no locks",
        "not_received": f"the {words} did not arrive: what a login shell starts with there reads our input",
        "corrupt": "the payload did not arrive as it was sent (its sha256 differs)",
        "lock_unreadable": f"{words} is not a file that can be read",
    }
    hints = {
        "lock_unreadable": "Remove it there, if nothing of yours needs it.",
        "not_received": "See that nothing in ~/.bashrc, ~/.profile or a forced command there reads standard input.",
    }
    hint = hints.get(answer.name, "See the host's disk and kernel log.")
    message = sentences.get(answer.name, f"starting the job failed: {make_inert(answer.name, 40)}")
    return PreflightFailed(
        alias, Stage.START, answer.name if answer.name in sentences else "start_failed", message, hint
    )


def poll_job(shell: Shell, job: HostJob) -> JobState:
    """How the job is doing.

    Raises:
        HostError: as the transport's.
    """
    _, sections = shell.read("poll", [job.directory], stage=Stage.RUN, timeout_s=POLL_TIMEOUT_S)
    found = {section.name: " ".join(section.words) for section in sections}
    stage = found.get("stage", "")
    try:
        progress = parse_document(found.get("progress", "").encode(), ProgressFile)
    except DocumentError:
        progress = None
    return JobState(
        boot_id=found.get("boot_id", ""),
        present=found.get("job") == "present",
        ended=found.get("exit") == "yes",
        supervised=found.get("supervisor") == "alive",
        stage=Stage(stage) if stage in set(Stage) else None,
        elapsed_s=float(read_count(found.get("elapsed")) or 0),
        progress=progress,
    )


def cancel_job(shell: Shell, job: HostJob, settings: Settings) -> None:
    """Ask the host to end the job.

    Raises:
        HostError: as the transport's.
    """
    arguments = [job.directory, choose_runtime(settings).name, job.container]
    shell.read("cancel", arguments, stage=Stage.RUN, timeout_s=POLL_TIMEOUT_S)


_NAME = re.compile(
    r"(exit\.json|stage|launch\.err|supervise\.err|log|others|container\.json|image\.json|system\.json"
    r"|cells/(\d{3}|[1-9]\d{3})\.json)"
)


def collect_job(shell: Shell, job: HostJob, cells: int) -> dict[str, bytes]:
    """The job's files by name, byte for byte.

    Raises:
        ContactLost: the connection broke before the end.
        ResultInvalid: what came is not what the script prints.
    """
    limit = min((cells + 10) * MAX_FILE_BYTES, MAX_COLLECTED_BYTES)
    arguments = [job.directory, str(MAX_FILE_BYTES), str(cells)]
    timeout_s = COLLECT_TIMEOUT_S + cells * COLLECT_CELL_S
    nonce, completed = shell.run("collect", arguments, timeout_s=timeout_s, limit_bytes=limit)
    mark = b"\n@@" + nonce.encode() + b" "
    files: dict[str, bytes] = {}
    rest = completed.stdout.partition(mark)[2]
    while True:
        head, _, rest = rest.partition(b"\n")
        if head in {b"end", b"absent"}:
            return files
        count, _, name = head.decode(errors="replace").partition(" ")
        size = read_count(count)
        if size is None or not _NAME.fullmatch(name) or rest[size : size + len(mark)] != mark:
            break
        files[name], rest = rest[:size], rest[size + len(mark) :]
    if completed.truncated or head:
        raise ResultInvalid(
            shell.alias,
            Stage.COLLECT,
            "framing",
            "the host's files cannot be read: sizes and bytes do not agree",
            "Run it again.",
        )
    raise ContactLost(shell.alias, Stage.COLLECT, "cut_off", "the host's files came only in part", "Run it again.")


def clean_job(shell: Shell, job: HostJob, settings: Settings) -> bool:
    """Remove container and directory; whether they are gone.

    Raises:
        HostError: as the transport's.
    """
    arguments = [job.directory, choose_runtime(settings).name, job.container, job.payload_sha256]
    _, sections = shell.read("clean", arguments, stage=Stage.CLEAN, timeout_s=CLEAN_TIMEOUT_S)
    return sections[-1].name == "clean"
