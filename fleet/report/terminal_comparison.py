"""A comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fleet.report.comparison_view import CellLine, ComparisonView, HostLine, Side
from fleet.report.legend import explain_marks
from fleet.report.terminal_blocks import Column, Ink, print_blocks, print_indented
from fleet.report.terminal_matrix import split_parameters
from fleet.report.wording import format_rate, format_time

_STYLES = {
    "better": "bold green",
    "same": "bold",
    "worse": "bold red",
    "mixed": "bold yellow",
    "incomparable": "bold yellow",
}
_SIGNS = {"faster": ("▲", "green"), "slower": ("▼", "red"), "same": ("", "")}
_LINES = 20
"""At most so many of what was not compared; the rest are counted."""


def render_comparison(view: ComparisonView, console: Console) -> None:
    """Print who is faster by how much, host by host and cell by cell, and what explains it."""
    ink = Ink.of(console)
    head = Text.assemble(ink.text(view.verdict.upper(), _STYLES[view.verdict]), ink.text(f"  {view.sentence}"))
    print_indented(console, head, 0)
    for name, side in (("left ", view.left), ("right", view.right)):
        print_indented(console, ink.text(f"{name}  {_describe(side)}", "dim"), 0)
    console.print()
    if view.cells:
        _print_hosts(console, view.hosts, ink)
        _print_cells(console, view.cells, ink)
    _print_list(console, "What differs", view.differences, ink)
    _print_list(console, "Not compared", view.left_out, ink)


def _describe(side: Side) -> str:
    return " · ".join(
        [*([side.host] if side.host else []), side.run_id, f"suite {side.suite}", format_time(side.created)]
    )


def _print_hosts(console: Console, hosts: Sequence[HostLine], ink: Ink) -> None:
    keys = [Column(ink.text("host"), tuple(ink.text(line.host, "bold") for line in hosts))]
    columns = [
        Column(ink.text("cells"), tuple(ink.text(f"{line.count}/{line.total}") for line in hosts), "right"),
        Column(ink.text("right ÷ left"), tuple(_write_speed(line, ink) for line in hosts), "right"),
        Column(ink.text("95 % interval"), tuple(_write_interval(line, ink) for line in hosts), "right"),
    ]
    print_blocks(console, keys, columns)


def _write_speed(line: HostLine, ink: Ink) -> Text:
    return ink.text("—", "dim") if line.speed is None else ink.text(f"{line.speed:.3f}")


def _write_interval(line: HostLine, ink: Ink) -> Text:
    if line.low is None or line.high is None:
        return ink.text("—", "dim")
    return ink.text(f"{line.low:.3f} to {line.high:.3f}", "dim")


def _print_cells(console: Console, lines: Sequence[CellLine], ink: Ink) -> None:
    ordered = sorted(lines, key=lambda line: (line.cell.model, line.cell.id, line.host))
    keys, shared = split_parameters([line.cell for line in ordered], ink)
    if len({line.host for line in ordered}) > 1:
        keys.append(Column(ink.text("host"), tuple(ink.text(line.host) for line in ordered)))
    columns = [
        Column(ink.text("left"), _write_rates([(line.left, line.left_marks) for line in ordered], ink), "right"),
        Column(ink.text("right"), _write_rates([(line.right, line.right_marks) for line in ordered], ink), "right"),
        Column(ink.text("change"), tuple(_write_change(line, ink) for line in ordered), "right", numeric=True),
    ]
    console.print(Text.assemble(ink.text("Cells", "bold"), ink.text("  images per second, higher is better", "dim")))
    console.print()
    print_blocks(console, keys, columns)
    if shared:
        print_indented(console, ink.text(f"all cells: {', '.join(shared)}", "dim"), 0)
    meanings = explain_marks("".join(line.left_marks + line.right_marks for line in ordered))
    for meaning in meanings:
        print_indented(console, ink.text(meaning, "dim"), 0)
    if shared or meanings:
        console.print()


def _write_rates(rates: Sequence[tuple[float, str]], ink: Ink) -> tuple[Text, ...]:
    widest = max(len(marks) for _, marks in rates)
    return tuple(
        Text.assemble(ink.text(format_rate(rate)), ink.text(f"{marks:<{widest}}", "yellow")) for rate, marks in rates
    )


def _write_change(line: CellLine, ink: Ink) -> Text:
    sign, style = _SIGNS[line.word]
    percent = f"{line.change * 100:+.1f} %".replace("-", "−")
    return ink.text(f"{sign} {percent}".strip(), style)


def _print_list(console: Console, title: str, lines: Sequence[str], ink: Ink) -> None:
    if not lines:
        return
    console.print(ink.text(title, "bold"))
    console.print()
    for line in lines[:_LINES]:
        print_indented(console, Text.assemble(ink.text("· ", "dim"), ink.text(line)), 0)
    if len(lines) > _LINES:
        print_indented(console, ink.text(f"and {len(lines) - _LINES} more, with --json", "dim"), 2)
    console.print()
