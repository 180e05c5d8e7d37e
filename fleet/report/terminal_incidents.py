"""Incidents on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fleet.report.incident_view import IncidentLine
from fleet.report.terminal_blocks import Ink, print_indented

_INDENT = 4


def render_incidents(lines: Sequence[IncidentLine], said: Sequence[str], console: Console) -> None:
    """Print each incident with how it stands, then what else is to be known."""
    ink = Ink.of(console)
    for line in lines:
        sign, style = ("▼", "bold red") if line.state == "open" else ("✔", "green")
        head = Text.assemble(ink.text(f"{sign} {line.id}", style), ink.text(f"  {line.state}", "bold"))
        print_indented(console, Text.assemble(head, ink.text(f"  {line.what}")), 0)
        print_indented(console, ink.text(_say_course(line), "dim"), _INDENT)
    if lines and said:
        console.print()
    for sentence in said:
        print_indented(console, Text.assemble(ink.text("· ", "dim"), ink.text(sentence)), 0)


def _say_course(line: IncidentLine) -> str:
    parts = [f"confirmed by run {line.opened}"]
    parts += [f"{line.state} in run {line.ended}"] if line.ended else []
    parts += [f"because: {line.reason}"] if line.reason else []
    parts += [f"and {line.covers} more that it tells"] if line.covers else []
    return ", ".join(parts)
