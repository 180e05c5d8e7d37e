"""Progress without a terminal: plain lines, as cron mails and log files keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread

from rich.console import Console

from fleet.model.event import Event, HostFinished, HostNotice, HostStage
from fleet.model.result import Stage
from fleet.progress_board import Board, HostState, one_line, tell_outcome
from fleet.progress_print import print_line
from fleet.report.wording import count_things, format_duration

STATUS_EVERY_S = 60.0
"""How often a line says how far the run as a whole is: often enough to see that it lives, whatever its hosts do."""

TELL_STAGES_UP_TO = 16
"""With more hosts than this, their lines are their ends and notices only."""


class LineDisplay:
    """One line for each thing that matters; polls that bring nothing new are silent."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console

    def show(self, event: Event) -> None:
        host = self._board.apply(event)
        if host is not None and (text := self._tell(event, host)):
            print_line(self._console, f"{event.alias}: {text}", timed=True)

    def sum_up(self) -> None:
        """Print how far the run is."""
        with self._board.lock:
            text = self._board.sum_up()
        print_line(self._console, text, timed=True)

    def _tell(self, event: Event, host: HostState) -> str:
        if isinstance(event, HostFinished):
            return tell_outcome(host)
        if isinstance(event, HostNotice):
            return one_line(event.message)
        if not isinstance(event, HostStage) or len(self._board.hosts) > TELL_STAGES_UP_TO:
            return ""
        if event.stage == Stage.PULL:
            return f"pulling {host.plan.settings.image}"
        if event.stage == Stage.RUN:
            cells = count_things(len(host.plan.cells), "cell")
            return f"measuring {cells}, about {format_duration(host.plan.estimate_s)}"
        return ""


@contextmanager
def keep_telling(tell: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `tell` that often until the block ends."""
    ended = Flag()

    def tell_until_ended() -> None:
        while not ended.wait(every_s):
            tell()

    thread = Thread(target=tell_until_ended, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
