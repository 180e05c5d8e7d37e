"""`fleet run` while its own machine fails it: a full disk, a directory that is taken away, an impatient person."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from fleet.cli.recorder import Recorder
from fleet.errors import StoreError
from fleet.model.event import HostFinished, HostStage
from fleet.model.result import Stage
from fleet.store.rundir import Store
from tests.conftest import ROOT, RunFleet
from tests.run_builder import Ending, make_cells, make_outcome, make_plan
from tests.waiting import wait_for

SUITE = """
name: tiny
rules: {warmup_steps: 1, steps: 2, max_s: 5}
cells:
  - {models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}
"""
PLAN = make_plan({"a": make_cells(), "b": make_cells()})

Start = Callable[..., contextlib.AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def start_run(workspace: Path, isolated_home: Path, this_machine: None) -> Start:
    """`fleet run` of a tiny suite on this machine, until its job has been started."""
    settings = "ansible_connection: local, fleet_runtime: native, fleet_devices: cpu"
    place = f"fleet_workdir: {workspace / 'work'}"
    (workspace / "here.yaml").write_text(f"all: {{hosts: {{here: {{{settings}, {place}}}}}}}")
    (workspace / "tiny.yaml").write_text(SUITE)

    @contextlib.contextmanager
    def start(reports: str = "reports") -> Iterator[subprocess.Popen[str]]:
        argv = [sys.executable, "-m", "fleet", "run", "-i", "here.yaml", "-s", "tiny.yaml", "--reports", reports]
        process = subprocess.Popen(
            argv,
            cwd=workspace,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "1000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            wait_for_line(process.stderr, "measuring 1 cell")
            yield process
        finally:
            process.kill()
            process.wait()

    return start


def wait_for_line(stream: IO[str], words: str) -> str:
    for line in stream:
        if words in line:
            return line
    pytest.fail(f"it ended without: {words}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mount: root may not mount here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.needs("tensorflow", "root", "mount")
def test_a_full_disk_ends_the_run_and_not_its_report(start_run: Start, small_disk: Path, workspace: Path) -> None:
    with start_run(str(small_disk / "reports")) as process:
        with contextlib.suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(b"x" * 4096)
        out, err = process.communicate(timeout=240)

    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert "the results cannot be kept: cancelling on 1 host" in err
    assert "fleet: " in err and "the disk (or your quota on it) is full." in err
    assert "✖ here  contact lost at collect (store)" in out
    (job,) = (workspace / "work/jobs").iterdir()
    assert f"What here gave is still there, in {job}." in out
    assert (job / "exit.json").is_file()


@pytest.mark.needs("tensorflow")
def test_a_run_directory_that_is_taken_away_is_a_sentence(start_run: Start, workspace: Path) -> None:
    with start_run() as process:
        shutil.rmtree(workspace / "reports/runs")
        out, err = process.communicate(timeout=240)

    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert "fleet: reports/runs/" in err
    assert "✖ here  contact lost at collect (store)" in out
    assert not (workspace / "reports/runs").exists()


@pytest.mark.needs("tensorflow")
def test_who_leaves_at_once_hears_what_goes_on(start_run: Start, workspace: Path) -> None:
    with start_run() as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        wait_for_line(process.stderr, "leaving; what was started on here goes on there")
        process.send_signal(signal.SIGHUP)
        wait_for_line(process.stderr, "cancelling on 1 host; SIGHUP again leaves at once")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)

    assert process.returncode == 130, err
    (job,) = (workspace / "work/jobs").iterdir()
    run_id = job.name.rpartition("-")[0]
    assert f"left at once; what was to end on here may still run. End it for good with: fleet cancel {run_id}." in err
    assert "Traceback" not in err
    wait_for((job / "exit.json").exists)


def test_ctrl_c_while_fleet_is_being_imported_is_quiet(tmp_path: Path) -> None:
    # In place of a library that takes its time: one in whose import somebody presses Ctrl-C.
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    argv = [sys.executable, "-m", "fleet", "--help"]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_run_whose_log_is_a_pipe_is_not_waited_for(workspace: Path, run_fleet: RunFleet) -> None:
    with Store(workspace / "reports").create(PLAN) as writer:
        os.mkfifo(writer.path / "fleet.log")
    done = run_fleet("cancel", PLAN.run_id, timeout_s=30)

    assert done.returncode == 2
    assert "fleet.log is no regular file.\n       Somebody put something else there: remove it." in done.stderr
    assert "Traceback" not in done.stderr


def test_outcomes_are_known_though_they_cannot_be_written(tmp_path: Path) -> None:
    given_up: list[bool] = []
    with Store(tmp_path / "reports").create(PLAN) as writer:
        recorder = Recorder(writer, lambda: given_up.append(True))
        recorder.record(HostStage(alias="a", stage=Stage.CONNECT))
        recorder.record(HostStage(alias="a", stage=Stage.RUN))
        assert (recorder.list_started(), recorder.hosts_left, recorder.trouble) == (("a",), 2, None)
        with pytest.raises(StoreError, match="is not kept"):
            recorder.keep("a", {"host.json": b"what one host sends ends no other's work"})
        assert (recorder.trouble, given_up) == (None, [])
        shutil.rmtree(writer.path)
        with pytest.raises(StoreError) as kept:
            recorder.keep("a", {"log": b"x"})
        assert kept.value.hint.endswith(f"What a gave is still there, in ~/.fleet/jobs/{PLAN.hosts[0].job_id}.")
        for host in PLAN.hosts:
            recorder.record(HostFinished(alias=host.alias, outcome=make_outcome(host, PLAN, Ending())))
    assert given_up == [True]
    assert recorder.trouble is not None
    assert list(recorder.outcomes) == ["a", "b"]
    assert (recorder.list_started(), recorder.hosts_left) == ((), 0)
    assert not writer.path.exists()
