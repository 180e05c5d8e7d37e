"""Events → what a person sees of a run while it goes on: a live display on a terminal, plain lines without one.

Everything goes to the console that is given, which is stderr's: stdout is for the report. Nothing is read as markup.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fleet.model.event import Event, HostFinished, HostNotice, HostProgress, HostStage
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import CellStatus, HostOutcome, HostStatus, Stage

REFRESH_PER_S = 4
REDRAW_S = 1.0
"""A frame in which nothing happened is drawn again only this often: the times go by in seconds."""

_DOING = {
    Stage.CONNECT: "connecting",
    Stage.PROBE: "probing",
    Stage.PUSH: "pushing",
    Stage.START: "starting",
    Stage.PULL: "pulling",
    Stage.LAUNCH: "launching",
    Stage.RUN: "measuring",
    Stage.COLLECT: "collecting",
    Stage.CLEAN: "cleaning up",
}
_WAITING = "waiting"
_ASCII = str.maketrans("✓✗▸━─·…", "+x>#.-~")
"""For a terminal without Unicode: one character for one, so that styles stay where they are."""

_BAR = 8
"""Characters of a host's bar."""


class Progress(Protocol):
    """What a run tells its events to. May be called from any thread."""

    def show(self, event: Event) -> None:
        """Show one event. Events of hosts that are not in the plan are ignored."""
        ...


@contextmanager
def open_progress(plan: Plan, console: Console, *, live: bool) -> Iterator[Progress]:
    """Show the progress of a run until the block ends, then one line that sums it up.

    Args:
        plan: the run's plan: what there is to do, and how long it may take.
        console: of stderr.
        live: draw over what was drawn before, which needs a terminal; otherwise print a line for what matters.
    """
    board = Board(plan, time.monotonic)
    hosts = f"{len(plan.hosts)} host{'s' * (len(plan.hosts) != 1)}"
    _print(console, f"{plan.suite} on {hosts}, about {format_duration(board.left_s())}", timed=not live)
    try:
        if live:
            display = LiveDisplay(board, console)
            # transient: the report follows, and what is worth keeping has been printed above the frame.
            with Live(
                get_renderable=display.draw,
                console=console,
                refresh_per_second=REFRESH_PER_S,
                transient=True,
                redirect_stdout=False,
                vertical_overflow="crop",
            ):
                yield display
        else:
            yield LineDisplay(board, console)
    finally:
        took = format_duration(board.elapsed_s())
        _print(console, f"{board.count_states()} after {took}", timed=not live)


def format_duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@dataclass
class HostState:
    plan: HostPlan
    stage: Stage | None = None
    progress: HostProgress | None = None
    heard_s: float = 0.0
    """When the last event came."""
    outcome: HostOutcome | None = None

    @property
    def word(self) -> str:
        if self.outcome is not None:
            return self.outcome.status.value
        return _DOING[self.stage] if self.stage is not None else _WAITING

    @property
    def failed(self) -> bool:
        return self.outcome is not None and self.outcome.status not in {HostStatus.OK, HostStatus.SKIPPED}

    @property
    def working(self) -> bool:
        return self.outcome is None and self.stage is not None

    def cells_done(self) -> int:
        if self.outcome is not None:
            return _count_measured(self.outcome)
        return self.progress.cells_done if self.progress else 0

    def left_s(self, now_s: float) -> float:
        """Seconds until the host is expected to be done; below 0 when it should have been.

        From the plan's estimate at first, and the further the job gets the more from its own pace.
        """
        if self.outcome is not None:
            return 0.0
        estimate_s, seen = self.plan.estimate_s, self.progress
        if seen is None:
            return estimate_s - (now_s - self.heard_s if self.stage is not None else 0.0)
        left_s = estimate_s - seen.elapsed_s
        if seen.cells_done and seen.cells_total:
            weight = seen.cells_done / seen.cells_total
            pace_s = seen.elapsed_s / seen.cells_done * (seen.cells_total - seen.cells_done)
            left_s = (1 - weight) * left_s + weight * pace_s
        return left_s - (now_s - self.heard_s)


class Board:
    """The state of every planned host, from the events."""

    def __init__(self, plan: Plan, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = Lock()
        self.started_s = clock()
        self.hosts = {host.alias: HostState(host) for host in plan.hosts}
        self.cells = sum(len(host.cells) for host in plan.hosts)

    def apply(self, event: Event) -> HostState | None:
        """Take an event in; the host it changed, or None when it changed nothing."""
        host = self.hosts.get(event.alias)
        if host is None or host.outcome is not None:
            return None
        with self.lock:
            if isinstance(event, HostStage):
                if event.stage == host.stage:
                    return None
                host.stage = event.stage
            elif isinstance(event, HostProgress):
                host.progress = event
            elif isinstance(event, HostFinished):
                host.outcome = event.outcome
            if not isinstance(event, HostNotice) and not (isinstance(event, HostStage) and host.progress):
                host.heard_s = self.clock()
        return host

    def elapsed_s(self) -> float:
        return self.clock() - self.started_s

    def left_s(self) -> float:
        """Of the host that takes longest: all measure at the same time."""
        now_s = self.clock()
        return max((host.left_s(now_s) for host in self.hosts.values() if host.outcome is None), default=0.0)

    def count_states(self) -> str:
        """`2 ok, 1 unreachable, 3 measuring`: what has ended first, then by how far it has got."""
        counts = Counter(host.word for host in self.hosts.values())
        order = [*(status.value for status in HostStatus), *reversed(_DOING.values()), _WAITING]
        return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])


class LineDisplay:
    """One line for each thing that matters; polls that bring nothing new are silent."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console

    def show(self, event: Event) -> None:
        host = self._board.apply(event)
        if host is not None and (text := self._tell(event, host)):
            _print(self._console, f"{event.alias}: {text}", timed=True)

    def _tell(self, event: Event, host: HostState) -> str:
        if isinstance(event, HostFinished):
            return _tell_outcome(event.outcome, host.plan)
        if isinstance(event, HostNotice):
            return _one_line(event.message)
        if isinstance(event, HostStage) and event.stage == Stage.PULL:
            return f"pulling {host.plan.settings.image}"
        if isinstance(event, HostStage) and event.stage == Stage.RUN:
            return f"measuring {len(host.plan.cells)} cells, about {format_duration(host.plan.estimate_s)}"
        return ""


class LiveDisplay:
    """A frame that is drawn again and again; failures and notices are printed above it, and stay."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console
        self._frame = Text()
        self._drawn_s = float("-inf")
        self._size = console.size

    def show(self, event: Event) -> None:
        host = self._board.apply(event)
        if host is None:
            return
        self._drawn_s = float("-inf")
        if isinstance(event, HostNotice):
            _print(self._console, f"{event.alias}: {_one_line(event.message)}")
        elif host.failed and host.outcome is not None:
            _print(self._console, f"{event.alias}: {_tell_outcome(host.outcome, host.plan)}", style="red")

    def draw(self) -> Text:
        """The frame as it is now: at most as high and as wide as the terminal."""
        now_s, size = self._board.clock(), self._console.size
        if now_s - self._drawn_s >= REDRAW_S or size != self._size:
            with self._board.lock:
                self._frame = self._compose(now_s, size.height)
            if self._console.options.ascii_only:
                self._frame.plain = self._frame.plain.translate(_ASCII).encode("ascii", "replace").decode()
                self._frame.overflow = "crop"
            self._drawn_s, self._size = now_s, size
        return self._frame

    def _compose(self, now_s: float, height: int) -> Text:
        hosts = list(self._board.hosts.values())
        shown = _choose_hosts(hosts, max(1, height - 4), now_s)
        width = min(24, max(len(host.plan.alias) for host in shown))
        digits = max(len(str(len(host.plan.cells))) for host in shown)
        lines = [_draw_row(host, (width, digits), now_s) for host in shown]
        if len(shown) < len(hosts):
            lines.append(Text(f"  and {len(hosts) - len(shown)} more", style="dim"))
        done = sum(host.cells_done() for host in hosts)
        lines.append(
            Text.assemble(
                _draw_bar(done, self._board.cells, 2 * _BAR),
                f" {done}/{self._board.cells} cells · ",
                (_tell_left(self._board.left_s()), "bold"),
                f" · {self._board.count_states()}",
            )
        )
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def _choose_hosts(hosts: list[HostState], room: int, now_s: float) -> list[HostState]:
    """All when they fit; else those with most left to do, in the plan's order. Failures have been printed above."""
    if len(hosts) <= room:
        return hosts
    # Rounded, so that rows do not come and go at every poll.
    working = sorted((host for host in hosts if host.working), key=lambda host: -round(host.left_s(now_s) / 10))
    chosen = {host.plan.alias for host in [*working, *(host for host in hosts if not host.working)][:room]}
    return [host for host in hosts if host.plan.alias in chosen]


def _draw_row(host: HostState, widths: tuple[int, int], now_s: float) -> Text:
    width, digits = widths
    alias = host.plan.alias if len(host.plan.alias) <= width else host.plan.alias[: width - 1] + "…"
    if host.outcome is not None:
        mark, style = ("✗", "red") if host.failed else ("✓", "green")
        return Text.assemble((mark, style), f" {alias:<{width}}  ", (_tell_outcome(host.outcome, host.plan), style))
    if host.stage is None:
        return Text(f"  {alias:<{width}}  {_WAITING}", style="dim")
    line = Text.assemble(("▸", "cyan"), f" {alias:<{width}}  {host.word:<11} ")
    if host.stage == Stage.RUN:
        total = len(host.plan.cells)
        line.append_text(_draw_bar(host.cells_done(), total, _BAR))
        line.append(f" {host.cells_done():>{digits}}/{total:<{digits}} ")
        line.append(f"{_tell_left(host.left_s(now_s)).removesuffix(' left'):>10} ", style="bold")
    if host.progress is not None:
        line.append(f" {_one_line(host.progress.current_cell or host.progress.detail)}", style="dim")
    return line


def _draw_bar(done: int, total: int, width: int) -> Text:
    full = width * done // total if total else 0
    return Text.assemble(("━" * full, "cyan"), ("─" * (width - full), "dim"))


def _tell_left(left_s: float) -> str:
    if left_s >= 0:
        return f"{format_duration(left_s)} left"
    return f"{format_duration(-left_s)} over"


def _tell_outcome(outcome: HostOutcome, plan: HostPlan) -> str:
    """`ok, 12/12 cells in 3 min 20 s`, or the status and what happened and what to do."""
    text = outcome.status.value
    if outcome.cells:
        text += f", {_count_measured(outcome)}/{len(plan.cells)} cells"
    if outcome.job_s is not None:
        text += f" in {format_duration(outcome.job_s)}"
    sentence = " ".join(part for part in (_one_line(outcome.message), _one_line(outcome.hint)) if part)
    return f"{text}: {sentence}" if sentence else text


def _count_measured(outcome: HostOutcome) -> int:
    return sum(cell.status == CellStatus.OK for cell in outcome.cells)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print(console: Console, text: str, *, timed: bool = False, style: str = "") -> None:
    stamp = f"{datetime.now():%H:%M:%S} " if timed else ""
    console.print(Text(stamp + text, style=style), soft_wrap=True)
