"""Tables that fit: what is too wide for the terminal goes on in a further block, never off the edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Columns of space between two table columns."""

_ASCII = str.maketrans(
    {
        "★": "*",
        "—": "-",
        "–": "-",
        "×": "x",
        "·": "|",
        "…": "...",
        "→": "->",
        "▼": "v",
        "±": "+-",
        "÷": "/",
        "✔": "+",
        "✖": "x",
    }
)


@dataclass(frozen=True)
class Ink:
    """Makes all text that is printed: markup is never read, and an output that lacks a sign gets another for it."""

    ascii_only: bool

    @classmethod
    def of(cls, console: Console) -> Ink:
        """The ink for a console: plain ASCII unless its encoding is Unicode."""
        return cls(console.options.ascii_only)

    def text(self, content: str, style: str = "") -> Text:
        """The content as it stands, in one style."""
        if self.ascii_only:
            content = content.translate(_ASCII).encode("ascii", "replace").decode("ascii")
        return Text(content, style=style, overflow="fold")


@dataclass(frozen=True)
class Column:
    """One column: its head and a text per row. Lines wider than `widest` are folded; `numeric` ones never."""

    head: Text
    cells: tuple[Text, ...]
    justify: Literal["left", "right"] = "left"
    widest: int = 30
    numeric: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal it takes."""
        body = max((cell_len(line) for cell in self.cells for line in cell.plain.split("\n")), default=1)
        if self.numeric:
            return max(body, min(_longest_line(self.head), max(body, 12)), 1)
        return max(1, min(max(body, _longest_line(self.head)), self.widest))


def _longest_line(text: Text) -> int:
    return max(cell_len(line) for line in text.plain.split("\n"))


def print_blocks(console: Console, keys: Sequence[Column], columns: Sequence[Column], *, even: bool = True) -> None:
    """Print a table; `keys` are repeated in every block, the other columns are dealt out over as many as it takes.

    Args:
        even: make the blocks about equally wide; else each as full as it can be.
    """
    taken = sum(key.width + _GAP for key in keys)
    for block in (_deal if even else _fill)(taken, columns, console.width):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for column in [*keys, *block]:
            fits = min(column.width, console.width)
            table.add_column(column.head, justify=column.justify, width=fits, overflow="fold", vertical="top")
        for place in range(len(keys[0].cells)):
            table.add_row(*(column.cells[place] for column in [*keys, *block]))
        console.print(table)
        console.print()


def print_indented(console: Console, text: Text, indent: int) -> None:
    """Print wrapped text that far from the left, and nothing to the right of it."""
    for line in text.wrap(console, max(console.width - indent, 1)):
        line.rstrip()
        console.print(Text.assemble(" " * indent, line))


def _deal(taken: int, columns: Sequence[Column], available: int) -> list[list[Column]]:
    """As few blocks as there can be, about equally wide, in the given order."""
    count = len(_fill(taken, columns, available))
    for limit in range(taken, available + 1):
        blocks = _fill(taken, columns, limit)
        if len(blocks) <= count:
            return blocks
    return _fill(taken, columns, available)


def _fill(taken: int, columns: Sequence[Column], limit: int) -> list[list[Column]]:
    blocks: list[list[Column]] = [[]]
    used = taken - _GAP
    for column in columns:
        if blocks[-1] and used + _GAP + column.width > limit:
            blocks.append([])
            used = taken - _GAP
        blocks[-1].append(column)
        used += _GAP + column.width
    return blocks
