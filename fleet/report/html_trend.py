"""The runs of a suite as one HTML file: what is slower, since when, and what changed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fleet.report.columns import find_common, name_workload
from fleet.report.html_page import Block, Section, render_page
from fleet.report.html_table import Head, Table, TableCell, write_rate
from fleet.report.html_trend_charts import draw_cell, draw_series, read_time
from fleet.report.incident_view import IncidentLine
from fleet.report.sparkline import draw_curve
from fleet.report.trend_view import LevelChange, TrendLine, TrendView, format_change, say_terms
from fleet.report.wording import count_things, join_names

MOST_RUNS = 400
"""In the charts, the last ones; a year of nights fits."""

MOST_MOVED = 24
"""Series with a chart of their own."""

MOST_OF_HOST = 4
"""Of them on one host: what slows a host down shows in all of its cells."""

MOST_CELLS = 100
"""Cells with a chart."""

_WORDS = {"slower": ("▼ ", "failure"), "faster": ("▲ ", "good")}


def render_trend_html(view: TrendView, incidents: Sequence[IncidentLine], *, plotly_href: str | None = None) -> str:
    """The whole page. The same runs give the same bytes.

    Args:
        incidents: of these runs, oldest first.
        plotly_href: where plotly.js lies as seen from the page; None: it is part of the page.
    """
    word, tone, coverage = _judge(view, incidents)
    return render_page(
        "trend.html.j2",
        tuple(_build_sections(view, incidents)),
        plotly_href,
        suite=view.suite,
        word=word,
        tone=tone,
        coverage=coverage,
        remarks=_say_remarks(view),
        head=_describe(view),
        terms=say_terms(view),
    )


def _judge(view: TrendView, incidents: Sequence[IncidentLine]) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """The word at the head, its style, and what it was counted from: each a number and what it is of."""
    still_open = sum(incident.state == "open" for incident in incidents)
    slower = sum(line.word == "slower" for line in view.lines)
    judged = sum(line.word != "learning" for line in view.lines)
    counts = (
        (str(still_open), f"{'incident' if still_open == 1 else 'incidents'} open"),
        (str(slower), f"of {count_things(judged, 'judged value')} slower"),
    )
    if still_open:
        return "INCIDENT", "failure", counts
    if slower:
        return "SLOWER", "result", counts
    return ("AS BEFORE", "good", counts) if judged else ("LEARNING", "result", counts)


def _say_remarks(view: TrendView) -> tuple[str, ...]:
    faster = sum(line.word == "faster" for line in view.lines)
    learning = sum(line.word == "learning" for line in view.lines)
    missing = sum(line.latest_run != view.run_ids[-1] for line in view.lines)
    said = (
        (faster, f"{faster} faster"),
        (learning, f"{learning} learning: fewer than {view.least} runs before, so that nothing can be said"),
        (missing, f"{missing} not in the last run"),
    )
    return tuple(sentence for count, sentence in said if count)


def _describe(view: TrendView) -> tuple[tuple[str, str], ...]:
    return (
        ("suite", view.suite),
        ("runs", str(len(view.run_ids))),
        ("first", f"{read_time(view.run_ids[0])[:16]} UTC"),
        ("last", f"{read_time(view.run_ids[-1])[:16]} UTC"),
        ("hosts", str(len({line.host for line in view.lines}))),
        ("cells", str(len({line.cell.id for line in view.lines}))),
    )


def _build_sections(view: TrendView, incidents: Sequence[IncidentLine]) -> Iterator[Section]:
    if incidents:
        lead = "Slower in two runs in a row; over when three in a row are as before."
        yield Section("incidents", "Incidents", lead, (Block(_build_incidents(incidents)),))
    lines = sorted(view.lines, key=_rank)
    moved = [line for line in lines if line.incidents or line.levels or line.word in _WORDS]
    first = max(0, len(view.run_ids) - MOST_RUNS)
    if moved and len(view.run_ids) > 1:
        yield _draw_moved(view, moved, first)
    if view.marks:
        yield Section("changes", "What changed on the hosts", "", (Block(_build_marks(view)),))
    if len(view.run_ids) > 1:
        yield _draw_cells(view, lines, first)
    yield Section("all", "Every cell on every host", "", (Block(_build_series(view)),))


def _rank(line: TrendLine) -> tuple[bool, bool, bool, float]:
    """What is worth a look first."""
    changes = [line.change or 0.0, *(level.change for level in line.levels)]
    return (not line.is_open, line.word != "slower", not line.incidents, -max(map(abs, changes)))


def _draw_moved(view: TrendView, moved: Sequence[TrendLine], first: int) -> Section:
    drawn: Counter[str] = Counter()
    shown: list[TrendLine] = []
    for line in moved:
        drawn[line.host] += 1
        if drawn[line.host] <= MOST_OF_HOST and len(shown) < MOST_MOVED:
            shown.append(_cut(line, first))
    charts = [Block(chart=draw_series(line, view.run_ids[first:], view.marks)) for line in shown]
    lead = (
        f"{len(moved)} with an incident (shaded), a change of level (dashed), or a latest value beyond its scatter; "
        "a line across: something of the host changed."
    )
    if len(moved) > len(shown):
        lead += f" {len(shown)} are drawn, at most {MOST_OF_HOST} of a host; the last table has all."
    return Section("moved", "What moved", lead, tuple(charts), wide=False)


def _draw_cells(view: TrendView, lines: Sequence[TrendLine], first: int) -> Section:
    cells: dict[str, list[TrendLine]] = {}
    for line in sorted(lines, key=lambda line: (line.cell.model, line.cell.id)):  # stable: of one cell as ranked
        cells.setdefault(line.cell.id, []).append(_cut(line, first))
    shown = list(cells.values())[:MOST_CELLS]
    charts = [Block(chart=draw_cell(of_cell, view.run_ids[first:], view.marks)) for of_cell in shown]
    lead = "Each host in per cent of its own median over these runs; more is faster."
    if first:
        lead += f" The last {MOST_RUNS} of {len(view.run_ids)} runs."
    if len(cells) > len(shown):
        lead += f" The first {len(shown)} of {len(cells)} cells; --model draws those of one."
    return Section("cells", "Cell by cell", lead, tuple(charts), wide=False)


def _cut(line: TrendLine, first: int) -> TrendLine:
    return line if first == 0 else replace(line, rates=line.rates[first:])


def _build_incidents(incidents: Sequence[IncidentLine]) -> Table:
    heads = ("incident", "state", "what", "confirmed by", "ended with", "because")
    still_open = TableCell("▼ open", style="failure")
    rows = [
        (
            TableCell(line.id),
            still_open if line.state == "open" else TableCell(f"✔ {line.state}", style="good"),
            TableCell(line.what),
            TableCell(line.opened),
            TableCell(line.ended or "—"),
            TableCell(line.reason or "—"),
        )
        for line in sorted(incidents, key=lambda line: (line.state == "open", line.opened), reverse=True)
    ]
    named = tuple(Head(head, numeric=False) for head in heads)
    return Table("incident-table", "Open ones first, then the newest", named, tuple(rows), filtered=len(rows) > 8)


def _build_marks(view: TrendView) -> Table:
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for mark in view.marks:
        together.setdefault((mark.run_id, mark.changes), []).append(mark.host)
    rows = tuple(
        (
            TableCell(run_id),
            TableCell(join_names(hosts)),
            TableCell(str(len(hosts)), value=len(hosts), style="n"),
            TableCell("; ".join(changes)),
        )
        for (run_id, changes), hosts in reversed(together.items())
    )
    heads = (Head("from run", numeric=False), Head("on", numeric=False), Head("hosts"), Head("what", numeric=False))
    return Table("marks", "The newest first", heads, rows, filtered=len(rows) > 8)


def _build_series(view: TrendView) -> Table:
    marks = {(mark.run_id, mark.host) for mark in view.marks}
    without = find_common([line.cell for line in view.lines])
    heads = (
        Head("cell", numeric=False),
        Head("host", numeric=False),
        Head("runs", "the last 30", numeric=False),
        Head("latest", "images/s"),
        Head("change", "against the runs before"),
        Head("finds"),
        Head("levels", numeric=False),
    )
    rows = []
    for line in sorted(view.lines, key=lambda line: (line.cell.model, line.cell.id, line.host)):
        model, _, rest = name_workload(line.cell, without).partition(" ")
        rows.append(
            (
                TableCell(model.rstrip(","), rest),
                TableCell(line.host),
                TableCell(draw_curve(line, view.run_ids, marks), style="curve"),
                write_rate(line.latest),
                _write_change(line, view),
                TableCell(format_change(line.detectable), value=line.detectable, style="n"),
                TableCell("; ".join(_say_level(level) for level in line.levels)),
            )
        )
    shared = name_workload(view.lines[0].cell) if len({line.cell.id for line in view.lines}) == 1 else ""
    caption = "Every series of these runs" + (f": {shared}" if shared else "")
    return Table("series", caption, heads, tuple(rows), filtered=len(rows) > 8)


def _say_level(level: LevelChange) -> str:
    return f"{format_change(level.change)} from {read_time(level.run_id)[:10]} on"


def _write_change(line: TrendLine, view: TrendView) -> TableCell:
    missing = "" if line.latest_run == view.run_ids[-1] else "not in the last run"
    if line.change is None:
        return TableCell(f"learning: {line.count} of {view.least}", missing, style="n unplanned")
    sign, style = _WORDS.get(line.word, ("", ""))
    return TableCell(f"{sign}{format_change(line.change)}", missing, line.change, f"n {style}".strip())
