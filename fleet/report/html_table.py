"""A table as the page shows it: one shape for all, so that one template and one script sort and filter any of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fleet.report.details_model import Ratio
from fleet.report.view_model import EntryKind
from fleet.report.wording import format_rate


@dataclass(frozen=True)
class TableCell:
    text: str
    small: str = ""
    """Said below it, less loudly."""
    value: float | None = None
    """What it is sorted by; None: by its text, or not at all where others of the column have a value."""
    style: str = ""
    """Classes of the style sheet; fixed words, never text of a host."""
    href: str = ""


@dataclass(frozen=True)
class Head:
    text: str
    small: str = ""
    numeric: bool = True
    href: str = ""


@dataclass(frozen=True)
class Table:
    """The first cell of a row is its head."""

    name: str
    """Unique on the page; a word of ours."""
    caption: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    filtered: bool = False
    """Whether it is so long that one looks for rows by their text."""
    shared: tuple[str, ...] = ()
    """What all rows have in common and no column says."""


def write_rate(rate: float | None, *, best: bool = False, share: float | None = None, small: str = "") -> TableCell:
    """Images per second, with a bar below it as long as its share of the best."""
    if rate is None:
        return TableCell("—", small, style="n unplanned")
    style = " ".join(word for word in ("n", "best" if best else "", choose_bar(share)) if word)
    return TableCell(("★ " if best else "") + format_rate(rate), small, rate, style)


def choose_bar(share: float | None) -> str:
    """The class for a bar of this share, 0 to 1, in steps of 5 %: a page without inline styles has no finer ones."""
    if share is None or not math.isfinite(share):
        return ""
    return f"bar b{round(min(max(share, 0.0), 1.0) * 20) * 5}"


def write_word(word: str, kind: EntryKind, small: str = "") -> TableCell:
    """A word in place of a value, with a sign for what kind of word it is."""
    if kind == "unplanned":
        return TableCell("—", small, style="n unplanned")
    return TableCell(f"{'✖' if kind == 'failure' else '▲'} {word}" if word else "—", small, style=f"n {kind}")


def write_ratio(ratio: Ratio) -> TableCell:
    """`2.9×`."""
    if ratio.value is None:
        return TableCell(ratio.word or "—", style="n unplanned")
    return TableCell(f"{format_rate(ratio.value)}×", value=ratio.value, style="n")


def write_number(value: float | None, *, style: str = "") -> TableCell:
    """A number; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return TableCell("—", style="n unplanned")
    return TableCell(format_rate(value), value=value, style=f"n {style}".strip())


def format_percent(share: float) -> str:
    """`86 %`."""
    return f"{share * 100:.0f} %" if abs(share) < 1e6 else f"{share * 100:.0e} %"


def fold_columns(table: Table, always: int) -> Table:
    """The table without the columns of which nothing is known, and with those that all rows share said below it.

    Args:
        always: so many columns, the first ones, stay whatever is in them.
    """
    kept, shared = list(range(always)), []
    for place in range(always, len(table.heads)):
        cells = {(row[place].text, row[place].small) for row in table.rows}
        texts = {text for text, _ in cells}
        if len(cells) == 1 and len(table.rows) > 1 and texts != {"—"}:
            text, small = cells.pop()
            shared.append(f"{table.heads[place].text} {text}{f' ({small})' if small else ''}")
        elif texts != {"—"}:
            kept.append(place)
    return replace(
        table,
        heads=tuple(table.heads[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        shared=tuple(shared),
    )
