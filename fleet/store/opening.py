"""A run directory opened for writing: made for a new run, or taken up again after its controller is gone."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from fleet.errors import LockedError, StoreError
from fleet.model.base import Record
from fleet.model.event import Event, HostNotice, HostProgress, HostStage
from fleet.model.left import JobLeft
from fleet.model.plan import Plan
from fleet.model.result import HostStatus, RunSummary, Stage
from fleet.store.files import (
    explain_error,
    open_for_appending,
    read_lines,
    read_regular,
    sync_directory,
    write_atomic,
)
from fleet.store.naming import EVENTS_FILE, HOSTS_DIRECTORY, PAYLOAD_FILE, PLAN_FILE, name_directories
from fleet.store.reader import StoredRun, read_run
from fleet.store.writer import RunWriter, encode_document

_MOST_PAYLOAD_BYTES = 64 << 20
_MOST_EVENTS_BYTES = 4 << 30
_LONGEST_EVENT_BYTES = 1 << 20
_MOST_FILE_BYTES = 256 << 20
_EVENTS: TypeAdapter[Event] = TypeAdapter(HostStage | HostProgress | HostNotice)


class _Stamp(Record):
    time: AwareDatetime


_BEFORE_TOLD = {Stage.CONNECT, Stage.PROBE}
_SEEN = {Stage.PULL, Stage.LAUNCH, Stage.RUN, Stage.COLLECT, Stage.CLEAN}
"""Stages that a host enters only with a job that is there."""


def create_run(root: Path, plan: Plan, payload: bytes) -> RunWriter:
    """Make a run's directory under `root`, the plan first, and beside it what is pushed to the hosts.

    Raises:
        StoreError: the directory exists or cannot be written, or the plan names a host twice.
    """
    if len({host.alias for host in plan.hosts}) != len(plan.hosts):
        raise StoreError(f"the plan of run {plan.run_id} names a host twice.", "Correct the inventory.")
    path = root / "runs" / plan.run_id
    document = encode_document(plan.model_dump_json(indent=2))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        hint = "Move it away, or choose another reports directory."
        raise StoreError(f"{path.parent} is no directory.", hint) from error
    except OSError as error:
        raise explain_error(error, path.parent) from error
    try:
        path.mkdir(mode=0o700)
    except FileExistsError as error:
        raise StoreError(f"{path} exists already.", "Nothing was overwritten; run again.") from error
    except OSError as error:
        raise explain_error(error, path) from error
    write_atomic(path / PLAN_FILE, document)
    write_atomic(path / PAYLOAD_FILE, payload)
    try:
        (path / HOSTS_DIRECTORY).mkdir(mode=0o700)
        events = open_for_appending(path / EVENTS_FILE, new=True)
        fcntl.flock(events, fcntl.LOCK_EX)
        sync_directory(path)
        sync_directory(path.parent)
    except OSError as error:
        raise explain_error(error, path) from error
    return RunWriter(path, plan, events, {})


def reopen_run(path: Path) -> tuple[RunWriter, StoredRun]:
    """Take up a run that is not complete, or has hosts whose job may still be running.

    Raises:
        LockedError: a controller is at it.
        StoreError: it cannot be read; or another controller has completed it since it was found.
    """
    try:
        # A controller that was killed while it made the directory had got no further than the plan.
        (path / HOSTS_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        events = open_for_appending(path / EVENTS_FILE)
        try:
            fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(events)
            hint = f"See how it gets on with: fleet status {path.name}"
            raise LockedError(f"run {path.name} is going on: another fleet works at it.", hint) from error
        _end_last_line(events)
    except OSError as error:
        raise explain_error(error, path / EVENTS_FILE) from error
    try:
        run = read_run(path)
        require_open(path, run.summary)
    except StoreError:
        os.close(events)
        raise
    final = {alias: outcome for alias, outcome in run.outcomes.items() if outcome.status != HostStatus.CONTACT_LOST}
    return RunWriter(path, run.plan, events, final), run


def require_open(path: Path, summary: RunSummary | None) -> None:
    """Raises StoreError when the run in the directory `path` has nothing left to be taken up for."""
    if summary is not None and HostStatus.CONTACT_LOST not in summary.hosts.values():
        raise StoreError(f"run {path.name} is complete.", f"See it with: fleet report {path.name}")


def read_payload(path: Path, sha256: str) -> bytes:
    """What the run in the directory `path` pushes to its hosts.

    Args:
        sha256: by the plan.

    Raises:
        StoreError: it is missing, cannot be read, or is another.
    """
    file = path / PAYLOAD_FILE
    hint = f"Without it nothing more can be started. End the run, with: fleet cancel {path.name}"
    try:
        payload = read_regular(file, _MOST_PAYLOAD_BYTES)
    except FileNotFoundError as error:
        raise StoreError(f"{file} is missing.", hint) from error
    if hashlib.sha256(payload).hexdigest() != sha256:
        raise StoreError(f"{file} is not the one of the plan: its sha256 differs.", hint)
    return payload


def read_left(run: StoredRun, aliases: Collection[str]) -> dict[str, JobLeft]:
    """By alias, how far the jobs of these hosts had come.

    A host whose probe is kept may have been told to start, whatever the log says: its last lines are lost in a power
    cut, and the probe is not. Where there is neither a line nor a probe, nothing is known: every host may have been.

    Raises:
        StoreError: the log cannot be read.
    """
    told: set[str] = set()
    seen: set[str] = set()
    is_blank = True
    for event in read_events(run.path):
        is_blank = False
        if isinstance(event, HostStage):
            told |= {event.alias} if event.stage not in _BEFORE_TOLD else set()
            seen |= {event.alias} if event.stage in _SEEN else set()
    names = name_directories(host.alias for host in run.plan.hosts)
    files = {alias: _read_kept(run.path / HOSTS_DIRECTORY / names[alias]) for alias in aliases}
    if is_blank and not any(files.values()):
        told = set(files)
    return {alias: JobLeft(alias in told or bool(kept), alias in seen, kept) for alias, kept in files.items()}


def read_events(path: Path) -> Iterator[Event]:
    """What happened in the run in the directory `path`, but for hosts' ends, which are in their outcomes.

    Raises:
        StoreError: the log cannot be read.
    """
    for _, event in _read_log(path):
        yield event


def read_timed_events(path: Path) -> Iterator[tuple[datetime, Event]]:
    """As `read_events`, each with its time by the control node's clock.

    Raises:
        StoreError: the log cannot be read.
    """
    for line, event in _read_log(path):
        with contextlib.suppress(ValidationError):
            yield _Stamp.model_validate_json(line).time, event


def _read_log(path: Path) -> Iterator[tuple[bytes, Event]]:
    with contextlib.suppress(FileNotFoundError):  # its controller was killed before anything happened
        for line in read_lines(path / EVENTS_FILE, _MOST_EVENTS_BYTES, _LONGEST_EVENT_BYTES):
            try:
                yield line, _EVENTS.validate_json(line)
            except ValidationError:
                continue  # a host's end; or the line that was being written when the controller was killed


def _read_kept(directory: Path) -> dict[str, bytes]:
    """The probe; and everything else where the job had ended. What cannot be read is as good as not there."""
    names = ["probe"]
    if (directory / "exit.json").is_file():
        names = [f.relative_to(directory).as_posix() for f in directory.rglob("*") if f.is_file() and f.name[0] != "."]
    files = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError, StoreError):
            files[name] = read_regular(directory / name, _MOST_FILE_BYTES)
    return files


def _end_last_line(events: int) -> None:
    """A controller that was killed may have left half a line."""
    size = os.fstat(events).st_size
    if size and os.pread(events, 1, size - 1) != b"\n":
        os.write(events, b"\n")
