"""How progress prints a line."""

from __future__ import annotations

from datetime import datetime

from rich.console import Console

from fleet.report.terminal_blocks import Ink


def print_line(console: Console, text: str, *, timed: bool = False, style: str = "") -> None:
    """Print the text as one line that only the terminal itself may wrap, `timed` with the time of day before it."""
    stamp = f"{datetime.now():%H:%M:%S} " if timed else ""
    console.print(Ink.of(console).text(stamp + text, style), soft_wrap=True)
