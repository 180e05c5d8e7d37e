"""The two consoles: the deliverable goes to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from fleet.report.terminal_blocks import Ink, print_indented
from fleet.report.wording import make_line, say_sentence

PIPE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe, unless COLUMNS says otherwise."""

NARROWEST = 20
"""Nothing can be read in fewer columns."""

_LONGEST = 600


def open_stdout() -> Console:
    """For what was asked for. Markup and highlighting are off: text is text."""
    _forget_useless_width()
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def open_stderr() -> Console:
    """For progress and hints."""
    _forget_useless_width()
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def _forget_useless_width() -> None:
    """COLUMNS that is no number, or none to draw in, says nothing: some shells export 0 for what they do not know."""
    said = os.environ.get("COLUMNS")
    if said is not None and not (said.isascii() and said.isdigit() and int(said[:9]) >= NARROWEST):
        del os.environ["COLUMNS"]


def print_problem(console: Console, alias: str, message: str, hint: str) -> None:
    """What is wrong with a host and what to do next, as the report writes it."""
    ink = Ink.of(console)
    said, advice = say_sentence(make_line(message, _LONGEST), alias), make_line(hint, _LONGEST)
    console.print(ink.text(f"✖ {alias}", "bold"))
    print_indented(console, ink.text(f"{said} → {advice}" if advice else said), 4)
    console.print()
