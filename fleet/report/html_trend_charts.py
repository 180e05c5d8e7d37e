"""Charts of a suite's runs: one series with all that is known of it, and one cell on all hosts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise
from statistics import median

from fleet.report.columns import name_workload
from fleet.report.html_charts import MOST_SERIES, Chart, Json, make_axis, make_label
from fleet.report.trend_view import Mark, TrendLine
from fleet.report.wording import count_things

MOST_MARKS = 8
"""Lines across one chart; the table has all."""

_LONGEST_LABEL, _SHORT_LABEL = 30, 22
_HEIGHT, _HIGH = 250, 330

_COLOURS = 8
"""Of the page; lines beyond them are dashed."""


def draw_series(line: TrendLine, run_ids: Sequence[str], marks: Sequence[Mark]) -> Chart:
    """A cell on a host: its rates, its levels, its incidents, and where something of the host changed.

    Args:
        run_ids: of the rates, oldest first.
        marks: all there are.
    """
    rates = [_round(rate) for rate in line.rates]
    data = [_trace(line.host, rates)]
    if line.levels:
        data.append({**_trace("level", _find_levels(line, run_ids)), "mode": "lines"})
        data[-1]["line"] = {"dash": "dash", "width": 2, "shape": "hv"}
    last = read_time(run_ids[-1])
    spans: list[Json] = [
        {
            "type": "rect",
            "yref": "paper",
            "name": "incident",
            "x0": read_time(span.opened),
            "x1": read_time(span.until) if span.until else last,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "label": {"text": "incident", "textposition": "bottom left"},
        }
        for span in line.incidents
    ]
    own = [(mark.run_id, _cut_label(mark.changes, _LONGEST_LABEL)) for mark in marks if mark.host == line.host]
    shapes = [*spans, *_draw_marks(own[-MOST_MARKS:])]
    title = f"{line.host}: {name_workload(line.cell)}"
    return Chart(title, tuple(data), _layout("images per second", shapes), x=tuple(map(read_time, run_ids)))


def draw_cell(lines: Sequence[TrendLine], run_ids: Sequence[str], marks: Sequence[Mark]) -> Chart:
    """One cell on all hosts, each in parts of its own median, since rates of different machines fit no scale.

    Args:
        lines: of the cell; those come first that are worth a line of their own where not all can have one.
    """
    alone = lines if len(lines) <= MOST_SERIES else lines[: MOST_SERIES // 2]
    others = lines[len(alone) :]
    shares = [_scale(line.rates) for line in lines]
    data = [_trace(line.host, share, place) for place, (line, share) in enumerate(zip(alone, shares, strict=False))]
    if others:
        rest = [_find_middle(values) for values in zip(*shares[len(alone) :], strict=True)]
        data.append({**_trace(f"median of {len(others)} others", rest), "line": {"width": 3}})
    hosts = {line.host for line in lines}
    shapes = _draw_marks(_count_marks([mark for mark in marks if mark.host in hosts]))
    layout = {**_layout("% of its median", shapes), "showlegend": True, "height": _HIGH}
    return Chart(name_workload(lines[0].cell), tuple(data), layout, len(others), x=tuple(map(read_time, run_ids)))


def read_time(run_id: str) -> str:
    """When a run began, by its id, as a chart takes it."""
    day, time = run_id[:8], run_id[9:15]
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}:{time[4:]}"


def _trace(name: str, values: Sequence[float | None], place: int = 0) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": make_label(name),
        "y": list(values),
        "marker": {"size": 4},
        "line": {"width": 1.3, "dash": "solid" if place < _COLOURS else "dot"},
    }


def _layout(unit: str, shapes: Sequence[Json]) -> Json:
    return {
        "xaxis": {"type": "date"},
        "yaxis": make_axis(unit),
        "shapes": list(shapes),
        "showlegend": False,
        "height": _HEIGHT,
    }


def _count_marks(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    """Run and words of the changes that most hosts have in common."""
    together: dict[tuple[str, tuple[str, ...]], int] = {}
    for mark in marks:
        together[mark.run_id, mark.changes] = together.get((mark.run_id, mark.changes), 0) + 1
    told = sorted(together.items(), key=lambda entry: -entry[1])[:MOST_MARKS]
    return [
        (run_id, f"{_cut_label(changes, _SHORT_LABEL)}, {count_things(count, 'host')}")
        for (run_id, changes), count in told
    ]


def _draw_marks(told: Sequence[tuple[str, str]]) -> list[Json]:
    """A line across for each."""
    return [
        {
            "type": "line",
            "yref": "paper",
            "x0": read_time(run_id),
            "x1": read_time(run_id),
            "y0": 0,
            "y1": 1,
            "label": {
                "text": make_label(text),
                "textposition": "end",
                "xanchor": "right",
                "font": {"size": 10},
            },
        }
        for run_id, text in told
    ]


def _cut_label(changes: Sequence[str], longest: int) -> str:
    """The first suspect, and how many more changes."""
    first = changes[0] if len(changes[0]) <= longest else f"{changes[0][: longest - 1]}…"
    return f"{first} +{len(changes) - 1}" if len(changes) > 1 else first


def _find_levels(line: TrendLine, run_ids: Sequence[str]) -> list[float | None]:
    """The median of each level, run by run."""
    edges = [0, *(bisect_left(run_ids, level.run_id) for level in line.levels), len(run_ids)]
    levels: list[float | None] = []
    for begin, end in pairwise(edges):
        levels += [_round(_find_middle(line.rates[begin:end]))] * (end - begin)
    return levels


def _scale(rates: Sequence[float | None]) -> list[float | None]:
    middle = _find_middle(rates)
    return [None if rate is None or not middle else round(100 * rate / middle, 2) for rate in rates]


def _find_middle(values: Collection[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
