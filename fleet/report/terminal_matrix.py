"""The cross-machine matrix on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fleet.model.suite import Cell
from fleet.report.columns import GROUP_ABOVE
from fleet.report.legend import mark_entry
from fleet.report.terminal_blocks import Column, Ink, print_blocks, print_indented
from fleet.report.view_model import Entry, GroupEntry, HardwareGroup, Matrix
from fleet.report.wording import count_things, fold_names, format_rate, format_spread

_STYLES = {"value": "", "result": "yellow", "failure": "red", "unplanned": "dim"}

_PARAMETERS: tuple[tuple[str, Callable[[Cell], str], bool], ...] = (
    ("model", lambda cell: cell.model, False),
    ("phase", lambda cell: cell.phase.replace("_", " "), False),
    ("precision", lambda cell: cell.precision, False),
    ("batch", lambda cell: str(cell.batch_size or "auto"), True),
    ("devices", lambda cell: f"{cell.devices or 'all'} {cell.device.upper()}", True),
    ("format", lambda cell: cell.data_format, False),
    ("variant", lambda cell: ", ".join(cell.variants), False),
)
"""Head, what it says of a cell, and whether it is a number."""

_ALWAYS = 1
"""So many parameters are columns even when all cells agree in them."""


def print_matrix(console: Console, matrix: Matrix) -> None:
    """Print one matrix, what all its cells share below it."""
    ink = Ink.of(console)
    grouped = len(matrix.hosts) > GROUP_ABOVE
    name = "GPU" if matrix.device == "gpu" else "CPU"
    title = f"{name} hosts" if not grouped else f"{name} hosts, {len(matrix.hosts)} by identical hardware"
    head = Text.assemble(ink.text(title, "bold"), ink.text("  images per second, higher is better", "dim"))
    print_indented(console, head, 0)
    console.print()
    keys, shared = split_parameters([row.cell for row in matrix.rows], ink)
    columns = _build_group_columns(matrix, ink) if grouped else _build_host_columns(matrix, ink)
    print_blocks(console, keys, columns)
    if grouped:
        _print_members(console, matrix.groups, ink)
    if shared:
        print_indented(console, ink.text(f"all cells: {', '.join(shared)}", "dim"), 0)


def split_parameters(measured: Sequence[Cell], ink: Ink) -> tuple[list[Column], list[str]]:
    """The parameters in which cells differ as columns; those that all share as words."""
    keys: list[Column] = []
    shared: list[str] = []
    for place, (head, read, number) in enumerate(_PARAMETERS):
        values = [read(cell) for cell in measured]
        if place < _ALWAYS or len(set(values)) > 1:
            cells = tuple(ink.text(value, "bold" if place == 0 else "") for value in _blank_repeats(values, place))
            keys.append(Column(ink.text(head), cells, "right" if number else "left", widest=22))
        elif head == "batch":
            shared.append(f"batch {values[0]} per device")
        elif values[0]:
            shared.append(values[0])
    return keys, shared


def _blank_repeats(values: Sequence[str], place: int) -> list[str]:
    """A model is named in its first row only; other parameters always."""
    if place:
        return list(values)
    return [value if index == 0 or values[index - 1] != value else "" for index, value in enumerate(values)]


def _build_host_columns(matrix: Matrix, ink: Ink) -> list[Column]:
    columns = []
    for place, alias in enumerate(matrix.hosts):
        entries = [row.entries[place] for row in matrix.rows]
        spreads = [format_spread(entry.spread) if entry.spread is not None else "" for entry in entries]
        widths = (max(map(len, spreads)), max(len(mark_entry(entry)) for entry in entries))
        cells = tuple(_write_entry(entry, widths, ink) for entry in entries)
        columns.append(Column(ink.text(alias), cells, "right", numeric=True))
    return columns


def _write_entry(entry: Entry, widths: tuple[int, int], ink: Ink) -> Text:
    """One entry; `widths` are those of its column's spreads and marks, so that its values stand below each other."""
    if entry.kind == "unplanned":
        return ink.text("—", "dim")
    if entry.images_per_s is None:
        return ink.text(_stack_words(entry.word), _STYLES[entry.kind])
    spread = format_spread(entry.spread) if entry.spread is not None else ""
    style = "bold green" if entry.best else ""
    return Text.assemble(
        ink.text(("★ " if entry.best else "") + format_rate(entry.images_per_s), style),
        ink.text(f"{mark_entry(entry):<{widths[1]}}" if widths[1] else "", "yellow"),
        ink.text(f" {spread:>{widths[0]}}" if widths[0] else "", "dim"),
        ink.text(f"\n{entry.found}" if entry.found else "", "dim"),
        justify="right",
    )


def _stack_words(words: str, widest: int = 16) -> str:
    """Words on as many lines as it takes, each at most `widest` columns unless one word is longer."""
    lines: list[str] = []
    for word in words.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= widest:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)


def _build_group_columns(matrix: Matrix, ink: Ink) -> list[Column]:
    columns = []
    for place, group in enumerate(matrix.groups):
        cells = tuple(_write_group(row.groups[place], len(group.aliases), ink) for row in matrix.rows)
        head = f"{_stack_words(group.label or 'hardware not known', 18)}\n{count_things(len(group.aliases), 'host')}"
        columns.append(Column(ink.text(head), cells, "right", widest=22))
    return columns


def _write_group(entry: GroupEntry, size: int, ink: Ink) -> Text:
    lines: list[Text] = []
    if entry.median is not None and entry.lowest is not None and entry.highest is not None:
        style = "bold green" if entry.best else "bold"
        median = ink.text(("★ " if entry.best else "") + format_rate(entry.median), style)
        count = ink.text(f" of {entry.measured}" if entry.measured != size else "", "dim")
        lines.append(Text.assemble(median, count))
        if entry.slowest:
            lines.append(ink.text(f"{format_rate(entry.lowest)}–{format_rate(entry.highest)}"))
            lines.append(ink.text(f"▼ {entry.slowest}", "dim"))
        lines += [ink.text(found, "dim") for found in entry.found]
    lines += [ink.text(_stack_words(f"{said.count} {said.word}"), _STYLES[said.kind]) for said in entry.words]
    if not lines:
        return ink.text("—", "dim")
    return Text("\n", overflow="fold").join(lines)


def _print_members(console: Console, groups: Sequence[HardwareGroup], ink: Ink) -> None:
    for group in groups:
        label = group.label or "hardware not known"
        print_indented(console, ink.text(f"{label}: {', '.join(fold_names(group.aliases))}", "dim"), 0)
    console.print()
