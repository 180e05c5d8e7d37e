"""How progress prints a line."""

from __future__ import annotations

from datetime import datetime

from rich.console import Console

from fleet.report.terminal_blocks import Ink
from fleet.report.terminal_wrap import wrap_words

_INDENT = 2


def print_line(console: Console, text: str, *, timed: bool = False, style: str = "") -> None:
    """Print the text as one line, `timed` with the time of day before it; on a terminal broken between words."""
    line = f"{datetime.now():%H:%M:%S} {text}" if timed else text
    if console.is_terminal:
        line = "\n".join(wrap_words(line, console.width, _INDENT))
    console.print(Ink.of(console).text(line, style), soft_wrap=True)
