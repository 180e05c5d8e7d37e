"""The list of runs on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from fleet.model.push import format_bytes
from fleet.report.run_details import RunDetails
from fleet.report.runs import RunLine
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import format_duration, format_time, say_status

_STYLES = {"running": "green", "incomplete": "yellow", "damaged": "red"}


def render_runs(lines: Sequence[RunLine], console: Console) -> None:
    """Print one line per run, in the given order, and what is wrong with damaged ones below."""
    ink = Ink.of(console)
    if not lines:
        console.print(ink.text("There are no runs yet. Make one with: fleet run -i INVENTORY"))
        return
    parts: tuple[tuple[str, Callable[[RunLine], str], bool], ...] = (
        ("started (UTC)", lambda line: format_time(line.created).removesuffix(" UTC") if line.created else "?", False),
        ("suite", lambda line: line.suite or "?", False),
        ("hosts ok", lambda line: _write_share(line.hosts_ok, line.hosts_total), True),
        ("cells ok", lambda line: _write_share(line.cells_ok, line.cells_total), True),
    )
    keys = [Column(ink.text("run"), tuple(ink.text(line.run_id, "bold") for line in lines))]
    for head, read, number in parts:
        cells = tuple(ink.text(read(line)) for line in lines)
        keys.append(Column(ink.text(head), cells, "right" if number else "left"))
    ends = tuple(ink.text(*_write_end(line)) for line in lines)
    print_blocks(console, keys[:1], [*keys[1:], Column(ink.text("ended"), ends)], even=False, gap=False)
    damaged = [line for line in lines if line.problem]
    if damaged:
        console.print()
    for line in damaged:
        console.print(ink.text(f"{line.run_id}: {line.problem}", "red"))


def render_details(details: RunDetails, console: Console) -> None:
    """Print one run: a line for each thing to know, and its hosts."""
    ink = Ink.of(console)
    ended = details.state if details.exit_code is None else f"exit {details.exit_code}"
    said = {
        "run": details.run_id,
        "ended": f"{format_time(details.finished)}, {ended}" if details.finished else ended,
        "started": format_time(details.created),
        "suite": details.suite,
        "inventory": details.inventory + (f", only {details.limit}" if details.limit else ""),
        "fleet": f"{details.fleet_version}, benchmark {details.payload_sha256[:12]}",
        "hosts ok": _write_share(details.hosts_ok, details.hosts_total),
        "cells ok": _write_share(details.cells_ok, details.cells_total),
        "directory": f"{details.path}, {format_bytes(details.size_bytes)}",
        **({"baseline": "; ".join(details.baseline_for)} if details.baseline_for else {}),
    }
    for name, value in said.items():
        console.print(ink.text(f"{name:10} {value}"), soft_wrap=True)
    console.print()
    rows = {
        "status": [say_status(host.status) for host in details.hosts],
        "stage": [host.stage or "" for host in details.hosts],
        "reason": [host.reason or "" for host in details.hosts],
        "cells ok": [_write_share(host.cells_ok, host.cells_total) for host in details.hosts],
        "time": ["" if host.job_s is None else format_duration(host.job_s) for host in details.hosts],
    }
    columns = [Column(ink.text(head), tuple(ink.text(value) for value in values)) for head, values in rows.items()]
    aliases = Column(ink.text("host"), tuple(ink.text(host.alias, "bold") for host in details.hosts))
    print_blocks(console, [aliases], columns, even=False, gap=False)


def _write_share(part: int | None, whole: int | None) -> str:
    return f"{'?' if part is None else part}/{'?' if whole is None else whole}"


def _write_end(line: RunLine) -> tuple[str, str]:
    """How the run ended and the style to say it in: a complete one with its exit code."""
    if line.exit_code is None:
        return line.state, _STYLES.get(line.state, "")
    return f"exit {line.exit_code}", "green" if line.exit_code == 0 else "red"
