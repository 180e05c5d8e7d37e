"""The step times of the cells that are worth a look, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.analysis.ranking import relative_spread
from fleet.analysis.steps import decode_steps
from fleet.model.result import CellResult, Timing
from fleet.report.details_model import StepTrace, StepTraces

_SHOWN = 12
_MOST_POINTS = 400
_BINS = 30


def build_step_traces(results: Mapping[tuple[str, str], CellResult]) -> StepTraces | None:
    """The cells that are not steady, then those that began before warm-up was over, then those that scatter most.

    Cells whose step times are damaged are left out. None: there are no step times.

    Args:
        results: by the alias and the cell's id as they are shown.
    """
    timings = {key: result.timing for key, result in results.items() if result.timing is not None}
    ordered = sorted(timings, key=lambda key: _rank(timings[key]), reverse=True)
    traces: list[StepTrace] = []
    for alias, cell_id in ordered:
        if len(traces) < _SHOWN and (trace := _build_trace(alias, cell_id, timings[alias, cell_id])) is not None:
            traces.append(trace)
    return StepTraces(tuple(traces), len(timings)) if traces else None


def _rank(timing: Timing) -> tuple[bool, float, float]:
    return (not timing.steady, timing.dropped_steps / max(timing.steps, 1), relative_spread(timing) or 0.0)


def _build_trace(alias: str, cell_id: str, timing: Timing) -> StepTrace | None:
    try:
        steps = decode_steps(timing.model_copy(update={"dropped_steps": 0})).tolist()
    except ValueError:
        return None
    counted = steps[timing.dropped_steps :]
    places = _choose_places(steps)
    if len(counted) < 2:
        return None
    edges, counts = _count(counted)
    quantiles = timing.quantiles_us
    return StepTrace(
        alias=alias,
        cell_id=cell_id,
        places=tuple(place + 1 for place in places),
        step_us=tuple(steps[place] for place in places),
        steps=len(steps),
        dropped_steps=timing.dropped_steps,
        warmup_steps=timing.warmup_steps,
        warmup_s=timing.warmup_s,
        median_us=quantiles.get("p50", 0.0),
        p05_us=quantiles.get("p05", 0.0),
        p95_us=quantiles.get("p95", 0.0),
        edges_us=edges,
        counts=counts,
        steady=timing.steady,
    )


def _choose_places(steps: Sequence[int]) -> list[int]:
    """All of few steps; of many, the fastest and the slowest of each stretch, so that no spike is lost."""
    if len(steps) <= _MOST_POINTS:
        return list(range(len(steps)))
    stretch = -(-len(steps) // (_MOST_POINTS // 2))
    chosen: set[int] = set()
    for first in range(0, len(steps), stretch):
        here = range(first, min(first + stretch, len(steps)))
        chosen |= {min(here, key=steps.__getitem__), max(here, key=steps.__getitem__)}
    return sorted(chosen)


def _count(steps: Sequence[int]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """A histogram: the edges of its bins, and how many steps lie in each."""
    low, high = min(steps), max(steps)
    bins = min(_BINS, max(1, len(set(steps))))
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for step in steps:
        counts[min(int((step - low) / width), bins - 1)] += 1
    return tuple(low + width * number for number in range(bins + 1)), tuple(counts)
