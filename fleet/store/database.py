"""One database behind the index, SQLite or PostgreSQL: connections, transactions, and what its errors mean."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from fleet.errors import StoreError

BUSY_S = 60
"""How long a writer waits for others. One night's import takes two seconds at most."""

_WAITED = f"Another fleet has written for {BUSY_S} s. Try again."
_CACHE_KIB = 64 << 10
_WRITERS_LOCK = 0x666C656574  # "fleet": PostgreSQL knows its advisory locks by a number


class Database:
    """Connections to `url`. Writers come one after the other; readers see what was committed, and wait for nobody."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._engine = _make_engine(url)

    @property
    def name(self) -> str:
        """What people know it by: the file, or the URL without its password."""
        return self.url.database or "" if self.is_sqlite else self.url.render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database.

        Raises:
            StoreError: the database cannot be read.
        """
        with self._explaining(), self._engine.connect() as connection:
            if not self.is_sqlite:
                # PostgreSQL's default shows every statement what others have done since the one before.
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction of the only writer; what it did is there, after a power cut too, when this is left.

        Raises:
            StoreError: the database cannot be written, or others have written for a minute.
        """
        with self._explaining(), self._engine.connect() as connection:
            connection = connection.execution_options(fleet_writes=True)
            with connection.begin():
                if not self.is_sqlite:
                    connection.execute(text(f"SET LOCAL lock_timeout = '{BUSY_S}s'"))
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"))
                yield connection

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise explain_failure(error, self) from error
        except SQLAlchemyError as error:
            raise StoreError(f"{self.name}: {error}.", "See that it is fleet's: nothing else may change it.") from error


def explain_failure(error: DBAPIError, database: Database) -> StoreError:
    """What a failure of the database means, as a sentence and what to do next."""
    said = " ".join(str(error.orig).split())
    if not database.is_sqlite:
        hint = "Correct FLEET_DATABASE, or see that the server runs."
        return StoreError(f"{database.name}: {said}", _WAITED if "lock timeout" in said else hint)
    rebuild = f"Remove {database.name} and build it again with: fleet reindex"
    hints = {
        "not a database": rebuild,
        "malformed": rebuild,
        "no such": rebuild,
        "locked": f"{_WAITED} Or the file system has no locks: let FLEET_DATABASE name a file on a local disk"
        " (sqlite:////path).",
        "full": "Free some space there and run again.",
        "readonly": "Give yourself the rights, or let FLEET_DATABASE name another place (sqlite:////path).",
        "unable to open": "Give yourself the rights, or let FLEET_DATABASE name another place (sqlite:////path).",
    }
    hint = next((hint for words, hint in hints.items() if words in said), rebuild)
    return StoreError(f"{database.name}: {said}.", hint)


def _make_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, connect_args={"connect_timeout": 10})
        except ModuleNotFoundError as error:
            hint = f"Install it with: {shlex.quote(sys.executable)} -m pip install 'psycopg[binary]'"
            raise StoreError(f"FLEET_DATABASE names PostgreSQL, and {error.name} is not installed.", hint) from error
    engine = create_engine(url, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: object, _: ConnectionPoolEntry) -> None:
    # Python's module would begin transactions when it thinks fit, and none for a SELECT.
    connection.isolation_level = None  # type: ignore[attr-defined]
    for pragma in ("synchronous = FULL", f"cache_size = -{_CACHE_KIB}"):
        connection.execute(f"PRAGMA {pragma}")  # type: ignore[attr-defined]


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins as a reader's and then writes fails at once when somebody else has written meanwhile.
    writes = connection.get_execution_options().get("fleet_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
