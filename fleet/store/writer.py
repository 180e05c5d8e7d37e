"""A run while it is being written."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

from fleet.errors import StoreError
from fleet.model.event import Event, HostFinished
from fleet.model.plan import Plan
from fleet.model.result import CellStatus, HostOutcome, HostStatus, RunSummary
from fleet.store.files import explain_error, open_for_appending, sync_directory, write_all, write_atomic
from fleet.store.naming import (
    CANCEL_FILE,
    EVENTS_FILE,
    HOSTS_DIRECTORY,
    LOG_FILE,
    OUTCOME_FILE,
    RUN_FILE,
    is_kept_name,
    name_directories,
)

_OUR_FAULT = "This is a fault in fleet, not in what you did: please report it, with the run's fleet.log."


class RunWriter:
    """Writes one run directory as results arrive. Every method may be called from any thread.

    A lock is held on `events.jsonl` for as long as the writer lives, so that a reader can tell a run that is going on
    from one whose controller was killed.

    Args:
        path: the run's directory.
        events: descriptor of its event log, locked; from then on the writer's.
        outcomes: of the hosts that have theirs for good.
    """

    def __init__(self, path: Path, plan: Plan, events: int, outcomes: Mapping[str, HostOutcome]) -> None:
        self.plan = plan
        self.path = path
        self._latest = path.parent.parent / "latest"
        self._planned = {host.alias: host for host in plan.hosts}
        self._directories = name_directories(self._planned)
        self._lock = threading.Lock()
        self._statuses = {alias: outcome.status for alias, outcome in outcomes.items()}
        self._cells_ok = sum(_count_ok(outcome) for outcome in outcomes.values())
        self._events = events

    def open_log(self) -> TextIO:
        """The debug log of this run, for adding to.

        Raises:
            StoreError: it cannot be opened, or is no regular file.
        """
        descriptor = open_for_appending(self.path / LOG_FILE)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    @property
    def cancel_asked(self) -> bool:
        """Somebody else has asked for the end of this run: see `Store.ask_cancel`."""
        return (self.path / CANCEL_FILE).exists()

    def mark_cancelled(self) -> None:
        """Whoever takes up the run again is to end it.

        Raises:
            StoreError: the mark cannot be written.
        """
        write_atomic(self.path / CANCEL_FILE, b"")

    def keep(self, alias: str, files: Mapping[str, bytes]) -> None:
        """Keep what a host gave, byte for byte. When this returns the files survive a power cut.

        Args:
            alias: a planned host.
            files: name → content. A name is `cells/NNN.json` or a plain lower-case file name; one that is kept again
                replaces what was there.

        Raises:
            StoreError: an unplanned host, a name that is not allowed, or a file that cannot be written.
        """
        directory = self._host_directory(alias)
        for name in files:
            if not is_kept_name(name):
                raise StoreError(f"{alias}: a file of the name {name[:80]!r} is not kept.", _OUR_FAULT)
        targets = {directory / name: content for name, content in files.items()}
        parents = {path.parent for path in targets}
        try:
            # Not what is above: a run directory that somebody took away must not come back without its plan.
            for parent in sorted({directory, *parents} if parents else parents):
                parent.mkdir(mode=0o700, exist_ok=True)
            for path, content in targets.items():
                write_atomic(path, content, sync_parent=False)
            for parent in sorted({*parents, directory.parent} | ({directory} if parents else set())):
                sync_directory(parent)
        except OSError as error:
            raise explain_error(error, directory) from error

    def record(self, event: Event) -> None:
        """Append the event to `events.jsonl`; write the outcome of a host that finished.

        Raises:
            StoreError: the host is not planned, it already has its outcome, or the file cannot be written.
        """
        self._host_directory(event.alias)
        shown: Mapping[str, bool | Mapping[str, bool]] = {}
        if isinstance(event, HostFinished):
            self._write_outcome(event.alias, event.outcome)
            # The outcome is in host.json; the event says how it ended.
            shown = {"outcome": {"cells": True, "facts": True, "software": True}}
        document = {"time": _now(), **event.model_dump(mode="json", exclude=dict(shown))}
        line = encode_document(json.dumps(document, allow_nan=False))
        with self._lock:
            self._require_open()
            try:
                write_all(self._events, line)
            except OSError as error:
                raise explain_error(error, self.path / EVENTS_FILE) from error

    def _write_outcome(self, alias: str, outcome: HostOutcome) -> None:
        if outcome.alias != alias or outcome.job_id != self._planned[alias].job_id:
            raise StoreError(f"{alias}: the outcome is of {outcome.alias}, job {outcome.job_id}.", _OUR_FAULT)
        directory = self._host_directory(alias)
        with self._lock:
            self._require_open()
            if alias in self._statuses:
                raise StoreError(f"{alias} already has its outcome in run {self.plan.run_id}.", _OUR_FAULT)
            try:
                directory.mkdir(mode=0o700, exist_ok=True)
                write_atomic(directory / OUTCOME_FILE, encode_document(outcome.model_dump_json(indent=2)))
                sync_directory(directory.parent)
            except OSError as error:
                raise explain_error(error, directory) from error
            self._statuses[alias] = outcome.status
            self._cells_ok += _count_ok(outcome)

    def finish(self, *, exit_code: int, interrupted: bool = False) -> RunSummary:
        """Write `run.json`, the last file.

        Raises:
            StoreError: a planned host has no outcome yet, or a file cannot be written.
        """
        with self._lock:
            self._require_open()
            missing = [alias for alias in self._planned if alias not in self._statuses]
            if missing:
                names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
                raise StoreError(
                    f"run {self.plan.run_id} is not complete: no outcome of {names}.",
                    f"What there is can be shown with: fleet report {self.plan.run_id}",
                )
            summary = RunSummary(
                run_id=self.plan.run_id,
                started=self.plan.created,
                finished=_now(),
                interrupted=interrupted,
                hosts={alias: self._statuses[alias] for alias in self._planned},
                cells_ok=self._cells_ok,
                cells_total=sum(len(host.cells) for host in self.plan.hosts),
                exit_code=exit_code,
            )
            try:
                os.fsync(self._events)
            except OSError as error:
                raise explain_error(error, self.path / EVENTS_FILE) from error
            write_atomic(self.path / RUN_FILE, encode_document(summary.model_dump_json(indent=2)))
            if HostStatus.CONTACT_LOST not in self._statuses.values():  # else it can be taken up again, to be ended
                (self.path / CANCEL_FILE).unlink(missing_ok=True)
        self.close()
        return summary

    def move_latest(self) -> None:
        """Let `latest` mean this run, which is complete.

        Raises:
            StoreError: something else than a link is there, or the directory cannot be written.
        """
        temporary = self._latest.with_name(f".latest.{secrets.token_hex(4)}.tmp")
        try:
            temporary.symlink_to(Path("runs") / self.plan.run_id)
            temporary.replace(self._latest)
            sync_directory(self._latest.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise explain_error(error, self._latest) from error

    def close(self) -> None:
        """Let go of the directory without completing it; harmless after `finish`."""
        with self._lock:
            if self._events >= 0:
                os.close(self._events)
                self._events = -1

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._events < 0:
            raise StoreError(f"run {self.plan.run_id} is closed; nothing can be added to it.", "Start another run.")

    def _host_directory(self, alias: str) -> Path:
        if alias not in self._directories:
            raise StoreError(f"{alias[:80]!r} is not a host of run {self.plan.run_id}.", _OUR_FAULT)
        return self.path / HOSTS_DIRECTORY / self._directories[alias]


def encode_document(text: str) -> bytes:
    """The bytes of a text file."""
    return (text + "\n").encode()


def _count_ok(outcome: HostOutcome) -> int:
    return sum(cell.status is CellStatus.OK for cell in outcome.cells)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
