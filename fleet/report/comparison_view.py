"""Two runs, or two hosts, side by side: what a comparison shows, computed once and made inert."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.comparison import Comparison, Measured, compare, read_measured
from fleet.analysis.fingerprint import read_fingerprint
from fleet.analysis.judgement import SeriesVerdict
from fleet.analysis.sentence import say_comparison, say_refusal
from fleet.model.disturbance import find_disturbance
from fleet.model.result import CellResult
from fleet.model.suite import Cell
from fleet.report.legend import mark_value
from fleet.report.wording import count_things, fold_names, make_line
from fleet.store.reader import StoredRun

Key = tuple[str, str]
"""The host's name, and the id of the planned cell."""

_WORDS = {SeriesVerdict.BETTER: "faster", SeriesVerdict.WORSE: "slower"}


@dataclass(frozen=True)
class Side:
    """What is compared."""

    run_id: str
    created: str
    suite: str
    host: str = ""
    """The one host that was chosen; empty: all."""


@dataclass(frozen=True)
class CellLine:
    """One cell on one host, images per second."""

    host: str
    cell: Cell
    left: float
    right: float
    change: float
    """right ÷ left − 1."""
    word: str
    """`faster` or `slower` from the least effect on that counts for such a cell; else `same`."""
    left_marks: str
    """What is to be minded with the value, a sign each: `~` not steady, `!` others used the host. So is the next."""
    right_marks: str


@dataclass(frozen=True)
class HostLine:
    """All cells of one host: how many times as fast the right side is."""

    host: str
    count: int
    total: int
    speed: float | None
    low: float | None
    high: float | None
    """The 95 % interval over cells; None with fewer than three."""


@dataclass(frozen=True)
class ComparisonView:
    left: Side
    right: Side
    verdict: str
    """`better`, `same`, `worse`, `mixed` (its cells do not agree) or `incomparable`."""
    sentence: str
    hosts: tuple[HostLine, ...]
    cells: tuple[CellLine, ...]
    differences: tuple[str, ...]
    """What of the hosts and their software differs, first suspect first, a line each."""
    left_out: tuple[str, ...]
    """What was not compared, and why, a line each."""
    schema: Literal["fleet.comparison/1"] = "fleet.comparison/1"


@dataclass(frozen=True)
class _Found:
    measured: Measured
    cell: Cell
    rate: float
    marks: str


def build_comparison(left: StoredRun, right: StoredRun, hosts: tuple[str, str] | None = None) -> ComparisonView:
    """Compare two runs host by host, or one host with another.

    Args:
        hosts: the host of the left and of the right run; they may be one run.
    """
    sides = [_collect(left, hosts[0] if hosts else None), _collect(right, hosts[1] if hosts else None)]
    if hosts:
        sides = [{("", cell_id): found for (_, cell_id), found in side.items()} for side in sides]
    before, after = sides
    values = tuple({key: found.measured for key, found in side.items()} for side in sides)
    whole = compare(values[0], values[1])
    names = list(dict.fromkeys(alias for alias, _ in (*before, *after)))
    shown = f"{make_line(hosts[0])} → {make_line(hosts[1])}" if hosts else ""
    return ComparisonView(
        left=_describe(left, hosts[0] if hosts else ""),
        right=_describe(right, hosts[1] if hosts else ""),
        verdict=whole.verdict.value,
        sentence=say_comparison(whole),
        hosts=tuple(_build_host(name, values[0], values[1], shown) for name in names),
        cells=tuple(_build_cell(key, before[key], after[key], whole.judge(key), shown) for key in whole.ratios),
        differences=_list_differences(whole),
        left_out=_list_left_out(whole, before, after, shown),
    )


def _describe(run: StoredRun, host: str) -> Side:
    plan = run.plan
    return Side(plan.run_id, plan.created, make_line(plan.suite), make_line(host))


def _collect(run: StoredRun, alias: str | None) -> dict[Key, _Found]:
    found: dict[Key, _Found] = {}
    for host in run.plan.hosts:
        outcome = run.outcomes.get(host.alias)
        if outcome is None or (alias is not None and host.alias != alias):
            continue
        fingerprint = read_fingerprint(outcome, run.plan, host)
        for cell in outcome.cells:
            measured, rate = read_measured(cell, fingerprint), _read_rate(cell)
            if measured is not None and rate:
                steady = cell.timing.steady if cell.timing else None
                marks = mark_value(steady=steady, disturbed=bool(find_disturbance(cell, outcome)))
                found[host.alias, cell.cell_id] = _Found(measured, cell.measured, rate, marks)
    return found


def _read_rate(cell: CellResult) -> float | None:
    rate = cell.throughput.images_per_s if cell.throughput else None
    return rate if rate and math.isfinite(rate) else None


def _build_host(name: str, left: Mapping[Key, Measured], right: Mapping[Key, Measured], shown: str) -> HostLine:
    before, after = ({key: value for key, value in side.items() if key[0] == name} for side in (left, right))
    of_host = compare(before, after)
    low, high = of_host.interval or (None, None)
    return HostLine(
        shown or make_line(name),
        of_host.count,
        of_host.total,
        1 / of_host.ratio if of_host.ratio else None,
        1 / high if high else None,
        1 / low if low else None,
    )


def _build_cell(key: Key, left: _Found, right: _Found, verdict: SeriesVerdict, shown: str) -> CellLine:
    change, word = right.rate / left.rate - 1, _WORDS.get(verdict, "same")
    host = shown or make_line(key[0])
    return CellLine(host, left.cell, left.rate, right.rate, change, word, left.marks, right.marks)


def _list_differences(whole: Comparison[Key]) -> tuple[str, ...]:
    return tuple(
        make_line(f"{difference.field} {difference.left} → {difference.right}, in {count_things(count, 'value')}")
        for difference, count in whole.differences.items()
    )


def _list_left_out(
    whole: Comparison[Key], left: Mapping[Key, _Found], right: Mapping[Key, _Found], shown: str
) -> tuple[str, ...]:
    """One line for all hosts of which the same is to be said."""
    reasons: dict[str, list[str]] = {}
    for (host, cell_id), refusal in whole.refused.items():
        reasons.setdefault(f"{make_line(cell_id)}: {make_line(say_refusal(refusal))}", []).append(host)
    for side, other, name in ((left, right, "left"), (right, left, "right")):
        for host, cell_id in sorted(side.keys() - other.keys()):
            reasons.setdefault(f"{make_line(cell_id)}: measured on the {name} only", []).append(host)
    if shown:
        return tuple(sorted(reasons))
    return tuple(f"{', '.join(fold_names(map(make_line, hosts)))}: {why}" for why, hosts in sorted(reasons.items()))
