"""Events → what a person sees of a run while it goes on: a live display on a terminal, plain lines without one.

Everything goes to the console that is given, which is stderr's: stdout is for the report. Nothing is read as markup.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from fleet.model.event import Event
from fleet.model.plan import Plan
from fleet.progress_board import Board
from fleet.progress_lines import STATUS_EVERY_S, LineDisplay, keep_telling
from fleet.progress_live import LiveDisplay
from fleet.progress_print import print_line
from fleet.report.wording import count_things, format_duration

REFRESH_PER_S = 4


class Progress(Protocol):
    """What a run tells its events to. May be called from any thread."""

    def show(self, event: Event) -> None:
        """Show one event. Events of hosts that are not in the plan are ignored."""
        ...


@contextmanager
def open_progress(plan: Plan, console: Console, *, live: bool, wave: int = 0, new: bool = True) -> Iterator[Progress]:
    """Show the progress of a run until the block ends, then one line that sums it up.

    Args:
        plan: the run's plan: what there is to do, and how long it may take.
        console: of stderr.
        live: draw over what was drawn before, which needs a terminal; otherwise print a line for what matters.
        wave: at most so many hosts measure at the same time; 0: all.
        new: it begins. Of a run that is taken up, nobody knows yet how far its hosts have got.
    """
    board = Board(plan, time.monotonic, wave)
    if new:
        hosts = count_things(len(plan.hosts), "host")
        print_line(console, f"{plan.suite} on {hosts}, about {format_duration(board.left_s())}", timed=not live)
    try:
        if live:
            display = LiveDisplay(board, console)
            try:
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
            finally:
                display.tell_alike()
        else:
            lines = LineDisplay(board, console)
            with keep_telling(lines.sum_up, STATUS_EVERY_S):
                yield lines
    finally:
        took = format_duration(board.elapsed_s())
        print_line(console, f"{board.count_states()} after {took}", timed=not live)
