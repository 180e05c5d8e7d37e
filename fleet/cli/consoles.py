"""The two consoles: the deliverable goes to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe, unless COLUMNS says otherwise."""


def open_stdout() -> Console:
    """For what was asked for. Markup and highlighting are off: text is text."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def open_stderr() -> Console:
    """For progress and hints."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)
