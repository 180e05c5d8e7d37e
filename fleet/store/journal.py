"""What was decided about the runs, one line each: `journal.jsonl` beside them, only ever appended to."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleet.model.journal import Entry, IncidentState, JudgedRun, PinnedBaseline
from fleet.store.files import explain_error, read_lines, sync_directory, write_all

FILE = "journal.jsonl"

_MOST_BYTES = 1 << 30
_LONGEST_LINE = 1 << 20
_ENTRIES: TypeAdapter[Entry] = TypeAdapter(Entry)


def append_entries(root: Path, entries: Iterable[Entry]) -> None:
    """Append to the journal of the reports directory `root`. When this returns they survive a power cut.

    Raises:
        StoreError: it cannot be written.
    """
    path = root / FILE
    try:
        root.mkdir(parents=True, exist_ok=True)
        journal = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(journal, fcntl.LOCK_EX)
            size = os.fstat(journal).st_size
            # Whoever was killed while it wrote has left half a line.
            broken = size and os.pread(journal, 1, size - 1) != b"\n"
            lines = b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
            write_all(journal, (b"\n" if broken else b"") + lines)
            os.fsync(journal)
        finally:
            os.close(journal)
        sync_directory(root)
    except OSError as error:
        raise explain_error(error, path) from error


def read_journal(root: Path) -> tuple[list[Entry], list[str]]:
    """All entries, oldest first, and a sentence for each line that is none.

    Raises:
        StoreError: the file cannot be read.
    """
    entries: list[Entry] = []
    problems: list[str] = []
    try:
        for number, line in enumerate(read_lines(root / FILE, _MOST_BYTES, _LONGEST_LINE), start=1):
            try:
                entries.append(_ENTRIES.validate_json(line))
            except ValidationError:
                problems.append(f"{root / FILE}:{number}: this line is no entry; it is left out.")
    except FileNotFoundError:
        pass
    return entries, problems


def stamp_journal(root: Path) -> str:
    """Changes whenever the journal does; empty: there is none."""
    try:
        found = (root / FILE).stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns} {found.st_size}"


def list_pinned(entries: Iterable[Entry]) -> dict[tuple[str, str], PinnedBaseline]:
    """By host and cell, the baselines in force."""
    pinned = {(entry.alias, entry.cell_id): entry for entry in entries if isinstance(entry, PinnedBaseline)}
    return {key: baseline for key, baseline in pinned.items() if baseline.run_ids}


def list_incidents(entries: Sequence[Entry]) -> tuple[IncidentState, ...]:
    """Every incident as it stands, in the order in which they were opened."""
    last = max((entry.run_id for entry in entries if isinstance(entry, JudgedRun)), default="")
    states = (entry for entry in entries if isinstance(entry, IncidentState))
    # Whoever was killed while it wrote has left incidents of a run that is still to be judged.
    latest = {(s.level, s.name, s.cell_id, s.opened): s for s in states if s.opened <= last}
    return tuple(sorted(latest.values(), key=lambda state: state.opened))


def list_regressed(entries: Sequence[Entry]) -> frozenset[str]:
    """The runs in which a regression was, or is, confirmed: what they ended with is not all that came of them."""
    incidents = list_incidents(entries)
    judged = {entry.run_id for entry in entries if isinstance(entry, JudgedRun)}
    return frozenset(run_id for run_id in judged if any(incident.accuses(run_id) for incident in incidents))
