"""`fleet runs` and `fleet reindex`: the list from the index, and runs that are shown, moved and deleted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.model.journal import PinnedBaseline
from fleet.model.result import HostStatus, Stage
from fleet.store.index import open_index
from fleet.store.journal import append_entries
from fleet.store.readings import list_complete
from fleet.store.rundir import Store
from tests.conftest import ROOT, RunFleet
from tests.index_nights import HOSTS, NIGHTS, store_night
from tests.run_builder import Ending, make_cells, make_plan, store_run

FIRST, SECOND, THIRD = NIGHTS[:3]


@pytest.fixture
def reports(workspace: Path) -> Path:
    """Three nights."""
    for night in (FIRST, SECOND, THIRD):
        store_night(workspace / "reports", night)
    return workspace / "reports"


def list_ids(run_fleet: RunFleet, *args: str) -> list[str]:
    return [run["run_id"] for run in json.loads(run_fleet("runs", "--json", *args).stdout)["runs"]]


def test_the_list_is_from_the_index_and_the_same_without(reports: Path, run_fleet: RunFleet) -> None:
    (reports / "fleet.db").mkdir()  # no index can be there
    without = run_fleet("runs")
    (reports / "fleet.db").rmdir()
    with_index = run_fleet("runs")

    assert (without.returncode, with_index.returncode) == (0, 0)
    assert re.match("fleet: reports/fleet.db: .*\n +.", without.stderr)
    assert with_index.stderr == ""
    assert with_index.stdout == without.stdout
    # A complete run is not opened again; one that is not complete is.
    (reports / "runs" / FIRST / "plan.json").chmod(0)
    (reports / "runs" / FIRST / "plan.json").write_text("{")
    assert run_fleet("runs").stdout == with_index.stdout
    shutil.rmtree(reports / "runs" / FIRST)
    store_run(reports, make_plan(HOSTS, NIGHTS[3]), {})
    assert re.findall(r"^(\S+) .*  (exit \d|\w+)$", run_fleet("runs").stdout, re.MULTILINE)[1:] == [
        (NIGHTS[3], "incomplete"),
        (THIRD, "exit 0"),
        (SECOND, "exit 0"),
    ]


def test_reindex_builds_it_anew_and_names_what_it_cannot_read(reports: Path, run_fleet: RunFleet) -> None:
    whole = run_fleet("reindex")
    (reports / "runs" / SECOND / "run.json").write_text("{")
    (reports / "fleet.db").write_text("nonsense" * 1000)
    damaged = run_fleet("reindex")
    (reports / "fleet.db").unlink()
    again = run_fleet("reindex")

    assert (whole.returncode, whole.stdout, whole.stderr) == (0, "3 runs indexed in reports/fleet.db\n", "")
    assert damaged.returncode == 2
    assert "Remove reports/fleet.db and build it again with: fleet reindex" in damaged.stderr
    assert (again.returncode, again.stdout) == (3, "2 runs indexed in reports/fleet.db\n")
    assert re.fullmatch(rf"fleet: run {SECOND}: .*run\.json cannot be read: .*\n", again.stderr)
    for other in (
        run_fleet("reindex", "--reports", "none"),
        run_fleet("reindex", env={"FLEET_DATABASE": "mysql://h/d"}),
    ):
        assert other.returncode == 2
        assert "Traceback" not in other.stderr


def test_a_run_is_shown_in_short(reports: Path, run_fleet: RunFleet) -> None:
    append_entries(reports, [PinnedBaseline(time="t", run_ids=(SECOND,), reason="after the new cooling")])
    shown, as_json = run_fleet("runs", "show", SECOND[:8]), run_fleet("runs", "show", SECOND, "--json")

    assert re.search(rf"^run +{SECOND}\n.*exit 0\n", shown.stdout, re.MULTILINE)
    assert "after the new cooling" in shown.stdout
    assert re.search(r"^cpu02 +ok +clean +3/4", shown.stdout, re.MULTILINE)
    details = json.loads(as_json.stdout)
    assert (details["schema"], details["run_id"], details["state"]) == ("fleet.run_details/1", SECOND, "complete")
    assert details["size_bytes"] == sum(f.stat().st_size for f in (reports / "runs" / SECOND).rglob("*") if f.is_file())
    assert [(host["alias"], host["cells_ok"]) for host in details["hosts"]] == [
        ("cpu01", 4),
        ("cpu02", 3),
        ("gpu01", 6),
    ]
    assert run_fleet("runs", "show", "2026").returncode == 2


def test_options_of_the_list_are_not_silently_lost(reports: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("runs", "--reports", "elsewhere", "delete", FIRST, "--yes")

    assert done.returncode == 2
    assert "--reports stands before delete" in done.stderr
    assert len(list_ids(run_fleet)) == 3


def test_runs_are_deleted_when_somebody_says_so(reports: Path, run_fleet: RunFleet) -> None:
    list_ids(run_fleet)
    nobody, no = run_fleet("runs", "delete", FIRST), run_fleet("runs", "delete", FIRST, stdin="no\n")
    assert (nobody.returncode, no.returncode) == (6, 6)
    assert "give --yes" in nobody.stderr and "Nothing was deleted." in no.stderr
    assert len(list_ids(run_fleet)) == 3

    done = run_fleet("runs", "delete", FIRST, THIRD, FIRST[:8], stdin="y\n")
    assert done.returncode == 0, done.stderr
    assert re.search(f"Delete {FIRST}.*{THIRD}.* for good \\(", done.stderr)
    assert done.stdout.startswith("2 runs deleted, ")
    assert list_ids(run_fleet) == [SECOND]
    assert [path.name for path in (reports / "runs").iterdir()] == [SECOND]
    assert (reports / "latest").resolve().name == SECOND
    assert run_fleet("runs", "delete", SECOND, "-y").returncode == 0
    assert not (reports / "latest").is_symlink()
    assert list_ids(run_fleet) == []


def test_what_is_still_needed_is_not_deleted(reports: Path, run_fleet: RunFleet, workspace: Path) -> None:
    append_entries(reports, [PinnedBaseline(time="t", run_ids=(FIRST,), reason="after the new cooling")])
    shutil.copytree(reports / "runs" / SECOND, workspace / SECOND)
    plan = make_plan(HOSTS, NIGHTS[3])
    with Store(reports).create(plan):
        going = run_fleet("runs", "delete", SECOND, NIGHTS[3], "--yes")
    baseline = run_fleet("runs", "delete", SECOND, FIRST, "--yes")
    elsewhere = run_fleet("runs", "delete", f"./{SECOND}", "--yes")

    assert (going.returncode, baseline.returncode, elsewhere.returncode) == (75, 2, 2)
    assert f"run {NIGHTS[3]} is going on" in going.stderr and f"fleet cancel {NIGHTS[3]}" in going.stderr
    assert f"run {FIRST} is a baseline: after the new cooling." in baseline.stderr
    assert "is not one of the runs in reports" in elsewhere.stderr
    assert len(list_ids(run_fleet)) == 4  # all or nothing
    assert run_fleet("runs", "delete", NIGHTS[3], "--yes").returncode == 0


def test_runs_of_another_control_node_are_taken_in_once(reports: Path, run_fleet: RunFleet, workspace: Path) -> None:
    other = workspace / "other"
    store_night(other, NIGHTS[4])
    store_run(other, make_plan(HOSTS, NIGHTS[5]), {})
    shutil.copytree(reports / "runs" / FIRST, other / "runs" / FIRST)
    shutil.copytree(reports / "runs" / SECOND, other / "runs" / SECOND)
    (other / "runs" / SECOND / "fleet.log").write_text("another")
    done = run_fleet("runs", "import", "other")

    assert done.returncode == 3
    assert done.stdout == f"{FIRST} is here already\n{NIGHTS[4]} imported\n"
    assert re.search(rf"run {SECOND} is there already, and differs in fleet\.log", done.stderr)
    assert f"run {NIGHTS[5]} is not complete" in done.stderr
    assert list_ids(run_fleet) == [NIGHTS[4], THIRD, SECOND, FIRST]
    source, copy = other / "runs" / NIGHTS[4], reports / "runs" / NIGHTS[4]
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    assert all((copy / name).read_bytes() == (source / name).read_bytes() for name in files)
    assert run_fleet("runs", "import", f"other/runs/{NIGHTS[4]}", "other/runs").returncode == 3
    assert run_fleet("report", NIGHTS[4]).returncode == 0
    assert run_fleet("runs", "import", str(workspace)).returncode == 2
    (source / "hosts" / "link").symlink_to("/etc/passwd")
    shutil.rmtree(copy)
    refused = run_fleet("runs", "import", str(source))
    assert refused.returncode == 3 and "neither a file nor a directory" in refused.stderr
    assert not [path for path in (reports / "runs").iterdir() if path.name.startswith(".")]


def test_all_results_are_exported(reports: Path, run_fleet: RunFleet, workspace: Path) -> None:
    done = run_fleet("runs", "export", "--parquet", "results.parquet")

    assert (done.returncode, done.stdout) == (0, "42 results written to results.parquet\n")
    rows = pq.read_table(workspace / "results.parquet").to_pylist()
    truth = {
        (night, alias, cell.cell_id): cell
        for night in (FIRST, SECOND, THIRD)
        for alias, outcome in Store(reports).load(night).outcomes.items()
        for cell in outcome.cells
    }
    assert {(row["run_id"], row["alias"], row["cell_id"]) for row in rows} == truth.keys()
    for row in rows:
        cell = truth[row["run_id"], row["alias"], row["cell_id"]]
        assert row["status"] == cell.status.value
        wanted = None if cell.timing is None else round(cell.timing.quantiles_us["p50"] * 1000)
        assert row["step_ns"] == wanted
    without = {"PYTHONPATH": f"{workspace}/without:{ROOT}"}
    (workspace / "without").mkdir()
    (workspace / "without" / "pyarrow.py").write_text("raise ModuleNotFoundError(name='pyarrow')")
    missing = run_fleet("runs", "export", "--parquet", "other.parquet", env=without)
    assert missing.returncode == 1
    assert f"{sys.executable} -m pip install pyarrow" in missing.stderr and "Traceback" not in missing.stderr
    assert run_fleet("runs", "export", "--parquet", "no/such/place").returncode == 2


def test_a_run_gets_into_the_index_when_it_is_complete_or_costs_a_hint(reports: Path, run_fleet: RunFleet) -> None:
    lost = Ending(status=HostStatus.CONTACT_LOST, stage=Stage.RUN, reason="closed")
    for night in NIGHTS[3:5]:
        store_run(reports, make_plan({"cpu01": make_cells()}, night), {"cpu01": lost}, exit_code=4)
    good = run_fleet("cancel", NIGHTS[3])
    with open_index(Store(reports)) as index:
        assert NIGHTS[3] in list_complete(index.database)
    for file in reports.glob("fleet.db*"):
        file.unlink()
    (reports / "fleet.db").mkdir()
    bad = run_fleet("cancel", NIGHTS[4])

    assert "fleet.db" not in good.stderr
    assert "fleet: reports/fleet.db: " in bad.stderr and "The run is kept all the same" in bad.stderr
    assert f"run {NIGHTS[4]}" in bad.stdout
    assert good.returncode == bad.returncode
    assert "Traceback" not in bad.stderr
    assert (reports / "runs" / NIGHTS[4] / "run.json").is_file()


def test_a_plan_waits_for_no_database() -> None:
    code = (
        "import sys; import fleet.cli.run, fleet.cli.resume, fleet.cli.report, fleet.cli.status; "
        "sys.exit(', '.join(sys.modules.keys() & {'sqlalchemy', 'alembic', 'pyarrow', 'numpy'}) or 0)"
    )
    argv = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
