"""Tables that fit: what is too wide for the terminal goes on in a further block, never off the edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
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
        "↓": "v",
        "▲": "^",
        "−": "-",
        "±": "+-",
        "÷": "/",
        "✔": "+",
        "✖": "x",
        "▸": ">",
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
    """One column: its head and a text per row.

    Lines wider than `widest` are folded as far as the table's line needs it; in `numeric` columns only the head is.
    """

    head: Text
    cells: tuple[Text, ...]
    justify: Literal["left", "right"] = "left"
    widest: int = 30
    numeric: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal it takes, at least."""
        if self.numeric:
            return max(self._body, min(_longest_line(self.head), max(self._body, 12)), 1)
        return max(1, min(self.unfolded, self.widest))

    @property
    def unfolded(self) -> int:
        """Columns of the terminal in which nothing of it is folded."""
        return max(self._body, _longest_line(self.head))

    @property
    def _body(self) -> int:
        return max((_longest_line(cell) for cell in self.cells), default=1)


def _longest_line(text: Text) -> int:
    return max(cell_len(line) for line in text.plain.split("\n"))


def print_blocks(
    console: Console, keys: Sequence[Column], columns: Sequence[Column], *, even: bool = True, gap: bool = True
) -> None:
    """Print a table; `keys` are repeated in every block, the other columns are dealt out over as many as it takes.

    Args:
        even: make the blocks about equally wide; else each as full as it can be.
        gap: leave a blank line after the last block, too.
    """
    taken = sum(key.width + _GAP for key in keys)
    blocks = (_deal if even else _fill)(taken, columns, console.width)
    for number, block in enumerate(blocks, 1):
        _print_table(console, [*keys, *block])
        if gap or number < len(blocks):
            console.print()


def _print_table(console: Console, columns: Sequence[Column]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    spare = console.width - sum(column.width + _GAP for column in columns) + _GAP
    for column in columns:
        more = max(0, min(column.unfolded - column.width, spare))
        spare -= more
        fits = min(column.width + more, console.width)
        table.add_column(column.head, justify=column.justify, width=fits, overflow="fold", vertical="top")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    for line in console.render_lines(table, pad=False):
        console.print(Text.assemble(*_strip(line)), soft_wrap=True)


def _strip(line: Sequence[Segment]) -> list[tuple[str, Style]]:
    """A table's line without the blanks at its end, which would wrap in a narrower window and show in a file."""
    parts = [(segment.text, segment.style or Style.null()) for segment in line]
    while parts and not parts[-1][0].rstrip():
        parts.pop()
    return [*parts[:-1], (parts[-1][0].rstrip(), parts[-1][1])] if parts else []


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
