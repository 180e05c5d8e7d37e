"""What hangs is ended, by name and with the stacks; what is merely slow, or frozen with its parent, is not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.model.suite import Rules
from payload.procfs import read_state
from payload.watchdog import Watchdog, choose_limits
from tests.payload import bench

PLANT = """
import os, threading
if b'--report-fd' in open('/proc/self/cmdline', 'rb').read().split(b'\\0') and not os.path.exists({mark!r}):
    import payload.measure
    whole = payload.measure.measure
    def wait_for_a_peer():
        threading.Event().wait()
    def exhaust_memory():
        return bytearray(1 << 62)
    def measure(step, rules, report):
        taken = []
        def hanging():
            taken.append(1)
            if len(taken) == {number}:
                open({mark!r}, 'w').close()
                {what}()
            return step()
        return whole(hanging, rules, report)
    payload.measure.measure = measure
"""
"""A start-up file that makes something go wrong in step `number` of the first child that comes to it."""


def plant(directory: Path, number: int, what: str) -> dict[str, str]:
    """The environment in which the first cell fails so in its step `number`, counted from 1 with the warm-up."""
    (directory / "sitecustomize.py").write_text(PLANT.format(mark=str(directory / "done"), number=number, what=what))
    return {"PYTHONPATH": os.pathsep.join([str(directory), str(bench.ROOT)])}


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize(
    ("number", "timeout_s", "reason", "stage", "said"),
    [
        (
            7,
            60,
            "step_hang",
            "measure",
            r"^No step was done for 1\d s( where one takes \S+ s)?, after at least \d step",
        ),
        (1, 40, "first_step_hang", "warmup", r"^The first step was not done after 20 s\. "),
    ],
)
def test_a_child_that_hangs_in_a_step_is_ended_with_its_stacks(
    tmp_path: Path, number: int, timeout_s: float, reason: str, stage: str, said: str
) -> None:
    rules = Rules(warmup_steps=3, steps=8, max_s=50, cell_timeout_s=timeout_s)
    spec = bench.write_spec(tmp_path, [bench.FAST] * 2, rules)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", env=plant(tmp_path, number, "wait_for_a_peer"))
    assert (done.returncode, done.stderr) == (0, "")
    hung, ok = bench.read_cells(tmp_path / "out")
    assert (hung.status, hung.reason, hung.stage, hung.failed) == ("timeout", reason, stage, True)
    assert re.search(said, hung.message or ""), hung.message
    assert "in wait_for_a_peer\n" in (hung.log_tail or "")
    assert ok.status == "ok"


@pytest.mark.needs("tensorflow")
def test_a_child_that_runs_out_of_memory_in_a_step_says_where(tmp_path: Path) -> None:
    spec = bench.write_spec(tmp_path, [bench.FAST] * 2, Rules(warmup_steps=1, steps=8, cell_timeout_s=100))
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", env=plant(tmp_path, 5, "exhaust_memory"))
    assert (done.returncode, done.stderr) == (0, "")
    oom, ok = bench.read_cells(tmp_path / "out")
    assert (oom.status, oom.reason, oom.stage, oom.failed) == ("oom", "host_memory", "measure", False)
    assert "in exhaust_memory\n" in (oom.log_tail or "")
    assert ok.status == "ok"


Start = Callable[[Path, Rules], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the payload with one cell, and comes back when that is being timed."""
    started: list[subprocess.Popen[str]] = []

    def run(directory: Path, rules: Rules) -> subprocess.Popen[str]:
        spec = bench.write_spec(directory, [bench.FAST], rules)
        started.append(bench.start_payload(spec, directory / "out"))
        bench.wait_for_stage(directory / "out", "measure", 0)
        return started[-1]

    yield run
    for payload in started:
        payload.kill()
        payload.communicate(timeout=30)


@pytest.mark.needs("tensorflow")
def test_a_child_that_was_stopped_is_told_from_one_that_waits(start: Start, tmp_path: Path) -> None:
    payload = start(tmp_path, Rules(warmup_steps=1, steps=2, min_s=50, max_s=50, cell_timeout_s=70))
    time.sleep(2)
    os.kill(bench.find_children(payload.pid)[0], signal.SIGSTOP)
    assert payload.communicate(timeout=60) == ("", "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert (cell.status, cell.reason, cell.stage) == ("timeout", "step_hang", "measure")
    assert "Somebody stopped it (SIGSTOP)." in (cell.message or "")
    assert re.search(r"[Tt]hread 0x.*(\n  File .*)*payload/measure.py", cell.log_tail or "")


@pytest.mark.needs("tensorflow")
def test_a_pause_of_everything_is_no_hang(start: Start, tmp_path: Path) -> None:
    payload = start(tmp_path, Rules(warmup_steps=1, steps=2, min_s=15, cell_timeout_s=100))
    # As `docker pause` or a suspended virtual machine, for longer than any step may take.
    both = [payload.pid, bench.find_children(payload.pid)[0]]
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(11)
    assert [read_state(pid) for pid in both] == ["T", "T"]
    for pid in both:
        os.kill(pid, signal.SIGCONT)
    assert payload.communicate(timeout=60) == ("", "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert cell.status == "ok", cell.message


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize(
    ("signum", "reason", "said", "printed"),
    [
        (signal.SIGBUS, "bus_error", r"/dev/shm is full: .* It has \d+ MB free of \d+ MB\.$", "Bus error"),
        (signal.SIGSEGV, "segfault", "SIGSEGV", "Segmentation fault"),
        (signal.SIGABRT, "aborted", "SIGABRT", "Aborted"),
        (signal.SIGILL, "illegal_instruction", r"AVX: .* This one has (no )?AVX\.$", "Illegal instruction"),
    ],
)
def test_a_crash_names_its_likely_cause_and_prints_where_it_was(
    start: Start, tmp_path: Path, signum: signal.Signals, reason: str, said: str, printed: str
) -> None:
    payload = start(tmp_path, Rules(min_s=50, cell_timeout_s=70))
    os.kill(bench.find_children(payload.pid)[0], signum)
    assert payload.communicate(timeout=60) == ("", "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert (cell.status, cell.reason) == ("crash", reason)
    assert re.search(said, cell.message or ""), cell.message
    assert f"Fatal Python error: {printed}" in (cell.log_tail or "")
    assert "payload/measure.py" in (cell.log_tail or "")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Follower:
    """A watchdog that looks twice a second, as the parent does, on a clock of its own."""

    def __init__(self, cell_timeout_s: float) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(cell_timeout_s, self.clock)

    def enter(self, stage: str) -> None:
        self.watchdog.take({"event": "stage", "stage": stage, "at_s": self.clock.now_s})

    def wait(self, seconds: float) -> str | None:
        for _ in range(round(seconds * 2)):
            self.clock.now_s += 0.5
            overdue = self.watchdog.find_overdue()
            if overdue is not None:
                return overdue.reason
        return None

    def step(self, count: int, seconds: float) -> None:
        for number in range(1, count + 1):
            assert self.wait(seconds) is None
            self.watchdog.take({"event": "beat", "steps": number, "at_s": self.clock.now_s})


def test_a_slow_machine_is_given_twenty_times_its_median() -> None:
    follower = Follower(3600)
    follower.enter("warmup")
    follower.step(5, seconds=30)
    assert follower.wait(590) is None
    assert follower.wait(20) == "step_hang"


def test_a_fast_one_is_given_a_tenth_of_its_limit() -> None:
    follower = Follower(600)
    follower.enter("measure")
    follower.step(20, seconds=0.5)
    assert follower.wait(59) is None
    assert follower.wait(2) == "step_hang"


def test_what_lies_before_and_behind_the_steps_has_only_the_cell_s_limit() -> None:
    follower = Follower(200)
    for stage in ("import", "build"):
        follower.enter(stage)
        assert follower.wait(40) is None
    follower.enter("measure")
    follower.step(5, seconds=0.5)
    follower.watchdog.take({"event": "window", "begin_s": 0, "end_s": 1})
    assert follower.wait(100) is None
    assert follower.wait(20) == "cell_timeout"


def test_a_first_step_may_take_half_of_the_time() -> None:
    follower = Follower(600)
    follower.enter("warmup")
    assert follower.wait(299) is None
    assert follower.wait(2) == "first_step_hang"


def test_no_patience_is_shorter_than_a_machine_that_swaps_or_longer_than_a_person_waits() -> None:
    assert choose_limits(12.0).step_s == 10.0
    assert choose_limits(604800.0).step_s == 120.0
