"""`fleet reindex`, and the index as the other commands use it: of help where it is there, and in nobody's way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fleet.cli.words import print_error, tell
from fleet.errors import ExitCode, FleetError
from fleet.report.wording import count_things, make_line
from fleet.store.rundir import RunEntry, Store

if TYPE_CHECKING:  # SQLAlchemy takes longer to import than everything else: only who opens the index waits for it
    from fleet.store.index import Index, Synced

DATABASE = "FLEET_DATABASE"
"""A variable and no option: a URL may hold a password, which `ps` would show to everybody, and commands that were given
different ones would each see another index."""

_MANY = 20
"""Runs that take long enough to say so."""


def reindex(reports: Path) -> int:
    """Build the index anew; the exit code.

    Raises:
        FleetError: the database cannot be opened or written.
    """
    store = Store(reports)
    store.paths()  # a reports directory that cannot be read must not pass for an empty one
    with _open(store) as index:
        index.clear()
        synced = index.sync(_tell)
    for problem in synced.problems:
        tell(f"fleet: {make_line(problem, 1000)}")
    typer.echo(f"{count_things(len(synced.imported), 'run')} indexed in {index.database.name}")
    return ExitCode.FAILED if synced.problems else ExitCode.OK


def open_synced(store: Store) -> tuple[Index, Synced]:
    """The index, in agreement with the directories. To be left with `with`.

    Raises:
        FleetError: the database cannot be opened, read or written.
    """
    index = _open(store)
    try:
        return index, index.sync(_tell)
    except FleetError:
        index.database.close()
        raise


def list_runs(store: Store) -> tuple[RunEntry, ...]:
    """Every run, newest first; without an index it takes longer.

    Raises:
        StoreError: the directory cannot be read.
    """
    if not store.paths():
        return ()
    try:
        index, _ = open_synced(store)
        with index:
            return index.list_runs()
    except FleetError as error:
        print_error(error)
        return store.runs()


def _open(store: Store) -> Index:
    from fleet.store.index import open_index

    return open_index(store, os.environ.get(DATABASE))


def _tell(done: int, total: int) -> None:
    if done == 0 and total >= _MANY:
        tell(f"adding {count_things(total, 'run')} to the index, once …")
