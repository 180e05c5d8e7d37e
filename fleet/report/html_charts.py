"""Charts as plotly.js takes them, without colours: the page's script gives them those of its theme."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.report.details_model import BatchCurve, Energy, PrecisionGain, ScalingCurve, StepTrace
from fleet.report.wording import count_things

MOST_SERIES = 12
"""Lines in one chart that can still be told apart; the tables have all."""

_SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "x",
    "triangle-down",
    "star",
    "pentagon",
    "hexagon",
    "hourglass",
    "bowtie",
)
_PATTERNS = ("", "/", ".", "x", "-", "\\")
_DASHES = ("solid", "dash", "dot", "dashdot")

_DOTS = 50
"""So few steps are dots on their line: two of them would be a line alone."""

Json = dict[str, object]


@dataclass(frozen=True)
class Chart:
    title: str
    """Said to whoever cannot see it, and above it."""
    data: tuple[Json, ...]
    layout: Json
    left_out: int = 0
    """Series that only the table has."""
    bars: int = 0
    x: tuple[str, ...] = ()
    """Of every series that has none of its own."""


def make_label(text: str) -> str:
    """Foreign text for a chart: plotly.js reads tags, links among them, in every label; entities it shows as what they
    stand for."""
    return html.escape(text, quote=False)


def trace_line(place: int, label: str, x: Sequence[float], y: Sequence[float | None]) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": make_label(label),
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 8},
        "line": {"dash": _DASHES[place % len(_DASHES)], "width": 2},
    }


def make_axis(title: str, ticks: Sequence[int] = ()) -> Json:
    axis: Json = {"title": {"text": title}}
    if ticks:
        axis |= {"type": "log", "tickmode": "array", "tickvals": list(ticks), "ticktext": [str(tick) for tick in ticks]}
    return axis


def draw_batches(curve: BatchCurve) -> Chart:
    """Rates over batch sizes; where memory ends, a cross at the bottom."""
    lines = curve.lines[:MOST_SERIES]
    sizes = sorted({point.batch_size for line in curve.lines for point in line.points})
    data = [
        trace_line(place, line.label, [p.batch_size for p in line.points], [p.images_per_s for p in line.points])
        for place, line in enumerate(lines)
    ]
    ends = [(line.memory_ends, line.label) for line in lines if line.memory_ends is not None]
    if ends:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "out of memory",
                "x": [size for size, _ in ends],
                "y": [0] * len(ends),
                "text": [make_label(label) for _, label in ends],
                "hovertemplate": "%{text}<br>out of memory at %{x}<extra></extra>",
                "cliponaxis": False,
                "marker": {"symbol": "x-thin-open", "size": 11},
                "meta": "failure",
            }
        )
    layout: Json = {
        "xaxis": make_axis("batch size per device", sizes),
        "yaxis": {**make_axis("images per second"), "rangemode": "tozero"},
    }
    return Chart(curve.workload, tuple(data), layout, len(curve.lines) - len(lines))


def draw_scaling(curve: ScalingCurve) -> Chart:
    """Efficiency over numbers of GPUs: rates of different cards do not fit one scale, this does."""
    lines = curve.lines[:MOST_SERIES]
    counts = sorted({point.devices for line in curve.lines for point in line.points})
    data = [
        trace_line(
            place,
            line.label,
            [point.devices for point in line.points],
            [None if point.efficiency is None else round(point.efficiency * 100, 2) for point in line.points],
        )
        for place, line in enumerate(lines)
    ]
    ceiling = max([100.0, *(p.efficiency * 100 for line in lines for p in line.points if p.efficiency is not None)])
    layout: Json = {
        "xaxis": make_axis("GPUs", counts),
        "yaxis": {**make_axis("efficiency, %"), "range": [0, ceiling * 1.08]},
    }
    return Chart(curve.workload, tuple(data), layout, len(curve.lines) - len(lines))


def _build_bar_chart(
    title: str, labels: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]], layout: Json
) -> Chart:
    """Bars in groups, one series for each label: of the rows of one family the highest bar."""
    families: dict[str, list[Sequence[float | None]]] = {}
    for family, values in rows:
        families.setdefault(family, []).append(values)
    data: tuple[Json, ...] = tuple(
        {
            "type": "bar",
            "name": make_label(label),
            "x": [_wrap(family) for family in families],
            "y": [_find_highest([values[place] for values in found]) for found in families.values()],
            "marker": {"pattern": {"shape": _PATTERNS[place % len(_PATTERNS)], "size": 6, "fillmode": "overlay"}},
        }
        for place, label in enumerate(labels[:MOST_SERIES])
    )
    bars = len(data) * len(families)
    # A few bars are no wider than many are.
    layout = {**layout, "barmode": "group", "bargap": round(max(0.25, 1 - 0.06 * bars), 2)}
    return Chart(title, data, layout, max(0, len(labels) - MOST_SERIES), bars)


def _find_highest(values: Sequence[float | None]) -> float | None:
    known = [float(f"{value:.4g}") for value in values if value is not None]
    return max(known, default=None)


def draw_precision(gain: PrecisionGain) -> Chart:
    """The highest gain of each model and phase over batch sizes and numbers of devices."""
    rows = [(row.family, [ratio.value for ratio in row.ratios]) for row in gain.rows]
    layout: Json = {"yaxis": {**make_axis("times as fast as fp32"), "rangemode": "tozero"}}
    title = f"{gain.device.upper()}: the highest gain over fp32"
    return _build_bar_chart(title, gain.labels, rows, layout)


def draw_energy(energy: Energy) -> Chart:
    """The most images per joule of each model, phase and precision over batch sizes and numbers of devices."""
    rows = [
        (row.family, [reading.images_per_j if reading else None for reading in row.readings]) for row in energy.rows
    ]
    layout: Json = {"yaxis": {**make_axis("images per joule"), "rangemode": "tozero"}}
    title = f"{energy.device.upper()}: the most images per joule"
    return _build_bar_chart(title, energy.labels, rows, layout)


def _wrap(workload: str) -> str:
    """A workload below a bar, a word a line."""
    return "<br>".join(make_label(word) for word in workload.replace(",", "").split())


def draw_steps(trace: StepTrace) -> Chart:
    """Step times in order, and beside them how many of those that count took how long."""
    times = [time / 1000 for time in trace.step_us]
    middles = [(low + high) / 2000 for low, high in itertools.pairwise(trace.edges_us)]
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines" if len(times) > _DOTS else "lines+markers",
            "name": "step",
            "x": list(trace.places),
            "y": times,
            "line": {"width": 1.3},
        },
        {
            "type": "bar",
            "orientation": "h",
            "name": "steps",
            "x": list(trace.counts),
            "y": middles,
            "width": (trace.edges_us[1] - trace.edges_us[0]) / 1000,
            "xaxis": "x2",
            "meta": "same",
            "hovertemplate": "%{x} steps near %{y:.4~g} ms<extra></extra>",
        },
    ]
    shapes: list[Json] = []
    if trace.dropped_steps:
        shapes.append(
            {
                "type": "rect",
                "xref": "x",
                "yref": "paper",
                "x0": 0.5,
                "x1": trace.dropped_steps + 0.5,
                "y0": 0,
                "y1": 1,
                "line": {"width": 0},
                "label": {"text": "warm-up", "textposition": "top left"},
            }
        )
    median = trace.median_us / 1000
    shapes.append({"type": "line", "xref": "x", "x0": 1, "x1": trace.steps, "y0": median, "y1": median})
    layout: Json = {
        "xaxis": {**make_axis("step"), "domain": [0, 0.74]},
        "xaxis2": {"domain": [0.78, 1], "title": {"text": "steps"}},
        "yaxis": make_axis("ms"),
        "shapes": shapes,
        "showlegend": False,
        "height": 230,
    }
    said = "" if trace.steady else ", ~ not steady"
    return Chart(f"{trace.alias}: {trace.cell_id}, {count_things(trace.steps, 'step')}{said}", tuple(data), layout)
