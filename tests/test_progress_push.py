"""What people see while images are pushed, with and without a terminal."""

from __future__ import annotations

import io
import re

from rich.console import Console

from fleet.model.push import PushFinished, PushNotice, PushOutcome, PushStage, format_bytes
from fleet.model.result import HostStatus
from fleet.progress_push import Meter, PushBars, PushBoard, PushLines, open_push_progress

MB = 1_000_000
SIZES = {"gpu01": 100 * MB, "gpu02": 100 * MB, "gpu03": 100 * MB, "cpu01": 0}


class Clock:
    """A time that the test makes go by."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def finished(alias: str, status: HostStatus, message: str = "", hint: str = "", sent: int = 0) -> PushFinished:
    outcome = PushOutcome(
        alias=alias, status=status, message=message, hint=hint, sent_bytes=sent, send_s=2.0 if sent else None
    )
    return PushFinished(alias=alias, outcome=outcome)


def sending(alias: str, total: int, kept: int = 0) -> PushStage:
    return PushStage(alias=alias, step="sending", total_bytes=total, kept_bytes=kept)


def test_sizes_are_written_as_docker_writes_them() -> None:
    written = {0: "0 B", 999: "999 B", 1_000: "1.00 kB", 1_254: "1.25 kB", 12_540: "12.5 kB", 99_949: "99.9 kB"}
    written |= {99_960: "100 kB", 999_400: "999 kB", 999_600: "1.00 MB", 11_240_000_000: "11.2 GB"}
    written |= {2_345_000_000_000: "2,345 GB"}
    assert {count: format_bytes(count) for count in written} == written


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = Meter()
    rates = [meter.measure(float(second), 10 * min(second, 20)) for second in range(0, 60, 2)]

    assert rates[:11] == [0.0] + [10.0] * 10
    assert rates[12] < 10
    assert rates[-1] == 0.0
    assert meter.measure(60, 100) == 0.0  # what was sent did not arrive
    assert meter.measure(61, 130) == 30.0


def test_lines_tell_what_matters_once() -> None:
    out = io.StringIO()
    with open_push_progress(SIZES, Console(file=out, width=80), live=False) as progress:
        progress.show(PushStage(alias="gpu01", step="connecting"))
        progress.show(PushStage(alias="gpu01", step="checking", total_bytes=90 * MB, kept_bytes=30 * MB))
        progress.show(sending("gpu01", 90 * MB, 30 * MB))
        progress.count("gpu01", 60 * MB)
        progress.show(sending("gpu01", 90 * MB, 80 * MB))
        progress.show(PushNotice(alias="gpu01", message="trying again:\nlost"))
        progress.show(PushStage(alias="gpu01", step="loading"))
        progress.show(finished("gpu01", HostStatus.OK, sent=60 * MB))
        progress.show(finished("gpu02", HostStatus.SKIPPED, "the image was there already"))
        progress.show(finished("gpu03", HostStatus.UNREACHABLE, "[red]Refused[/red] by " + "x" * 99, "Is sshd up?"))
    lines = out.getvalue().splitlines()

    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert [line[9:] for line in lines] == [
        "gpu01: sending 90.0 MB, 30.0 MB of which are there",
        "gpu01: trying again: lost",
        "gpu01: loading",
        "gpu01: ok: 60.0 MB in 2 s",
        "gpu02: skipped: The image was there already.",
        f"gpu03: unreachable: [red]Refused[/red] by {'x' * 99}. → Is sshd up?",
    ]


def test_the_sum_counts_what_is_left_and_how_fast_it_goes() -> None:
    clock = Clock()
    board = PushBoard(SIZES, clock)
    assert board.sum_up() == "0 B of 300 MB · 4 waiting"
    board.apply(sending("gpu01", 80 * MB))
    board.apply(sending("gpu02", 80 * MB, 30 * MB))
    board.apply(finished("gpu03", HostStatus.FAILED))
    board.apply(finished("cpu01", HostStatus.SKIPPED))
    assert board.sum_up() == "30.0 MB of 160 MB · 2 sending, 1 failed, 1 skipped"
    clock.now_s = 2
    board.count("gpu01", 20 * MB)
    assert board.sum_up() == "50.0 MB of 160 MB · 25.0 MB/s · 4 s left · 2 sending, 1 failed, 1 skipped"


def draw(bars: PushBars) -> list[str]:
    return bars.draw().plain.splitlines()


def test_bars_show_the_hosts_at_work_and_all_of_them() -> None:
    clock = Clock()
    board = PushBoard(SIZES, clock)
    out = io.StringIO()
    bars = PushBars(board, Console(file=out, width=100, height=30, force_terminal=True))
    assert draw(bars) == ["──────────────── 0 B of 300 MB · 4 waiting"]
    bars.show(PushStage(alias="gpu01", step="reading"))
    bars.show(sending("gpu02", 80 * MB))
    bars.show(finished("gpu03", HostStatus.FAILED, "no room", "Make some."))
    draw(bars)
    clock.now_s = 2
    bars.count("gpu02", 40 * MB)

    assert draw(bars) == [
        "▸ gpu01  reading the image",
        "▸ gpu02  sending ━━━━━━━━──────── 40.0 MB of 80.0 MB · 20.0 MB/s · 2 s left",
        "━━━───────────── 40.0 MB of 180 MB · 20.0 MB/s · 7 s left · "
        "1 reading the image, 1 sending, 1 failed, 1 waiting",
    ]
    assert "✖ gpu03: failed: No room. → Make some." in out.getvalue()


def test_a_small_terminal_without_unicode_gets_a_frame_that_fits() -> None:
    sizes = {f"node{number:03d}": MB for number in range(40)}
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    bars = PushBars(PushBoard(sizes, Clock()), Console(file=raw, width=60, height=10, force_terminal=True))
    for alias in sizes:
        bars.show(sending(alias, MB))
    lines = draw(bars)

    assert len(lines) <= 9
    assert lines[0] == "> node000  sending ................ 0 B of 1.00 MB"
    assert lines[-2] == "  and 33 more"
    assert all(line.isascii() for line in lines)


def test_lines_sum_up_when_asked() -> None:
    out = io.StringIO()
    PushLines(PushBoard(SIZES, Clock()), Console(file=out, width=80)).sum_up()
    assert out.getvalue()[9:] == "0 B of 300 MB · 4 waiting\n"
