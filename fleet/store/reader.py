"""A run as it lies in its directory, complete or not."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fleet.errors import StoreError
from fleet.model.plan import Plan
from fleet.model.result import HostOutcome, RunSummary
from fleet.store.files import read_regular
from fleet.store.naming import EVENTS_FILE, HOSTS_DIRECTORY, OUTCOME_FILE, PLAN_FILE, RUN_FILE, name_directories

_Document = TypeVar("_Document", bound=BaseModel)

_MOST_BYTES = 256 << 20
"""Of one document; a thousand cells of a million steps each need less."""


@dataclass(frozen=True)
class StoredRun:
    """One run, read back. `outcomes` lacks the hosts that have none (yet)."""

    path: Path
    plan: Plan
    outcomes: Mapping[str, HostOutcome]
    summary: RunSummary | None
    """None: the run is not complete."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Alias → why its outcome cannot be read."""
    running: bool = False
    """A controller is still writing it."""


def read_run(path: Path, aliases: Collection[str] | None = None) -> StoredRun:
    """Read a run directory, of the outcomes only those of `aliases` where they are given.

    One host's damaged outcome costs that host only: it is told in `problems`.

    Raises:
        StoreError: the plan is missing, or the plan or the summary cannot be read.
    """
    plan = read_plan(path)
    running = is_running(path)
    summary = read_summary(path, plan)
    outcomes: dict[str, HostOutcome] = {}
    problems: dict[str, str] = {}
    names = name_directories(host.alias for host in plan.hosts)
    for host in plan.hosts:
        if aliases is not None and host.alias not in aliases:
            continue
        file = path / HOSTS_DIRECTORY / names[host.alias] / OUTCOME_FILE
        try:
            outcome = _read_document(file, HostOutcome)
        except StoreError as error:
            problems[host.alias] = error.message
            continue
        if outcome is None:
            if summary is not None:
                problems[host.alias] = f"{file} is missing, though the run was complete."
        elif (outcome.alias, outcome.job_id) != (host.alias, host.job_id):
            problems[host.alias] = f"{file} is the outcome of {outcome.alias[:80]}, job {outcome.job_id[:80]}."
        else:
            outcomes[host.alias] = outcome
    return StoredRun(path, plan, outcomes, summary, problems, running)


def read_plan(path: Path) -> Plan:
    """The plan of the run in the directory `path`.

    Raises:
        StoreError: it is missing, damaged, or of another run.
    """
    plan = _read_document(path / PLAN_FILE, Plan)
    if plan is None:
        raise StoreError(
            f"{path / PLAN_FILE} is missing: the run was stopped before it began, or the directory is damaged.",
            f"Nothing was measured without a plan; delete {path} if you do not need what is in it.",
        )
    if plan.run_id != path.name:
        raise StoreError(f"{path} holds the plan of run {plan.run_id}.", f"Rename the directory to {plan.run_id}.")
    return plan


def read_summary(path: Path, plan: Plan) -> RunSummary | None:
    """The summary of a complete run; None for one that is not.

    Raises:
        StoreError: it is damaged, or does not agree with the plan.
    """
    summary = _read_document(path / RUN_FILE, RunSummary)
    if summary is None:
        return None
    if summary.run_id != plan.run_id or set(summary.hosts) != {host.alias for host in plan.hosts}:
        raise StoreError(
            f"{path / RUN_FILE} does not agree with {PLAN_FILE}: another run, or other hosts.",
            f"Restore the directory, or delete {RUN_FILE} to read the run as an incomplete one.",
        )
    return summary


def is_running(path: Path) -> bool:
    """Whether a controller still holds the lock on the run's event log."""
    try:
        descriptor = os.open(path / EVENTS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks cannot say
    finally:
        os.close(descriptor)
    return False


def _read_document(path: Path, kind: type[_Document]) -> _Document | None:
    """The document; None when there is no such file."""
    try:
        data = read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}." for part in first["loc"]).rstrip(".")
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise StoreError(f"{path} cannot be read: {what}.", _advise_damaged(path)) from error


def _advise_damaged(path: Path) -> str:
    advice = "It is damaged, or a newer fleet wrote it: restore it from a copy, or update fleet."
    if path.name == RUN_FILE:
        return f"{advice} Without {path.name} the run is read as an incomplete one."
    return advice
