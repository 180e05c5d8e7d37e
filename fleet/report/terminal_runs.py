"""The list of runs on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from fleet.report.runs import RunLine
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import format_time

_STYLES = {"complete": "", "running": "green", "incomplete": "yellow", "damaged": "red"}


def render_runs(lines: Sequence[RunLine], console: Console) -> None:
    """Print one line per run, in the given order, and what is wrong with damaged ones below."""
    ink = Ink.of(console)
    if not lines:
        console.print(ink.text("There are no runs yet. Make one with: fleet run -i INVENTORY"))
        return
    parts: tuple[tuple[str, Callable[[RunLine], str], bool], ...] = (
        ("started", lambda line: format_time(line.created) if line.created else "?", False),
        ("suite", lambda line: line.suite or "?", False),
        ("hosts ok", lambda line: _write_share(line.hosts_ok, line.hosts_total), True),
        ("cells ok", lambda line: _write_share(line.cells_ok, line.cells_total), True),
        ("exit", lambda line: "" if line.exit_code is None else str(line.exit_code), True),
    )
    keys = [Column(ink.text("run"), tuple(ink.text(line.run_id, "bold") for line in lines))]
    columns = [
        Column(
            ink.text(head), tuple(ink.text(read(line)) for line in lines), "right" if number else "left", numeric=number
        )
        for head, read, number in parts
    ]
    columns.append(Column(ink.text("state"), tuple(ink.text(line.state, _STYLES[line.state]) for line in lines)))
    print_blocks(console, keys, columns)
    for line in lines:
        if line.problem:
            console.print(ink.text(f"{line.run_id}: {line.problem}", "red"))


def _write_share(part: int | None, whole: int | None) -> str:
    return f"{'?' if part is None else part}/{'?' if whole is None else whole}"
