"""Progress: what people see while a run goes on, with and without a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading
import time
from datetime import UTC, datetime

import pytest
from rich.console import Console

from fleet.model.event import HostFinished, HostNotice, HostProgress, HostStage
from fleet.model.inventory import Host, Settings
from fleet.model.plan import Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.model.suite import Cell, ModelInfo, Suite
from fleet.plan import RunRequest, build_plan
from fleet.progress import Progress, open_progress
from fleet.progress_board import Board
from fleet.progress_lines import LineDisplay, keep_telling
from fleet.progress_live import LiveDisplay

MODEL = ModelInfo(
    name="alexnet", input_shape=(227, 227, 3), parameters=1, forward_macs=10**9, phases=("train",), source="test"
)
CELLS = tuple(Cell(model="alexnet", batch_size=n) for n in (1, 2, 4, 8))


def plan(count: int) -> Plan:
    hosts = [Host(alias=f"node{n:03d}", settings=Settings(devices="cpu")) for n in range(count)]
    request = RunRequest("lab.yaml", None, 32, "0" * 64, "0.1.0", datetime(2026, 12, 1, tzinfo=UTC), "k3x9")
    return build_plan(hosts, Suite(name="mine", cells=CELLS), {"alexnet": MODEL}, request)


def finished(alias: str, status: HostStatus, message: str = "", hint: str = "") -> HostFinished:
    stage = Stage.CLEAN if status == HostStatus.OK else Stage.CONNECT
    outcome = HostOutcome(alias=alias, job_id="j", status=status, stage=stage, message=message, hint=hint, job_s=200)
    return HostFinished(alias=alias, outcome=outcome)


def polled(alias: str, done: int, elapsed_s: float = 10) -> HostProgress:
    return HostProgress(
        alias=alias, cells_done=done, cells_total=len(CELLS), current_cell=CELLS[done].id, elapsed_s=elapsed_s
    )


def run_one_host(progress: Progress) -> None:
    for stage in Stage:
        progress.show(HostStage(alias="node000", stage=stage))
        if stage == Stage.RUN:
            for done in (0, 0, 1, 1, 1, 2, 3, 3):
                progress.show(polled("node000", done))
    progress.show(finished("node000", HostStatus.OK))


def test_who_waits_for_others_is_waiting_and_no_time_passes() -> None:
    now_s = 0.0
    board = Board(plan(1), lambda: now_s)
    whole_s = board.left_s()
    wait = HostProgress(alias="node000", cells_done=0, cells_total=4, elapsed_s=0, detail="taken", waiting=True)
    board.apply(HostStage(alias="node000", stage=Stage.PROBE))
    board.apply(wait)
    now_s = 30
    assert re.fullmatch(r"0/4 cells · at least .* left · 1 waiting", board.sum_up())
    assert board.left_s() == whole_s
    board.apply(HostStage(alias="node000", stage=Stage.START))
    now_s = 35
    assert re.fullmatch(r"0/4 cells · \d.* left · 1 starting", board.sum_up())
    assert board.left_s() == whole_s - 5


def test_lines_tell_what_matters_once() -> None:
    out = io.StringIO()
    with open_progress(plan(2), Console(file=out, width=80), live=False) as progress:
        run_one_host(progress)
        progress.show(HostNotice(alias="node001", message="contact lost;\nconnected again"))
        progress.show(finished("node001", HostStatus.UNREACHABLE, "[red]Refused[/red] by " + "x" * 99, "Is sshd up?"))
        progress.show(finished("node001", HostStatus.OK))  # a host ends once
        progress.show(HostNotice(alias="stranger", message="not planned"))
    lines = out.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert [re.sub(r"\d+ (min|s)( \d+ s)?", "T", line[9:]) for line in lines] == [
        "mine on 2 hosts, about T",
        "node000: pulling nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
        "node000: measuring 4 cells, about T",
        "node000: ok in T",
        "node001: contact lost; connected again",
        f"node001: unreachable in T: [red]Refused[/red] by {'x' * 99}. → Is sshd up?",
        "1 ok, 1 unreachable after T",
    ]


@pytest.mark.parametrize(("width", "height", "count"), [(80, 24, 3), (80, 24, 100), (200, 50, 100), (40, 6, 100)])
def test_frame_fits_the_terminal_and_adds_up(width: int, height: int, count: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, legacy_windows=False)
    with open_progress(plan(count), console, live=True) as progress:
        assert isinstance(progress, LiveDisplay)
        for n in range(count):
            progress.show(HostStage(alias=f"node{n:03d}", stage=Stage.RUN))
            progress.show(polled(f"node{n:03d}", n % 4))
        progress.show(finished("node001", HostStatus.UNREACHABLE, "No route to host."))
        lines = console.render_lines(progress.draw(), pad=False)
        text = progress.draw().plain.splitlines()
    assert len(lines) == len(text) <= height - 1
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)
    rows = [line for line in text if " node" in line]
    more = [line for line in text if line.startswith("  and ")]
    # The failed one has a line above the frame.
    assert len(rows) + sum(int(line.split()[1]) for line in more) == count - 1
    assert f"{count - 1} measuring, 1 unreachable" in text[-1]
    done = sum(n % 4 for n in range(count) if n != 1)
    assert f" {done}/{4 * count} cells · " in text[-1]


def test_row_tells_stage_cell_and_time_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=24)
    with open_progress(plan(4), console, live=True) as progress:
        assert isinstance(progress, LiveDisplay)
        progress.show(HostStage(alias="node000", stage=Stage.RUN))
        progress.show(polled("node000", 2, elapsed_s=60))
        progress.show(HostStage(alias="node001", stage=Stage.PULL))
        progress.show(finished("node002", HostStatus.OK))
        rows = progress.draw().plain.splitlines()
    assert re.match(r"▸ node000  measuring   ━━━━──── 2/4 .* \d+ s  alexnet/train/fp32/b4/cpu1/nhwc", rows[0])
    assert rows[1].startswith("▸ node001  pulling")
    assert rows[2] == "✔ node002  ok in 3 min 20 s"
    assert rows[3] == "  node003  waiting"


def fail_alike(progress: Progress, count: int) -> None:
    for n in range(count):
        message = f"node{n:03d}:22 showed the host key SHA256:{n}."
        hint = f"Then `fleet hosts trust --limit node{n:03d}`."
        progress.show(finished(f"node{n:03d}", HostStatus.HOST_KEY_UNKNOWN, message, hint))
    for n in (count, count + 1):
        progress.show(finished(f"node{n:03d}", HostStatus.PREFLIGHT_FAILED, f"no image lab:{n}", "Load it."))


def test_live_each_failed_host_is_shown_once() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=140, height=24)
    with open_progress(plan(34), console, live=True) as progress:
        assert isinstance(progress, LiveDisplay)
        fail_alike(progress, 31)
        rows = re.sub(r"\d min \d+ s left", "T left", progress.draw().plain).splitlines()
        above = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in file.getvalue().splitlines()]
    assert rows == [
        "  node033  waiting",
        "✖ host key unknown, as node000: node[001:030]",
        "──────────────── 0/136 cells · T left · 31 host key unknown, 2 preflight failed, 1 waiting",
    ]
    assert [line for line in above if line.startswith("✖ node")] == [
        "✖ node000: host key unknown in 3 min 20 s: node000:22 showed the host key SHA256:0. "
        "→ Then `fleet hosts trust --limit node000`.",
        "✖ node031: preflight failed in 3 min 20 s: No image lab:31. → Load it.",
        "✖ node032: preflight failed in 3 min 20 s: No image lab:32. → Load it.",
    ]
    # The frame is gone then.
    assert "✖ host key unknown, as node000: node[001:030]" in file.getvalue().splitlines()[-2]


def test_lines_of_many_hosts_are_their_ends_and_alike_ones_are_short() -> None:
    out = io.StringIO()
    with open_progress(plan(20), Console(file=out, width=80), live=False) as progress:
        for n in range(20):
            progress.show(HostStage(alias=f"node{n:03d}", stage=Stage.PULL))
            progress.show(HostStage(alias=f"node{n:03d}", stage=Stage.RUN))
        fail_alike(progress, 3)
    lines = [line[9:] for line in out.getvalue().splitlines()]
    assert len(lines) == 7
    assert lines[2:4] == ["node001: host key unknown, as node000", "node002: host key unknown, as node000"]


def test_without_a_terminal_a_line_now_and_then_says_how_far_the_run_is() -> None:
    out = io.StringIO()
    board = Board(plan(3), time.monotonic)
    lines = LineDisplay(board, Console(file=out, width=80))
    with keep_telling(lines.sum_up, 0.05):
        lines.show(HostStage(alias="node000", stage=Stage.RUN))
        lines.show(polled("node000", 2))
        time.sleep(0.3)
    count = len(re.findall(r" 2/12 cells · .* left · 1 measuring, 2 waiting\n", out.getvalue()))
    assert 2 <= count <= 6
    time.sleep(0.15)
    assert out.getvalue().count(" cells · ") == count  # it ends with its block


def test_a_status_is_not_said_twice() -> None:
    out = io.StringIO()
    with open_progress(plan(1), Console(file=out, width=80), live=False) as progress:
        progress.show(finished("node000", HostStatus.CANCELLED, "cancelled while it ran"))
    assert out.getvalue().splitlines()[1].endswith(" node000: cancelled while it ran in 3 min 20 s")


def test_time_left_goes_from_the_estimate_to_the_hosts_own_pace() -> None:
    now = [0.0]
    board = Board(plan(1), lambda: now[0])
    estimate_s = board.hosts["node000"].plan.estimate_s
    assert board.left_s() == estimate_s
    board.apply(HostStage(alias="node000", stage=Stage.RUN))
    board.apply(polled("node000", 0, elapsed_s=5))
    assert board.left_s() == pytest.approx(estimate_s - 5)
    now[0] += 4  # counts down between polls
    assert board.left_s() == pytest.approx(estimate_s - 9)
    board.apply(polled("node000", 3, elapsed_s=900))  # 300 s a cell: far slower than estimated
    assert board.left_s() == pytest.approx(0.25 * (estimate_s - 900) + 0.75 * 300)
    board.apply(finished("node000", HostStatus.OK))
    assert board.left_s() == 0


def test_time_left_of_a_wave_is_that_of_one_after_the_other() -> None:
    now = [0.0]
    board = Board(plan(3), lambda: now[0], wave=1)
    estimate_s = board.hosts["node000"].plan.estimate_s
    assert board.left_s() == pytest.approx(3 * estimate_s)
    board.apply(HostStage(alias="node000", stage=Stage.CONNECT))
    now[0] += 5
    assert board.left_s() == pytest.approx(3 * estimate_s - 5)
    board.apply(finished("node000", HostStatus.OK))
    assert board.left_s() == pytest.approx(2 * estimate_s)


def test_terminal_without_unicode_gets_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, force_terminal=True, width=60, height=24)
    with open_progress(plan(1), console, live=True) as progress:
        assert isinstance(progress, LiveDisplay)
        run_one_host(progress)
        assert progress.draw().plain.isascii()


def read_to_end(fd: int, chunks: list[bytes]) -> None:
    """Everything a terminal was sent, until its other end is closed, which Linux reports as EIO."""
    with os.fdopen(fd, "rb", buffering=0) as stream, contextlib.suppress(OSError):
        while data := stream.read(1 << 16):
            chunks.append(data)


def test_live_display_on_a_real_terminal_leaves_only_what_is_worth_keeping() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    chunks: list[bytes] = []
    reader = threading.Thread(target=read_to_end, args=(ours, chunks))
    reader.start()
    with os.fdopen(theirs, "w") as tty, pytest.raises(KeyboardInterrupt):
        console = Console(file=tty, force_terminal=True, color_system=None)
        with open_progress(plan(3), console, live=True) as progress:
            progress.show(HostStage(alias="node000", stage=Stage.RUN))
            progress.show(polled("node000", 1))
            progress.show(finished("node001", HostStatus.UNREACHABLE, "No route."))
            time.sleep(0.6)
            raise KeyboardInterrupt
    reader.join()
    seen = b"".join(chunks).decode()
    assert "\x1b[?25l" in seen and "\x1b[?25h" in seen  # the cursor is hidden, and back again
    assert "▸ node000  measuring" in seen
    ending = seen[seen.rindex("\x1b[?25h") :]
    assert "node000  measuring" not in ending
    assert "1 measuring, 1 unreachable, 1 waiting after" in ending


def test_drawing_costs_little() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200, height=60)
    with open_progress(plan(200), console, live=False):
        pass
    board = Board(plan(200), time.monotonic)
    display = LiveDisplay(board, console)
    for n in range(200):
        display.show(HostStage(alias=f"node{n:03d}", stage=Stage.RUN))
    taken = []
    for _ in range(5):  # the least of them: what else the process has to clean up is not the display's
        before = time.process_time()
        for n in range(8):  # what two seconds draw, with an event in every frame
            display.show(polled(f"node{n:03d}", 1))
            console.render_lines(display.draw())
        taken.append(time.process_time() - before)
    assert min(taken) / 2 < 0.05
