"""A run directory that is taken up again, whole or damaged: it is told and costs no more than it must."""

from __future__ import annotations

import hashlib
import os
import shutil
import tracemalloc
from pathlib import Path

import pytest

from fleet.errors import LockedError, StoreError
from fleet.model.event import HostStage
from fleet.model.plan import Plan
from fleet.model.result import Stage
from fleet.store.opening import read_events, read_left, read_payload, reopen_run
from fleet.store.reader import is_running
from fleet.store.rundir import Store
from tests.run_builder import RUN_ID, Ending, make_cells, make_plan, store_run

PAYLOAD = b"the benchmark"
PLAN = make_plan({"a": make_cells(), "b": make_cells()}).model_copy(
    update={"payload_sha256": hashlib.sha256(PAYLOAD).hexdigest()}
)
START = HostStage(alias="a", stage=Stage.START)


def leave_run(root: Path, plan: Plan = PLAN) -> Path:
    """A run whose controller was killed when it had told host a to start."""
    with Store(root).create(plan, PAYLOAD) as writer:
        writer.keep("a", {"probe": b"what a said"})
        writer.record(START)
    return writer.path


def test_a_run_has_one_controller_and_no_second_end(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    writer, _ = reopen_run(path)
    with writer, pytest.raises(LockedError, match="another fleet works at it"):
        reopen_run(path)
    store_run(tmp_path / "other", PLAN, {"a": Ending(), "b": Ending()})
    # As for whoever found it open and then waited while another one completed it.
    with pytest.raises(StoreError, match=f"run {RUN_ID} is complete"):
        reopen_run(tmp_path / "other" / "runs" / RUN_ID)
    assert not is_running(tmp_path / "other" / "runs" / RUN_ID)


@pytest.mark.parametrize("made", ["plan.json", "payload.pyz", "hosts"])
def test_a_controller_may_be_killed_while_it_makes_the_directory(made: str, tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    order = ("plan.json", "payload.pyz", "hosts", "events.jsonl")
    for name in order[order.index(made) + 1 :]:
        (path / name).rename(tmp_path / name)
    assert list(read_events(path)) == []
    writer, run = reopen_run(path)
    with writer:
        writer.keep("b", {"probe": b"what b said"})
        writer.record(START)
    assert run.plan == PLAN
    assert list(read_events(path)) == [START]


def test_only_the_payload_of_the_plan_is_pushed(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    sha256 = PLAN.payload_sha256
    assert read_payload(path, sha256) == PAYLOAD
    for data in (b"", PAYLOAD + b"\n", os.urandom(13)):
        (path / "payload.pyz").write_bytes(data)
        with pytest.raises(StoreError, match="sha256 differs") as caught:
            read_payload(path, sha256)
        assert f"fleet cancel {RUN_ID}" in caught.value.hint
    (path / "payload.pyz").unlink()
    with pytest.raises(StoreError, match=r"payload\.pyz is missing"):
        read_payload(path, sha256)


def test_a_log_of_any_size_is_read_line_by_line(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    with (path / "events.jsonl").open("r+b") as log:
        kept = log.read()
        log.write(os.urandom(100_000) + b"\n")
        log.truncate(1 << 30)  # what a file system leaves of a file that was growing when the power failed
        log.seek(0, os.SEEK_END)
        log.write(b"\n" + kept)
    tracemalloc.start()
    try:
        assert list(read_events(path)) == [START, START]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["fleet.log", "events.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_what_is_no_file_is_neither_waited_for_nor_written_to(kind: str, name: str, tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    (path / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path / name)
    elif kind == "link":
        (path / name).symlink_to(tmp_path / "elsewhere")
    else:
        (path / name).mkdir()
    with pytest.raises(StoreError, match=f"{name} is no regular file") as caught, reopen_run(path)[0] as writer:
        writer.open_log()
    assert "remove it" in caught.value.hint
    assert not (tmp_path / "elsewhere").exists()


def test_small_files_take_little_memory(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    tracemalloc.start()
    try:
        Store(tmp_path).load(path.name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_a_host_that_was_probed_may_have_been_told_whatever_the_log_says(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    (path / "events.jsonl").write_bytes(b"")  # a power cut takes what was not flushed
    left = read_left(Store(tmp_path).load(path.name), ["a", "b"])
    assert (left["a"].told, left["a"].files) == (True, {"probe": b"what a said"})
    assert (left["b"].told, left["b"].files) == (False, {})
    shutil.rmtree(path / "hosts")  # somebody tidied: nothing is known any more
    left = read_left(Store(tmp_path).load(path.name), ["a", "b"])
    assert (left["a"].told, left["b"].told) == (True, True)


def test_what_cannot_be_read_of_one_host_costs_no_other(tmp_path: Path) -> None:
    path = leave_run(tmp_path)
    with reopen_run(path)[0] as writer:
        for alias in "ab":
            writer.keep(alias, {"probe": b"p", "log": b"l", "cells/000.json": b"{}", "exit.json": b"{}"})
    with (path / "hosts" / "a" / "log").open("r+b") as log:
        log.truncate((256 << 20) + 1)
    os.truncate(path / "hosts" / "a" / "exit.json", (256 << 20) + 1)
    left = read_left(Store(tmp_path).load(path.name), ["a", "b"])
    assert set(left["a"].files) == {"probe", "cells/000.json"}
    assert (left["a"].collected, left["b"].collected) == (False, True)
