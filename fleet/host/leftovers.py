"""What fleet has left on a host, and taking it away: see `scripts/sweep.sh`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fleet.errors import PreflightFailed
from fleet.host.diagnosis import diagnose_engine
from fleet.host.framing import Section, Shell, read_count
from fleet.model.inventory import Settings
from fleet.model.result import Stage
from fleet.model.text import make_inert
from fleet.runtime.choose import choose_runtime

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")

SWEEP_TIMEOUT_S = 300.0
"""Most of it for what an engine and a full disk may take."""

PORTION = 2000
"""Jobs that one command names: Linux takes no argument above 128 KiB, and sshd hands the whole command on as one."""


@dataclass(frozen=True)
class LeftJob:
    """A job's directory, its container, or both."""

    job_id: str
    state: Literal["running", "recent", "ended", "dead"]
    """`recent`: ended a moment ago; `dead`: it does not run, and has not recorded an end."""
    size_bytes: int | None = None
    """Of the directory; None: there is none, and nothing to collect."""
    container: bool = False

    @property
    def run_id(self) -> str:
        return self.job_id.rpartition("-")[0]


@dataclass(frozen=True)
class LeftFile:
    """A benchmark, or an image sent in part."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Leftovers:
    """All there is on a host."""

    workdir: str
    jobs: tuple[LeftJob, ...] = ()
    files: tuple[LeftFile, ...] = ()
    holders: tuple[str, ...] = ()
    """Ids of jobs that left a name for whoever finds the machine locked."""
    holder: str | None = None
    """Who holds the machine's lock."""
    size_bytes: int = field(init=False, default=0)  # pydantic leaves out a field with neither
    """Of all jobs' directories and files."""

    def choose(self, wanted: Callable[[LeftJob], bool]) -> Leftovers:
        """What would go: jobs that are wanted and do not run; files and names when no other work may need them."""
        jobs = tuple(job for job in self.jobs if job.state != "running" and wanted(job))
        gone = {job.job_id for job in jobs}
        if self.holder is not None:
            return replace(self, jobs=jobs, files=(), holders=tuple(name for name in self.holders if name in gone))
        needed = any(job.state in {"running", "dead"} and job.job_id not in gone for job in self.jobs)
        return replace(self, jobs=jobs, files=() if needed else self.files)

    def without(self, others: Leftovers) -> Leftovers:
        """What of this is not in `others`."""
        jobs = {job.job_id for job in others.jobs}
        return replace(
            self,
            jobs=tuple(job for job in self.jobs if job.job_id not in jobs),
            files=tuple(file for file in self.files if file not in others.files),
            holders=tuple(name for name in self.holders if name not in others.holders),
        )

    @property
    def anything(self) -> bool:
        return bool(self.jobs or self.files or self.holders)

    def __post_init__(self) -> None:
        size = sum(job.size_bytes or 0 for job in self.jobs) + sum(file.size_bytes for file in self.files)
        object.__setattr__(self, "size_bytes", size)


def find_leftovers(shell: Shell, settings: Settings) -> Leftovers:
    """Look at a host in one round trip; nothing is changed.

    Raises:
        PreflightFailed: the work directory is somebody else's, or the engine does not say what runs.
        HostError: as the transport's.
    """
    return _sweep(shell, settings, "look", ())


def remove_leftovers(shell: Shell, settings: Settings, jobs: Sequence[LeftJob]) -> Leftovers:
    """Take these jobs away, and what no other needs; what is there then.

    Raises:
        HostError: as `find_leftovers`.
    """
    ids = [job.job_id for job in jobs]
    *portions, last = [ids[place : place + PORTION] for place in range(0, len(ids), PORTION)] or [[]]
    for portion in portions:
        _sweep(shell, settings, "remove", portion)
    return _sweep(shell, settings, "remove", last)


def _sweep(shell: Shell, settings: Settings, mode: str, job_ids: Sequence[str]) -> Leftovers:
    arguments = [settings.workdir, choose_runtime(settings).name, mode, *job_ids]
    _, sections = shell.read("sweep", arguments, stage=Stage.CLEAN, timeout_s=SWEEP_TIMEOUT_S)
    return read_leftovers(shell.alias, sections)


def read_leftovers(alias: str, sections: Sequence[Section]) -> Leftovers:
    """What the script printed.

    Raises:
        PreflightFailed: as `find_leftovers`.
    """
    jobs: dict[str, LeftJob] = {}
    files, holders, holder, workdir = [], [], None, ""
    for section in sections:
        text = make_inert(section.body.decode(errors="replace").strip(), 4096)
        match section.name, section.words:
            case "workdir", ("foreign",):
                said = f"the work directory {text} is not this user's own"
                raise PreflightFailed(
                    alias, Stage.CLEAN, "workdir_foreign", said, "See fleet_workdir, and whose it is."
                )
            case "workdir", _:
                workdir = text
            case "engine", _:
                raise PreflightFailed(alias, Stage.CLEAN, *diagnose_engine(text, "the user"))
            case "locked", _:
                holder = text or "another fleet (it left no name)"
            case "job", (job_id, ("running" | "recent" | "ended" | "dead") as state, size) if _ID.fullmatch(job_id):
                jobs[job_id] = LeftJob(job_id, state, (read_count(size) or 0) << 10)
            case "container", (job_id, state) if _ID.fullmatch(job_id):
                jobs[job_id] = _add_container(jobs.get(job_id), job_id, state)
            case "file", (size, name):
                files.append(LeftFile(make_inert(name, 100), (read_count(size) or 0) << 10))
            case "holder", (job_id,) if _ID.fullmatch(job_id):
                holders.append(job_id)
            case _:
                pass
    return Leftovers(workdir, tuple(jobs.values()), tuple(files), tuple(holders), holder)


def _add_container(job: LeftJob | None, job_id: str, state: str) -> LeftJob:
    """The job with its container; a container whose directory is gone is all that is left of its job."""
    alone: Literal["running", "dead"] = "dead" if state in {"created", "exited", "dead"} else "running"
    return replace(job or LeftJob(job_id, alone), container=True)
