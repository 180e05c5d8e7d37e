"""The odd ones among identical hosts of one run: what is shown of them, computed once and made inert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.cohort import Cohort, group_by_hardware
from fleet.analysis.comparison import read_measured
from fleet.analysis.fingerprint import Fingerprint, diff_fingerprints, find_suspects, find_usual, read_fingerprint
from fleet.analysis.odd_host import JudgedCohort, OddHost, SlowCell, find_odd
from fleet.analysis.outlier import LEAST_HOSTS
from fleet.analysis.sentence import say_suspect
from fleet.model.result import HostOutcome
from fleet.report.wording import count_things, join_names, make_line, name_hardware
from fleet.store.reader import StoredRun


@dataclass(frozen=True)
class OddLine:
    host: OddHost[str]
    """Cells are named by their ids, as they were measured."""
    differences: tuple[str, ...]
    """What of it is not as on most of the others, first suspect first."""


@dataclass(frozen=True)
class CohortLine:
    hardware: str
    aliases: tuple[str, ...]
    measured: int
    """Hosts with a value."""
    cells: int
    """Measured on enough hosts to be judged."""
    odd: tuple[OddLine, ...]
    """Slow as a whole first, the slowest of them first."""
    unjudged: str
    """Why nothing could be judged; empty: something was."""


@dataclass(frozen=True)
class OutlierView:
    run_id: str
    created: str
    suite: str
    cohorts: tuple[CohortLine, ...]
    """Largest first."""
    sentence: str
    schema: Literal["fleet.outliers/1"] = "fleet.outliers/1"

    @property
    def odd(self) -> int:
        return sum(len(cohort.odd) for cohort in self.cohorts)

    @property
    def judged(self) -> bool:
        return any(not cohort.unjudged for cohort in self.cohorts)

    @property
    def measured(self) -> int:
        return sum(cohort.measured for cohort in self.cohorts)


def build_outliers(run: StoredRun) -> OutlierView:
    """Who is slow in this run among hosts with the same hardware, in which cells, and what of them differs."""
    planned = [host for host in run.plan.hosts if host.cells]
    outcomes = {host.alias: run.outcomes.get(host.alias) for host in planned}
    fingerprints = {
        host.alias: read_fingerprint(outcome, run.plan, host) for host in planned if (outcome := outcomes[host.alias])
    }
    facts = {alias: outcome.facts if outcome else None for alias, outcome in outcomes.items()}
    cohorts = tuple(_judge(cohort, outcomes, fingerprints) for cohort in group_by_hardware(facts))
    return OutlierView(
        run_id=run.plan.run_id,
        created=make_line(run.plan.created, 40),
        suite=make_line(run.plan.suite, 80),
        cohorts=cohorts,
        sentence=_say(cohorts),
    )


def _judge(
    cohort: Cohort, outcomes: Mapping[str, HostOutcome | None], known_by_host: Mapping[str, Fingerprint]
) -> CohortLine:
    known = {alias: outcome for alias in cohort.aliases if (outcome := outcomes[alias])}
    fingerprints = {alias: known_by_host[alias] for alias in known}
    times: dict[str, dict[tuple[str, int], float]] = {alias: {} for alias in cohort.aliases}
    for alias, outcome in known.items():
        for value in (read_measured(cell, fingerprints[alias]) for cell in outcome.cells):
            if value:
                times[alias][value.cell_id, value.protocol] = value.step_us
    judged = find_odd(times)
    unjudged = _find_hindrance(cohort, judged)
    return CohortLine(
        hardware=name_hardware(cohort.facts) or "hardware not known",
        aliases=tuple(make_line(alias) for alias in cohort.aliases),
        measured=judged.measured,
        cells=judged.cells,
        odd=() if unjudged else tuple(_explain(host, fingerprints) for host in judged.odd),
        unjudged=unjudged,
    )


def _find_hindrance(cohort: Cohort, judged: JudgedCohort[tuple[str, int]]) -> str:
    if cohort.facts is None:
        return "nothing is known of their hardware"
    least = f"of fewer than {LEAST_HOSTS} nobody can say who is the odd one out"
    if len(cohort.aliases) < LEAST_HOSTS:
        return f"{count_things(len(cohort.aliases), 'host')} of this kind: {least}"
    if judged.measured < LEAST_HOSTS:
        return f"{len(cohort.aliases)} hosts of this kind, {judged.measured} of them measured: {least}"
    return "" if judged.cells else f"no cell was measured on {LEAST_HOSTS} of them"


def _explain(host: OddHost[tuple[str, int]], fingerprints: Mapping[str, Fingerprint]) -> OddLine:
    usual = find_usual([fingerprint for alias, fingerprint in fingerprints.items() if alias != host.alias])
    changed = {alias: diff_fingerprints(usual, fingerprint) for alias, fingerprint in fingerprints.items()}
    lines = []
    for suspect in find_suspects(changed, frozenset({host.alias})):
        also = f" (so on {join_names(suspect.spared, 4)}, too)" if suspect.spared else ""
        lines.append(make_line(f"{say_suspect(suspect)}{also}"))
    cells = tuple(SlowCell(make_line(cell.key[0]), cell.change, cell.z) for cell in host.cells)
    return OddLine(OddHost(make_line(host.alias), host.change, host.z, cells, host.count), tuple(lines))


def _say(cohorts: Sequence[CohortLine]) -> str:
    judged = [cohort for cohort in cohorts if not cohort.unjudged]
    if not judged:
        if not any(cohort.measured for cohort in cohorts):
            return "Nothing was measured in this run."
        return f"Nobody can be judged: there are no {LEAST_HOSTS} hosts of one kind with a cell in common."
    among = f"{sum(cohort.measured for cohort in judged)} hosts, each held against its like in {_count_cells(judged)}"
    odd = [line.host for cohort in judged for line in cohort.odd]
    if not odd:
        return f"No odd one among {among}."
    whole = sum(host.change is not None for host in odd)
    parts = [f"{count_things(whole, 'slow host')}"] if whole else []
    parts += [f"{count_things(len(odd) - whole, 'host')} slow in some cells"] if len(odd) > whole else []
    return f"{' and '.join(parts)} among {among}."


def _count_cells(judged: Sequence[CohortLine]) -> str:
    counts = sorted({cohort.cells for cohort in judged})
    return count_things(counts[0], "cell") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} cells"
