"""Run directories: whole files, one outcome per host, readable whatever happened to the writer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_core import PydanticSerializationError

from fleet.errors import StoreError
from fleet.model.event import HostFinished, HostNotice, HostProgress
from fleet.model.plan import Plan
from fleet.model.result import CellStatus, HostStatus
from fleet.store.files import resolve_target
from fleet.store.naming import is_kept_name, name_directories
from fleet.store.rundir import Store
from fleet.store.writer import RunWriter
from tests.run_builder import RUN_ID, Ending, make_cells, make_outcome, make_plan, store_run

CELLS = make_cells("cpu", 2)
PLAN = make_plan({"a": CELLS, "fd00::1": CELLS})


def finish_host(writer: RunWriter, alias: str, ending: Ending | None = None) -> None:
    host = next(host for host in writer.plan.hosts if host.alias == alias)
    outcome = make_outcome(host, writer.plan, ending or Ending())
    writer.record(HostFinished(alias=alias, outcome=outcome))


def test_a_run_goes_round(tmp_path: Path) -> None:
    store = Store(tmp_path / "reports")
    given = {"log": b"\x00\xff\x1b[31m", "exit.json": b"{", "cells/000.json": b"NaN", "probe": b""}
    with store.create(PLAN) as writer:
        assert writer.path.stat().st_mode & 0o777 == 0o700
        assert Plan.model_validate_json((writer.path / "plan.json").read_bytes()) == PLAN
        assert not (store.root / "latest").exists()
        writer.keep("fd00::1", given)
        writer.record(HostProgress(alias="a", cells_done=1, cells_total=2, elapsed_s=3.5))
        finish_host(writer, "a")
        finish_host(writer, "fd00::1", Ending(status=HostStatus.PARTIAL, words={1: (CellStatus.CRASH, "signal")}))
        summary = writer.finish(exit_code=3)
        writer.move_latest()
    run = store.load()
    assert (run.plan, run.summary, run.running, run.problems) == (PLAN, summary, False, {})
    assert list(run.outcomes) == list(summary.hosts) == ["a", "fd00::1"]
    assert (summary.cells_ok, summary.cells_total, summary.exit_code) == (3, 4, 3)
    kept = run.path / "hosts" / "fd00%3A%3A1"
    assert {name: (kept / name).read_bytes() for name in given} == given
    assert (store.root / "latest").readlink() == Path("runs") / RUN_ID
    assert (store.root / "latest" / "run.json").stat().st_mode & 0o777 == 0o600
    assert not list(store.root.rglob("*.tmp"))
    events = [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["progress", "finished", "finished"]
    assert all(event["time"].endswith("Z") for event in events)
    assert events[1]["outcome"]["status"] == "ok"
    assert "cells" not in events[1]["outcome"]


def test_every_planned_host_has_exactly_one_outcome(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.create(PLAN) as writer:
        finish_host(writer, "a")
        with pytest.raises(StoreError, match="a already has its outcome"):
            finish_host(writer, "a")
        with pytest.raises(StoreError, match="no outcome of fd00::1"):
            writer.finish(exit_code=0)
        with pytest.raises(StoreError, match="'b' is not a host of run"):
            writer.record(HostNotice(alias="b", message="hello"))
        other = make_outcome(PLAN.hosts[0], PLAN, Ending())
        with pytest.raises(StoreError, match="the outcome is of a, job"):
            writer.record(HostFinished(alias="fd00::1", outcome=other))
        assert not (writer.path / "run.json").exists()
        assert not (tmp_path / "latest").is_symlink()
        finish_host(writer, "fd00::1")
        writer.finish(exit_code=0)
        with pytest.raises(StoreError, match="is closed"):
            writer.record(HostNotice(alias="a", message="late"))
    with pytest.raises(StoreError, match="exists already"):
        store.create(PLAN)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").touch()
    with pytest.raises(StoreError, match="runs is no directory"):
        Store(tmp_path / "other").create(PLAN)


@pytest.mark.parametrize(
    "name", ["host.json", "../x", "/etc/passwd", "cells/../x", "cells", "cells/x.json", ".log", "a/b", "LOG", "", "a\n"]
)
def test_names_from_a_host_are_checked(tmp_path: Path, name: str) -> None:
    assert not is_kept_name(name)
    with Store(tmp_path).create(PLAN) as writer, pytest.raises(StoreError, match="is not kept"):
        writer.keep("a", {"log": b"", name: b""})
    assert not list((tmp_path / "runs" / RUN_ID / "hosts").iterdir())


def test_directory_names_never_meet() -> None:
    aliases = ["gpu01", "GPU01", "gpu%3A", "gpu:", "a" * 253, "a" * 252 + ":", "x" + ":" * 252]
    names = name_directories(aliases)
    assert names["gpu01"] == "gpu01"
    assert names["GPU01"] == "%47%50%5501"
    assert len({name.lower() for name in names.values()}) == len(aliases)
    assert all(len(name) < 256 and "/" not in name and not name.startswith(".") for name in names.values())


def test_threads_write_side_by_side(tmp_path: Path) -> None:
    plan = make_plan({f"h{i:02d}": CELLS for i in range(16)})
    store = Store(tmp_path)
    with store.create(plan) as writer:

        def work(alias: str) -> None:
            for round_ in range(5):
                writer.keep(
                    alias, {"log": f"{alias} {round_}".encode() * 1000, f"cells/{round_:03d}.json": alias.encode()}
                )
                writer.record(HostNotice(alias=alias, message="x" * 5000))
            finish_host(writer, alias)

        threads = [threading.Thread(target=work, args=(host.alias,)) for host in plan.hosts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.finish(exit_code=0)
    run = store.load()
    assert len(run.outcomes) == 16
    for host in plan.hosts:
        assert (run.path / "hosts" / host.alias / "log").read_bytes() == f"{host.alias} 4".encode() * 1000
    lines = (run.path / "events.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 16 * 6


WRITER = """
import sys
from pathlib import Path
from fleet.model.event import HostFinished
from fleet.model.plan import Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.store.rundir import Store
plan = Plan.model_validate_json(sys.stdin.readline())
writer = Store(Path(sys.argv[1])).create(plan)
first = plan.hosts[0]
writer.keep(first.alias, {"log": b"kept"})
outcome = HostOutcome(alias=first.alias, job_id=first.job_id, status=HostStatus.OK, stage=Stage.CLEAN)
writer.record(HostFinished(alias=first.alias, outcome=outcome))
print("kept", flush=True)
while True:
    writer.keep(plan.hosts[1].alias, {"log": b"x" * 100_000, "cells/000.json": b"y"})
"""


def test_a_killed_writer_leaves_a_run_that_loads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin and process.stdout
            process.stdin.write(PLAN.model_dump_json() + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "kept\n"
            assert Store(tmp_path).load(RUN_ID).running
            assert [entry.state for entry in Store(tmp_path).runs()] == ["running"]
        finally:
            process.kill()
    run = Store(tmp_path).load(RUN_ID)
    assert (run.running, run.summary, set(run.outcomes)) == (False, None, {"a"})
    assert (run.path / "hosts" / "a" / "log").read_bytes() == b"kept"
    log = run.path / "hosts" / "fd00%3A%3A1" / "log"
    assert not log.exists() or log.read_bytes() == b"x" * 100_000
    entry = Store(tmp_path).runs()[0]
    assert (entry.state, entry.hosts_ok, entry.hosts_total, entry.exit_code) == ("incomplete", 1, 2, None)
    with pytest.raises(StoreError, match="no run is complete yet"):
        Store(tmp_path).load()


def test_damage_is_told_and_costs_no_more_than_it_must(tmp_path: Path) -> None:
    run = store_run(tmp_path, PLAN, {"a": Ending(), "fd00::1": Ending()})
    store = Store(tmp_path)
    (run.path / "hosts" / "a" / "host.json").write_text('{"schema": "fleet.host/1", "alias"')
    damaged = store.load()
    assert set(damaged.outcomes) == {"fd00::1"}
    assert "host.json cannot be read" in damaged.problems["a"]
    (run.path / "hosts" / "a" / "host.json").unlink()
    assert "host.json is missing" in store.load().problems["a"]
    (run.path / "run.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"run\.json cannot be read") as caught:
        store.load()
    assert "incomplete" in caught.value.hint
    (run.path / "plan.json").write_bytes(b'{"schema": "fleet.plan/2"}\xff')
    assert [(entry.state, entry.hosts_total) for entry in store.runs()] == [("damaged", None)]
    with pytest.raises(StoreError, match=r"plan\.json cannot be read"):
        store.load(RUN_ID)
    (run.path / "plan.json").unlink()
    with pytest.raises(StoreError, match=r"plan\.json is missing"):
        store.load(RUN_ID)


def test_runs_are_found_by_id_prefix_and_age(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.runs() == ()
    for ask in (store.load, lambda: store.load("20260101T"), lambda: store.find_open(None)):
        with pytest.raises(StoreError, match="there are no runs yet"):
            ask()
    ids = ["20260101T000000Z-aaaa", "20260102T000000Z-bbbb", "20260201T000000Z-cccc"]
    for run_id in ids:
        plan = make_plan({"a": CELLS}, run_id)
        store_run(tmp_path, plan, {} if run_id == ids[2] else {"a": Ending()})
    (tmp_path / "runs" / "notes").mkdir()
    assert [(entry.run_id, entry.state) for entry in store.runs()] == [
        (ids[2], "incomplete"),
        (ids[1], "complete"),
        (ids[0], "complete"),
    ]
    assert store.load().plan.run_id == ids[1]
    assert store.load("last").plan.run_id == ids[1]
    assert store.load("202602").plan.run_id == ids[2]
    with pytest.raises(StoreError, match="2 runs begin with '202601'"):
        store.load("202601")
    for missing in ["2025", "../runs", ""]:
        with pytest.raises(StoreError, match="there is no run"):
            store.load(missing)
    (tmp_path / "latest").unlink()
    assert store.load().plan.run_id == ids[1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.needs("root")
def test_a_full_disk_is_a_sentence_and_spoils_nothing(small_disk: Path) -> None:
    store = Store(small_disk)
    with store.create(PLAN) as writer:
        writer.keep("a", {"log": b"small"})
        with pytest.raises(StoreError, match=r"log: the disk \(or your quota on it\) is full") as caught:
            writer.keep("a", {"log": b"x" * 1_000_000})
        assert caught.value.hint
        assert (writer.path / "hosts" / "a" / "log").read_bytes() == b"small"
        finish_host(writer, "a")
    assert set(store.load(RUN_ID).outcomes) == {"a"}
    assert not list(small_disk.rglob("*.tmp"))


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/runs: Not a directory\.") as caught:
        Store(tmp_path / "file").create(PLAN)
    assert "another reports directory" in caught.value.hint


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_neither_waited_for_nor_read_without_end(kind: str, tmp_path: Path) -> None:
    run = store_run(tmp_path, PLAN, {"a": Ending(), "fd00::1": Ending()})

    def replace(path: Path) -> None:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()

    replace(run.path / "hosts" / "a" / "host.json")
    replace(run.path / "events.jsonl")
    again = Store(tmp_path).load()
    assert (list(again.outcomes), again.running) == (["fd00::1"], False)
    assert "host.json is" in again.problems["a"] or "host.json: is a directory" in again.problems["a"].lower()
    replace(run.path / "run.json")
    with pytest.raises(StoreError, match=r"run\.json"):
        Store(tmp_path).load(RUN_ID)
    assert [entry.state for entry in Store(tmp_path).runs()] == ["damaged"]


def test_a_document_larger_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    run = store_run(tmp_path, PLAN, {"a": Ending(), "fd00::1": Ending()})
    os.truncate(run.path / "hosts" / "a" / "host.json", 1 << 40)
    again = Store(tmp_path).load()
    assert "is larger than 256 MiB" in again.problems["a"]
    assert list(again.outcomes) == ["fd00::1"]


def test_a_plan_that_cannot_be_written_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(PydanticSerializationError):
        Store(tmp_path).create(PLAN.model_copy(update={"inventory": "l\udcff.yaml"}))
    assert list(tmp_path.iterdir()) == []


def test_the_last_results_of_each_host_are_found_in_different_runs(tmp_path: Path) -> None:
    store, ids = Store(tmp_path), [f"2026010{day}T023000Z-k3x9" for day in (1, 2, 3)]
    lost = Ending(status=HostStatus.UNREACHABLE)
    for run_id, endings in zip(
        ids,
        ({"a": Ending(1.0), "b": Ending(1.0)}, {"a": Ending(2.0), "b": lost}, {"a": lost, "b": lost}),
        strict=True,
    ):
        store_run(tmp_path, make_plan({"a": CELLS, "b": CELLS}, run_id), endings)
    (tmp_path / "runs" / ids[2] / "plan.json").write_text("{")  # damaged: as if it were not there
    found = store.find_last(["a", "b", "c"])
    assert {alias: plan.run_id for alias, (plan, _) in found.items()} == {"a": ids[1], "b": ids[0]}
    assert [outcome.alias for _, outcome in found.values()] == ["a", "b"]
    assert Store(tmp_path / "none").find_last(["a"]) == {}


def test_a_file_is_written_where_its_name_leads_and_never_over_a_device(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to("there")
    os.mkfifo(tmp_path / "pipe")

    assert resolve_target(tmp_path / "link") == (tmp_path / "there").resolve()
    assert resolve_target(tmp_path / "new") == (tmp_path / "new").resolve()
    for name in ("pipe", "."):
        with pytest.raises(StoreError, match="is no regular file"):
            resolve_target(tmp_path / name)
    with pytest.raises(StoreError, match="is no regular file"):
        resolve_target(Path("/dev/full"))
