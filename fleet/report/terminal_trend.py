"""The nights of a suite on a terminal: a small curve for each cell on each host."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fleet.report.sparkline import BLOCKS, NIGHTS, PLAIN, draw_curve
from fleet.report.terminal_blocks import Column, Ink, print_blocks, print_indented
from fleet.report.terminal_matrix import split_parameters
from fleet.report.trend_view import Mark, TrendLine, TrendView, format_change, say_terms
from fleet.report.wording import count_things, format_rate, join_names

_SIGNS = {"faster": ("▲ ", "green"), "slower": ("▼ ", "red")}
_MARKS = 20
"""At most so many changes are told; the rest are counted."""


def render_trend(view: TrendView, console: Console) -> None:
    """Print a line for each series, and below them what changed on the hosts."""
    ink = Ink.of(console)
    print_indented(console, ink.text(f"Suite {view.suite}, {count_things(len(view.run_ids), 'run')}", "bold"), 0)
    print_indented(console, ink.text(f"{view.run_ids[0]} to {view.run_ids[-1]}", "dim"), 0)
    console.print()
    lines = sorted(view.lines, key=lambda line: (line.cell.model, line.cell.id, line.host))
    marks = {(mark.run_id, mark.host) for mark in view.marks}
    keys, shared = split_parameters([line.cell for line in lines], ink)
    keys.append(Column(ink.text("host"), tuple(ink.text(line.host, "bold") for line in lines)))
    signs = PLAIN if ink.ascii_only else BLOCKS
    curves = tuple(ink.text(draw_curve(line, view.run_ids, marks, signs)) for line in lines)
    finds = tuple(ink.text(format_change(line.detectable)) for line in lines)
    columns = [
        Column(ink.text("runs"), curves, widest=2 * NIGHTS),
        Column(ink.text("latest"), tuple(ink.text(format_rate(line.latest)) for line in lines), "right", numeric=True),
        Column(ink.text("change"), tuple(_write_change(line, view, ink) for line in lines), "right"),
        Column(ink.text("finds"), finds, "right", numeric=True),
        Column(ink.text("levels"), tuple(ink.text(_say_levels(line)) for line in lines), widest=36),
    ]
    print_blocks(console, keys, columns, even=False)
    if shared:
        print_indented(console, ink.text(f"all cells: {', '.join(shared)}", "dim"), 0)
    print_indented(console, ink.text(say_terms(view), "dim"), 0)
    console.print()
    _print_marks(view.marks, console, ink)


def _write_change(line: TrendLine, view: TrendView, ink: Ink) -> Text:
    missing = "" if line.latest_run == view.run_ids[-1] else " (not in the last run)"
    if line.change is None:
        return ink.text(f"learning: {line.count} of {view.least}{missing}", "dim")
    sign, style = _SIGNS.get(line.word, ("", ""))
    return ink.text(f"{sign}{format_change(line.change)}{missing}", style)


def _say_levels(line: TrendLine) -> str:
    return "\n".join(f"{format_change(level.change)} from {level.run_id[:8]} on" for level in line.levels)


def _print_marks(marks: Sequence[Mark], console: Console, ink: Ink) -> None:
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for mark in marks:
        together.setdefault((mark.run_id, mark.changes), []).append(mark.host)
    if not together:
        return
    console.print(ink.text("What changed on the hosts", "bold"))
    console.print()
    told = list(together.items())[-_MARKS:]
    if len(together) > len(told):
        print_indented(console, ink.text(f"{len(together) - len(told)} earlier ones, with --json", "dim"), 0)
    for (run_id, changes), hosts in told:
        line = f"{run_id}  {join_names(hosts)}: {'; '.join(changes)}"
        print_indented(console, Text.assemble(ink.text("│ ", "dim"), ink.text(line)), 0)
    console.print()
