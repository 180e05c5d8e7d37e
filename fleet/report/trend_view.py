"""The nights of a suite, a line for each cell on each host: computed once and made inert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.baseline import LEARNING, choose_rules
from fleet.analysis.finding import Level
from fleet.analysis.fingerprint import Fingerprint, diff_fingerprints, read_environment
from fleet.analysis.history import align_nights
from fleet.analysis.incident import Incident
from fleet.analysis.trend import Trend, find_trends
from fleet.model.environment import Environment
from fleet.model.suite import Cell
from fleet.report.wording import make_line
from fleet.store.readings import Values


@dataclass(frozen=True)
class LevelChange:
    """A series changed its level."""

    run_id: str
    """The first of the new level."""
    change: float
    """Of the rate, relative."""


@dataclass(frozen=True)
class Span:
    """An incident of the cell on the host, or of the whole host."""

    opened: str
    """The run that confirmed it."""
    until: str | None
    """The run from which on it was as before, or with which the new level was accepted; None: it is open."""


@dataclass(frozen=True)
class TrendLine:
    """One cell on one host. Rates are images per second; changes are of rates, relative."""

    host: str
    cell: Cell
    rates: tuple[float | None, ...]
    """One a run; None: not measured, or not to be compared with the last value."""
    latest: float
    latest_run: str
    count: int
    """Runs that made the rolling baseline."""
    change: float | None
    """Of the latest value against it; None: it is learning."""
    word: str
    """`learning`, `same`, or `faster` and `slower` beyond what this series scatters."""
    detectable: float | None
    """The smallest loss that would be found for certain; None: not known."""
    levels: tuple[LevelChange, ...]
    incidents: tuple[Span, ...]
    """Oldest first."""

    @property
    def is_open(self) -> bool:
        return any(span.until is None for span in self.incidents)


@dataclass(frozen=True)
class Mark:
    """What a host measured with was another thing from this run on."""

    run_id: str
    host: str
    changes: tuple[str, ...]
    """`driver 550 → 555`, first suspect first."""


@dataclass(frozen=True)
class TrendView:
    suite: str
    run_ids: tuple[str, ...]
    """Oldest first."""
    lines: tuple[TrendLine, ...]
    marks: tuple[Mark, ...]
    """Oldest first."""
    least: int
    """Runs that a baseline needs."""
    schema: Literal["fleet.trend/1"] = "fleet.trend/1"


def build_trend(
    suite: str,
    values: Values,
    cells: Mapping[str, Cell],
    environments: Mapping[tuple[str, str], Environment],
    incidents: Sequence[Incident],
) -> TrendView:
    """How every series of these runs has gone.

    Args:
        values: of the runs of one suite, and of the hosts and models that are asked for.
        cells: by their ids.
        environments: by run id and alias.
        incidents: all, in the order in which they were opened.
    """
    rules = [choose_rules(cells[cell_id]) for cell_id in values.cell_ids]
    rows = {names: row for row, names in enumerate(zip(values.aliases, values.cell_ids, strict=True))}
    keys = [((incident.subject.name, incident.subject.cell_id), incident) for incident in incidents]
    decided = [(rows[key], incident) for key, incident in keys if key in rows]
    trends = find_trends(align_nights(values), rules, values.run_ids, decided)
    spans = _group_spans(incidents)
    lines = [_build_line(values, row, trend, cells, spans) for row, trend in enumerate(trends) if trend]
    aliases = list(dict.fromkeys(values.aliases))
    return TrendView(
        make_line(suite, 80), values.run_ids, tuple(lines), _mark(values.run_ids, aliases, environments), LEARNING
    )


def format_change(change: float | None) -> str:
    """`−6.2 %`; a dash where it is not known."""
    return "—" if change is None else f"{change * 100:+.1f} %".replace("-", "−")


def say_terms(view: TrendView) -> str:
    """What the words at a series mean."""
    return (
        "images per second, higher is better; change: of the latest against the median of up to 14 runs before; finds: "
        "the smallest loss that is sure to be found; levels: from which run on it is on another level, and how far "
        f"from the one before; learning: fewer than {view.least} runs before; │ something of the host changed"
    )


Spans = Mapping[tuple[str, str], tuple[Span, ...]]
"""By host and cell; without a cell those of the whole host."""


def _group_spans(incidents: Sequence[Incident]) -> Spans:
    spans: dict[tuple[str, str], tuple[Span, ...]] = {}
    for incident in incidents:
        if incident.subject.level is not Level.COHORT:
            until = incident.recovered or incident.ended if incident.ending else None
            key = (incident.subject.name, incident.subject.cell_id)
            spans[key] = (*spans.get(key, ()), Span(incident.opened, until))
    return spans


def _build_line(values: Values, row: int, trend: Trend, cells: Mapping[str, Cell], spans: Spans) -> TrendLine:
    alias, cell_id = values.aliases[row], values.cell_ids[row]
    cell = cells[cell_id]
    own = (*spans.get((alias, cell_id), ()), *spans.get((alias, ""), ()))
    images = float(values.images[row, trend.last])
    rates = tuple(None if step is None else images / step * 1e6 for step in trend.nights)
    latest = rates[trend.last]
    assert latest is not None  # a trend has a last value
    return TrendLine(
        host=make_line(alias),
        cell=cell.model_copy(update={"model": make_line(cell.model, 80)}),
        rates=rates,
        latest=latest,
        latest_run=values.run_ids[trend.last],
        count=trend.count,
        change=None if trend.change is None else _turn(trend.change),
        word=_choose_word(trend),
        detectable=None if trend.detectable is None else _turn(trend.detectable),
        levels=tuple(LevelChange(values.run_ids[point.night], _turn(point.change)) for point in trend.changes),
        incidents=tuple(sorted(own, key=lambda span: span.opened)),
    )


def _turn(change: float) -> float:
    """A relative change of time as one of the rate."""
    return 1 / (1 + change) - 1


def _choose_word(trend: Trend) -> str:
    if trend.change is None or trend.limit is None:
        return "learning"
    if abs(trend.change) <= trend.limit:
        return "same"
    return "slower" if trend.change > 0 else "faster"


def _mark(
    run_ids: Sequence[str], aliases: Sequence[str], environments: Mapping[tuple[str, str], Environment]
) -> tuple[Mark, ...]:
    fingerprints: dict[str, Fingerprint] = {}
    marks = []
    for alias in aliases:
        before: Fingerprint = {}
        for run_id in run_ids:
            environment = environments.get((run_id, alias))
            if environment is None:
                continue
            name = environment.fingerprint
            now = fingerprints.setdefault(name, read_environment(environment))
            changes = [f"{d.field} {d.left} → {d.right}" for d in diff_fingerprints(before, now)] if before else []
            if changes:
                marks.append(Mark(run_id, make_line(alias), tuple(map(make_line, changes))))
            # What one night does not tell is still known from the night before.
            before = {**before, **now}
    return tuple(sorted(marks, key=lambda mark: mark.run_id))
