"""Lines for a terminal, broken between words: what a terminal breaks by itself, it breaks anywhere."""

from __future__ import annotations

import re

from rich.cells import cell_len

_UNIT = re.compile(r"(?<=: )(?:fleet|docker)(?: [^\s(]\S*(?<![.,;]))* [^\s(]\S*|(?:`[^`]+`|\S)+")
"""What stays together: a command to copy, after a colon or between backticks; else a word."""


def wrap_words(text: str, width: int, indent: int = 0) -> list[str]:
    """The text in lines of at most `width` columns, each after the first `indent` columns in.

    A command, a path or a word that is wider than that has a line of its own and is left whole.
    """
    return [line for part in text.split("\n") for line in _wrap(part, width, indent)]


def _wrap(text: str, width: int, indent: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    lines = [text[: len(text) - len(text.lstrip())]]
    for unit in _UNIT.findall(text):
        blank = " " if lines[-1].strip() else ""
        if blank and cell_len(lines[-1]) + 1 + cell_len(unit) > width:
            lines.append(" " * indent)
            blank = ""
        lines[-1] += blank + unit
    return lines
