"""What the tests of the index share: each runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.store.index import Index, open_index
from fleet.store.rundir import Store
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def database(request: pytest.FixtureRequest) -> str | None:
    """What FLEET_DATABASE says: nothing, or the URL of an empty database."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres")
    return server.make_database()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "reports").mkdir()
    return Store(tmp_path / "reports")


@pytest.fixture
def index(store: Store, database: str | None) -> Iterator[Index]:
    with open_index(store, database) as opened:
        yield opened
