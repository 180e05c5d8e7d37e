"""A view as Markdown, for a pull request, a ticket or a chat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fleet.report.legend import mark_entry
from fleet.report.setting_lines import SIGNS, name_place
from fleet.report.view_model import Entry, FailureLine, Matrix, Row, SettingLine, View
from fleet.report.wording import fold_names, format_rate, format_spread, format_time, say_end

MOST_BYTES = 900_000
"""Services that show Markdown refuse more: GitHub's step summary takes 1,024 kB."""

_MARK = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")


def render_markdown(view: View) -> str:
    """The report as GitHub's Markdown: verdict, failures, settings, matrices, notes. What comes from hosts is escaped.

    A matrix that would make it too long for where it is shown is cut off, with the number of rows that are missing.
    """
    run, verdict = view.run, view.verdict
    sign = "✔" if verdict.word in {"OK", "RUNNING"} else "✖"
    remarks = f" · {', '.join(verdict.remarks)}" if verdict.remarks else ""
    parts = [
        f"## {sign} {verdict.word}: {verdict.coverage}{_escape(remarks)}",
        f"run `{run.run_id}` · suite {_escape(run.suite)} · {_escape(run.inventory)} · {format_time(run.created)}",
        *_render_failures(view.failures),
        *_render_settings(view.settings),
        *([f"▸ {_escape(view.to_come)}"] if view.to_come else []),
    ]
    notes = [f"- {_escape(note)}" for note in view.notes]
    tail = ["### Notes", "\n".join(notes)] if notes else []
    room = MOST_BYTES - len("\n\n".join([*parts, *tail]).encode())
    for matrix in view.matrices:
        table = _render_matrix(matrix, room)
        room -= len(table.encode())
        parts.append(table)
    return "\n\n".join([*parts, *tail]) + "\n"


def _render_failures(failures: Sequence[FailureLine]) -> list[str]:
    if not failures:
        return []
    alike: dict[tuple[str, str, str], list[str]] = {}
    for line in failures:
        end = say_end(line.status, line.stage, line.reason, line.message)
        alike.setdefault((end, line.message, line.hint), []).append(line.alias)
    lines = []
    for (end, message, hint), aliases in alike.items():
        who = _escape(", ".join(fold_names(dict.fromkeys(aliases))))
        lines.append(f"- **{who}** {_escape(end)}: {_escape(message)}{_escape(f' → {hint}' if hint else '')}")
    return [f"### Failures ({len(failures)})", "\n".join(lines)]


def _render_settings(settings: Sequence[SettingLine]) -> list[str]:
    lines = [
        f"- {SIGNS[line.severity]} **{_escape(name_place(line))}** {_escape(line.evidence)}"
        f"{_escape(f' → {line.remedy}' if line.remedy else '')}"
        for line in settings
    ]
    return ["### Settings to look at", "\n".join(lines)] if lines else []


def _render_matrix(matrix: Matrix, room: int) -> str:
    name = "GPU" if matrix.device == "gpu" else "CPU"
    lines = [
        f"### {name} hosts, images per second",
        "",
        _render_row(["cell", *matrix.hosts]),
        _render_row(["---", *("--:" for _ in matrix.hosts)], escaped=True),
    ]
    used = sum(len(line.encode()) + 1 for line in lines)
    for place, row in enumerate(matrix.rows):
        line = _render_row([row.cell_id, *(_say_entry(row, entry) for entry in row.entries)])
        used += len(line.encode()) + 1
        if used > room - 100:
            lines += ["", f"… and {len(matrix.rows) - place} more cells: see `fleet report`."]
            break
        lines.append(line)
    return "\n".join(lines)


def _say_entry(row: Row, entry: Entry) -> str:
    if entry.images_per_s is None:
        return entry.word or "—"
    best = "★ " if entry.best else ""
    spread = f" {format_spread(entry.spread)}" if entry.spread is not None else ""
    found = f" ({entry.found})" if entry.found else ""
    return f"{best}{format_rate(entry.images_per_s)}{mark_entry(entry)}{spread}{found}"


def _render_row(cells: Iterable[str], *, escaped: bool = False) -> str:
    return f"| {' | '.join(cell if escaped else _escape(cell) for cell in cells)} |"


def _escape(text: str) -> str:
    """As it stands, wherever Markdown is read; `@name` calls nobody."""
    return _MARK.sub(r"\\\1", text.replace("\n", " ")).replace("@", "@\u2060")
