"""The database under the index: made once, brought up to date, written by many at once, and honest about its faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from fleet.errors import ConfigError, StoreError
from fleet.model.journal import PinnedBaseline
from fleet.store import tables
from fleet.store.index import Index, Synced, open_index
from fleet.store.migrating import MIGRATIONS, bring_up_to_date
from fleet.store.readings import list_complete
from fleet.store.rundir import Store
from tests.conftest import ROOT
from tests.index_nights import NIGHTS, dump, store_night

LATER = """
from alembic import op
from sqlalchemy import Column, Integer, text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("run", Column("nodes", Integer))
    op.execute(text("UPDATE run SET nodes = hosts_total"))
"""


def test_migrations_make_the_tables_that_are_used(index: Index) -> None:
    with index.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == tables.REVISION


def test_an_older_index_is_brought_up_to_date_and_a_newer_one_refused(
    store: Store, database: str | None, tmp_path: Path
) -> None:
    later = tmp_path / "100% later"
    shutil.copytree(MIGRATIONS, later)
    (later / "versions" / "nodes_0003.py").write_text(LATER)
    store_night(store.root, NIGHTS[0])
    with open_index(store, database) as index:
        index.sync()
        for _ in range(2):
            bring_up_to_date(index.database, later, "0003")
        with index.database.reading() as connection:
            assert connection.execute(text("SELECT nodes FROM run")).scalars().all() == [3]
            assert connection.execute(text("SELECT count(*) FROM result")).scalar() == 14
    with pytest.raises(StoreError, match=r"newer fleet.*0003") as caught:
        open_index(store, database)
    assert "Update fleet" in caught.value.hint


def test_an_index_of_other_environments_is_read_again(store: Store, database: str | None) -> None:
    store_night(store.root, NIGHTS[0])
    with open_index(store, database) as index:
        index.sync()
        before = dump(index)
        with index.database.writing() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
            connection.execute(text("UPDATE environment SET fields = '{}', fingerprint = fingerprint || 'older'"))
    with open_index(store, database) as index:
        assert index.sync().imported == [NIGHTS[0]]
        assert dump(index) == before


def test_what_is_no_database_of_ours_is_a_sentence(store: Store) -> None:
    for wrong in ("mysql://root:secret@h/d", "nonsense", "sqlite://", "postgresql+nothing://secret@h/d"):
        with pytest.raises(ConfigError, match="FLEET_DATABASE") as caught:
            open_index(store, wrong)
        assert "secret" not in str(caught.value) + caught.value.hint
    with pytest.raises(StoreError, match=r"no-such-place.*No such file"):
        open_index(store, f"sqlite:///{store.root}/no-such-place/x.db")


@pytest.mark.needs("postgres")
def test_a_server_that_is_not_there_is_a_sentence(store: Store) -> None:
    with pytest.raises(StoreError, match="fleet:\\*\\*\\*@") as caught:
        open_index(store, "postgresql://fleet:secret@127.0.0.1:1/none")
    assert "refused" in caught.value.message
    assert "secret" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("damage", ["not a database", "malformed"])
def test_a_damaged_file_is_named_with_a_way_out(damage: str, store: Store) -> None:
    for night in NIGHTS:
        store_night(store.root, night)
    file = store.root / "fleet.db"
    with open_index(store) as index:
        index.sync()
    data = file.read_bytes()
    file.write_bytes(b"x" * 5000 if damage == "not a database" else data[:4096] + os.urandom(len(data) - 4096))
    with pytest.raises(StoreError, match=damage) as caught, open_index(store) as index:
        index.sync()
        dump(index)
    assert f"Remove {file} and build it again with: fleet reindex" in caught.value.hint


NOBODY = """
import os, sys
from pathlib import Path
from fleet.errors import StoreError
from fleet.store.index import open_index
from fleet.store.readings import list_complete
from fleet.store.rundir import Store

open_index(Store(Path(sys.argv[1]))).database.close()  # everything is imported now, from wherever it is
os.setuid(54321)
for place in sys.argv[2:]:
    try:
        with open_index(Store(Path(place))) as index:
            index.forget([])
    except StoreError as error:
        print(error.message)
"""


@pytest.mark.needs("root")
def test_a_place_where_one_may_not_write_is_a_sentence(store: Store) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        empty, full, closed = (Path(folder, name) for name in ("empty", "full", "closed"))
        for place in (empty, full, closed):
            place.mkdir()
        closed.chmod(0o700)
        open_index(Store(full)).database.close()
        Path(folder).chmod(0o755)
        (full / "fleet.db").chmod(0o644)
        argv = [sys.executable, "-c", NOBODY, str(store.root), str(empty), str(full), str(closed / "there")]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == f"{empty}/fleet.db: permission denied."
    assert re.match(f"{full}/fleet.db: .*(unable to open|readonly)", said[1])
    assert said[2] == f"{closed}/there/fleet.db: permission denied."


def test_who_writes_is_not_waited_for_for_ever(
    store: Store, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_index(store, database).database.close()
    monkeypatch.setattr("fleet.store.database.BUSY_S", 1)
    with open_index(store, database) as index, open_index(store, database) as other, index.database.writing():
        with other.database.reading() as connection:
            assert connection.execute(text("SELECT count(*) FROM run")).scalar() == 0
        with pytest.raises(StoreError, match="lock") as caught:
            other.forget([])
    assert "Another fleet has written" in caught.value.hint


def test_control_nodes_share_a_database_and_leave_each_other_alone(database: str | None, tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    for store, nights in ((here, NIGHTS[:2]), (there, NIGHTS[2:4])):
        for night in nights:
            store_night(store.root, night)
    shutil.copytree(here.runs_path / NIGHTS[0], there.runs_path / NIGHTS[0])
    url = database or f"sqlite:///{tmp_path}/shared.db"
    with open_index(here, url) as mine, open_index(there, url) as yours:
        assert (mine.sync().imported, yours.sync().imported) == ([*NIGHTS[:2]], [*NIGHTS[2:4]])
        assert (mine.sync(), yours.sync()) == (Synced(), Synced())
        yours.write(PinnedBaseline(time="t", run_ids=NIGHTS[2:3], reason="theirs"))
        assert list_complete(mine.database) == NIGHTS[:4]
        assert [entry.run_id for entry in mine.list_runs()] == [NIGHTS[1], NIGHTS[0]]
        assert mine.read_baselines() == ()
        shutil.rmtree(there.runs_path / NIGHTS[0])
        assert yours.sync().removed == []
        mine.clear()
        assert list_complete(mine.database) == NIGHTS[2:4]
        assert len(yours.read_baselines()) == 1


PROCESS = """
import json, sys
from pathlib import Path
from fleet.model.journal import Annotation
from fleet.store.index import open_index
from fleet.store.readings import list_complete, read_values
from fleet.store.readings import list_complete
from fleet.store.rundir import Store

task, root, database, *runs = sys.argv[1:]
store = Store(Path(root))
sys.stdin.readline()  # all begin at once, on a database that is not there yet
with open_index(store, database or None) as index:
    if task == "write":
        for run in runs:
            index.import_run(store.runs_path / run)
            index.write(Annotation(time=run, message=run))
    else:
        seen = []
        while len(seen) < 400 and (not seen or seen[-1][0] < len(runs)):
            complete = list_complete(index.database)
            values = read_values(index.database, complete)
            seen.append((len(complete), int((values.status >= 0).sum())))
        print(json.dumps(seen))
"""


def test_two_writers_and_a_reader_lose_nothing(store: Store, database: str | None) -> None:
    nights = [f"202602{day:02d}T023000Z-n{day:03d}" for day in range(1, 25)]
    for night in nights:
        store_night(store.root, night)

    def start(task: str, runs: list[str]) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", PROCESS, task, str(store.root), database or "", *runs]
        return subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    # Each night is imported by one of them, and every third by both.
    shared = nights[::3]
    tasks = [start("write", nights[:12] + shared), start("write", nights[12:] + shared), start("read", nights)]
    for task in tasks:
        assert task.stdin
        task.stdin.write("go\n")
        task.stdin.flush()
    said = [task.communicate(timeout=200)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0, 0]

    seen = json.loads(said[2])
    assert seen == sorted(seen)
    assert all(results == runs * 14 for runs, results in seen)  # a run is there as a whole, or not at all
    with open_index(store, database) as index:
        assert not index.sync().imported
        assert len(index.read_annotations()) == 24 + 16
        grown = dump(index)
        index.clear()
        index.sync()
        assert dump(index) == grown
