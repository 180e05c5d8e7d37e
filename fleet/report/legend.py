"""What the signs in a matrix mean."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.model.telemetry import CPU_BUSY, GPU_BUSY
from fleet.report.columns import GROUP_ABOVE
from fleet.report.view_model import Entry, Matrix, Row

_MARKS = {
    "~": "~ not steady: the second half of its steps is more than 1 % off the first",
    "!": f"! others used the host meanwhile: from {CPU_BUSY * 100:.0f} % of its processors on, "
    f"or {GPU_BUSY * 100:.0f} % of a GPU",
    "↓": "↓ slower than before: an incident is open",
}


def mark_entry(entry: Entry) -> str:
    """What is to be minded with an entry's value, a sign each."""
    return mark_value(steady=entry.steady, disturbed=bool(entry.disturbed)) + ("↓" if entry.slower else "")


def mark_value(*, steady: bool | None, disturbed: bool) -> str:
    """What is to be minded with a value, a sign each."""
    return ("~" if steady is False else "") + ("!" if disturbed else "")


def explain_marks(marks: str) -> list[str]:
    """What those of the signs mean that occur."""
    return [meaning for sign, meaning in _MARKS.items() if sign in marks]


def explain_symbols(matrices: Sequence[Matrix], *, each_host: bool = False) -> list[str]:
    """What the signs that occur in the matrices mean.

    Args:
        each_host: where identical hosts share a column, each is shown by itself as well, and its marks.
    """
    entries = [entry for matrix in matrices for row in matrix.rows for entry in row.entries]
    grouped = [len(matrix.hosts) > GROUP_ABOVE for matrix in matrices]
    meanings = []
    if any(_has_best(row, many) for many, matrix in zip(grouped, matrices, strict=True) for row in matrix.rows):
        meanings.append("★ best of its row, and what cannot be told from it (95 % intervals; 0.5 %)")
    elif any(_is_contest(row, many) for many, matrix in zip(grouped, matrices, strict=True) for row in matrix.rows):
        meanings.append("no ★: nothing here can be told from the best of its row (95 % intervals; 0.5 %)")
    if any(entry.spread is not None for entry in entries) and not all(grouped):
        meanings.append("± scatter from step to step (1.48 × MAD ÷ median)")
    if any(grouped):
        meanings.append("each column: median, lowest–highest, ▼ slowest host")
    if each_host or not all(grouped):
        meanings += explain_marks("".join(map(mark_entry, entries)))
    if any(entry.kind == "unplanned" for entry in entries):
        meanings.append("— not planned for this host")
    return meanings


def _has_best(row: Row, grouped: bool) -> bool:
    return any(entry.best for entry in (row.groups if grouped else row.entries))


def _is_contest(row: Row, grouped: bool) -> bool:
    """Whether there is more than one value to compare."""
    values = [group.median for group in row.groups] if grouped else [entry.images_per_s for entry in row.entries]
    return sum(value is not None for value in values) > 1
