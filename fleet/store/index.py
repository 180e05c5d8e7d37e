"""The index over all runs of a reports directory: what it lacks is read from them, what they lose it forgets.

The directories and the journal are the truth. Nothing is in the index that is not there, so it can be thrown away.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from sqlalchemy import URL, Table, make_url, select
from sqlalchemy.exc import ArgumentError

from fleet.errors import ConfigError, StoreError
from fleet.model.journal import Annotation, Entry, IncidentState, PinnedBaseline
from fleet.store import tables
from fleet.store.database import Database
from fleet.store.importing import delete_journal, delete_runs, insert_journal, insert_run
from fleet.store.journal import append_entries, read_journal, stamp_journal
from fleet.store.migrating import bring_up_to_date
from fleet.store.rows import Row, read_rows, stamp_run
from fleet.store.rundir import RunEntry, Store

FILE = "fleet.db"

Tell = Callable[[int, int], None]
"""Called before each run that is read: how many are, and how many there are to read."""


@dataclass
class Synced:
    """What was done so that the index agrees with the directories."""

    imported: list[str] = field(default_factory=list)
    """Ids of runs."""
    removed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A sentence for each run, host of a run, or line of the journal that cannot be read and is left out."""


def open_index(store: Store, database: str | None = None) -> Index:
    """The index over the runs of `store`, made or brought up to date where that is needed.

    Args:
        database: URL of an SQLite file (`sqlite:////var/lib/fleet.db`) or of a PostgreSQL database, which may hold the
            runs of other control nodes as well. None: `fleet.db` in the reports directory, which must be there.

    Raises:
        ConfigError: the URL is none.
        StoreError: the database cannot be opened, or a newer fleet has made it.
    """
    if database is None:
        url, root = URL.create("sqlite", database=str(store.root / FILE)), ""
    else:
        url, root = _read_url(database), f"{socket.gethostname()}:{store.root.resolve()}"
    opened = Database(url)
    try:
        bring_up_to_date(opened)
    except StoreError:
        opened.close()
        raise
    return Index(store, opened, root)


def _read_url(database: str) -> URL:
    """A URL may hold a password, so that an error does not repeat it."""
    hint = "Write sqlite:////path/to/file or postgresql://user@host/database."
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise ConfigError("FLEET_DATABASE is no URL of a database.", hint=hint) from error
    if url.drivername in {"postgresql", "postgres"}:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database and url.database != ":memory:":
        return url
    raise ConfigError(f"FLEET_DATABASE names {url.drivername}, which is no database that fleet uses.", hint=hint)


class Index:
    """The runs of `store`, in a database where others may keep theirs. Leave it with `with`."""

    def __init__(self, store: Store, database: Database, root: str) -> None:
        self.store = store
        self.database = database
        self._root = root

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()

    def sync(self, tell: Tell = lambda done, total: None) -> Synced:
        """Import what is missing or was changed, forget what is gone.

        Raises:
            StoreError: the directories cannot be listed, or the database cannot be read or written.
        """
        done = Synced()
        there = {path: stamp for path in self.store.paths() if (stamp := stamp_run(path)) is not None}
        names = {path.name for path in there}
        known = self._read_stamps()
        gone = sorted(run_id for run_id, (root, _) in known.items() if root == self._root and run_id not in names)
        if gone:
            self.forget(gone)
            done.removed += gone
        # What another control node has imported, from a directory that both can see, it also keeps up to date.
        new = [path for path, stamp in there.items() if self._is_stale(known.get(path.name), stamp)]
        for place, path in enumerate(reversed(new)):
            tell(place, len(new))
            try:
                rows = read_rows(path)
            except StoreError as error:
                if path.exists():  # else it was deleted meanwhile
                    done.problems.append(f"run {path.name}: {error.message}")
                if path.name in known:
                    self.forget([path.name])
                continue
            with self.database.writing() as connection:
                insert_run(connection, self._root, rows)
            done.imported.append(path.name)
            done.problems += rows.problems
        self._sync_journal(done)
        return done

    def import_run(self, path: Path) -> tuple[str, ...]:
        """Import the complete run in the directory `path`, again if it is known; sentences on hosts that it lacks.

        Raises:
            StoreError: the run cannot be read, or the database cannot be written.
        """
        rows = read_rows(path)
        with self.database.writing() as connection:
            insert_run(connection, self._root, rows)
        return rows.problems

    def forget(self, run_ids: Collection[str]) -> None:
        """Take these runs out of the index.

        Raises:
            StoreError: the database cannot be written.
        """
        with self.database.writing() as connection:
            delete_runs(connection, run_ids)

    def clear(self) -> None:
        """Forget everything that is from this reports directory.

        Raises:
            StoreError: the database cannot be written.
        """
        own = [run_id for run_id, (root, _) in self._read_stamps().items() if root == self._root]
        with self.database.writing() as connection:
            delete_runs(connection, own)
            delete_journal(connection, self._root)

    def list_runs(self) -> tuple[RunEntry, ...]:
        """Every run of the store, newest first: complete ones as they are indexed, others as their directories say.

        Raises:
            StoreError: the directories or the database cannot be read.
        """
        with self.database.reading() as connection:
            rows = connection.execute(select(tables.run)).mappings().all()
        names = ("created", "suite", "hosts_ok", "hosts_total", "cells_ok", "cells_total", "exit_code")
        known = {
            row["run_id"]: RunEntry(
                row["run_id"], self.store.runs_path / row["run_id"], "complete", **{name: row[name] for name in names}
            )
            for row in rows
        }
        return self.store.runs(known)

    def write(self, *entries: Entry) -> None:
        """Keep decisions: in the journal, then in the tables.

        Raises:
            StoreError: one of them cannot be written. What is in the journal gets into the tables the next time.
        """
        append_entries(self.store.root, entries)
        self._sync_journal(Synced())

    def read_baselines(self) -> tuple[PinnedBaseline, ...]:
        """Those in force, by host and cell."""
        rows = self._read_own(tables.baseline)
        found = [PinnedBaseline.model_validate(row | {"run_ids": json.loads(str(row["run_ids"]))}) for row in rows]
        return tuple(sorted(found, key=lambda baseline: (baseline.alias, baseline.cell_id)))

    def read_incidents(self) -> tuple[IncidentState, ...]:
        """Every incident as it stands now, those that have ended among them, in the order in which they were opened."""
        found = [IncidentState.model_validate(row) for row in self._read_own(tables.incident)]
        return tuple(sorted(found, key=lambda state: (state.opened, state.level, state.name, state.cell_id)))

    def read_annotations(self) -> tuple[Annotation, ...]:
        """In the order in which they were written."""
        rows = sorted(self._read_own(tables.annotation), key=lambda row: int(str(row["place"])))
        return tuple(Annotation.model_validate(row) for row in rows)

    def _read_own(self, table: Table) -> list[Row]:
        with self.database.reading() as connection:
            rows = connection.execute(select(table).where(table.c.root == self._root)).mappings().all()
        return [dict(row) for row in rows]

    def _read_stamps(self) -> dict[str, tuple[str, int]]:
        with self.database.reading() as connection:
            rows = connection.execute(select(tables.run.c.run_id, tables.run.c.root, tables.run.c.stamp)).all()
        return {run_id: (root, stamp) for run_id, root, stamp in rows}

    def _is_stale(self, known: tuple[str, int] | None, stamp: int) -> bool:
        return known is None or (known[0] == self._root and known[1] != stamp)

    def _sync_journal(self, done: Synced) -> None:
        stamp = stamp_journal(self.store.root)
        with self.database.reading() as connection:
            known = connection.execute(
                select(tables.journal.c.stamp).where(tables.journal.c.root == self._root)
            ).scalar()
        if stamp == (known or ""):
            return
        entries, problems = read_journal(self.store.root)
        with self.database.writing() as connection:
            insert_journal(connection, self._root, stamp, entries)
        done.problems += problems
