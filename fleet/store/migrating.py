"""An index is made, or brought up to date, when it is opened."""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from fleet.errors import StoreError
from fleet.store.database import Database
from fleet.store.files import explain_error
from fleet.store.tables import REVISION

MIGRATIONS = Path(__file__).parent / "migrations"


def bring_up_to_date(database: Database, migrations: Path = MIGRATIONS, revision: str = REVISION) -> None:
    """Make the tables, or change those that an older fleet has made. What is in them stays.

    Args:
        migrations: alembic's directory.
        revision: the newest there.

    Raises:
        StoreError: a newer fleet has made them, or the database cannot be written.
    """
    if database.is_sqlite:
        _make_file(Path(database.name))
    with database.reading() as connection:
        if _read_revision(connection) == revision:
            return
    with database.writing() as connection:
        if (found := _read_revision(connection)) != revision:  # another fleet may have been quicker
            _migrate(connection, found, database, migrations)


def _make_file(path: Path) -> None:
    """An empty database appears in one piece, in WAL mode: to get into it nobody else may have the file open."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if path.exists():
            return
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            connection = sqlite3.connect(temporary)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.close()
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        raise explain_error(error, path) from error
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}.", "The index must be on a file system that SQLite can use.") from error


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(connection: Connection, found: str | None, database: Database, migrations: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreError(
            f"{database.name} is the index of a newer fleet (its revision {found[:40]} is not known here).",
            "Update fleet; or let FLEET_DATABASE name another place, where this one builds an index of its own.",
        )
    command.upgrade(config, "head")
