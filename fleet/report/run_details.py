"""One run as a directory: what it was, how it went, what it takes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.verdict import NO_OUTCOME, judge
from fleet.model.journal import PinnedBaseline
from fleet.model.result import CellStatus
from fleet.report.runs import find_exit_code
from fleet.report.wording import make_line
from fleet.store.reader import StoredRun


@dataclass(frozen=True)
class HostDetails:
    """One planned host, inert."""

    alias: str
    status: str
    """`no_outcome`: it has none."""
    stage: str | None
    reason: str | None
    cells_ok: int
    cells_total: int
    job_s: float | None


@dataclass(frozen=True)
class RunDetails:
    """One run, inert. None: not known, or not yet."""

    run_id: str
    state: str
    """`complete`, `running` or `incomplete`."""
    created: str
    finished: str | None
    suite: str
    inventory: str
    limit: str | None
    fleet_version: str
    payload_sha256: str
    exit_code: int | None
    """As in the list of runs."""
    hosts_ok: int
    hosts_total: int
    cells_ok: int
    cells_total: int
    path: str
    size_bytes: int
    baseline_for: tuple[str, ...]
    """Why it was made a baseline."""
    hosts: tuple[HostDetails, ...]
    schema: Literal["fleet.run_details/1"] = "fleet.run_details/1"


def describe_run_details(
    run: StoredRun, size_bytes: int, baselines: Sequence[PinnedBaseline], regressed: Set[str]
) -> RunDetails:
    """What is shown of a run.

    Args:
        size_bytes: of its directory.
        baselines: those that name it.
        regressed: the runs with a regression.
    """
    plan, summary = run.plan, run.summary
    verdict = judge(plan, run.outcomes)
    return RunDetails(
        run_id=plan.run_id,
        state="running" if run.running else "complete" if summary else "incomplete",
        created=make_line(plan.created, 40),
        finished=make_line(summary.finished, 40) if summary else None,
        suite=make_line(plan.suite, 80),
        inventory=make_line(plan.inventory),
        limit=make_line(plan.limit) or None,
        fleet_version=make_line(plan.fleet_version, 40),
        payload_sha256=make_line(plan.payload_sha256, 64),
        exit_code=find_exit_code(plan.run_id, summary.exit_code if summary else None, regressed),
        hosts_ok=verdict.hosts_ok,
        hosts_total=verdict.hosts_total,
        cells_ok=verdict.cells_ok,
        cells_total=verdict.cells_total,
        path=make_line(str(run.path), 4096),
        size_bytes=size_bytes,
        baseline_for=tuple(make_line(baseline.reason) for baseline in baselines),
        hosts=tuple(_describe_host(run, place) for place in range(len(plan.hosts))),
    )


def _describe_host(run: StoredRun, place: int) -> HostDetails:
    host = run.plan.hosts[place]
    outcome = run.outcomes.get(host.alias)
    return HostDetails(
        alias=host.alias,
        status=outcome.status.value if outcome else NO_OUTCOME,
        stage=outcome.stage.value if outcome else None,
        reason=make_line(outcome.reason, 80) or None if outcome else None,
        cells_ok=sum(cell.status is CellStatus.OK for cell in outcome.cells) if outcome else 0,
        cells_total=len(host.cells),
        job_s=outcome.job_s if outcome else None,
    )
