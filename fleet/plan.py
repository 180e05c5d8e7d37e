"""Inventory × limit × suite → the frozen plan. Pure: no clock, no chance, no I/O of its own.

The estimate of how long it takes is for people who wait. The deadline is for machines that hang: nothing that goes as
it should ever comes near it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fleet.errors import SelectionError
from fleet.estimate import Past, estimate_job, estimate_run, find_pace
from fleet.model.inventory import Host
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.model.suite import Cell, ModelInfo, Suite

JOB_GRACE_S: Mapping[str, float] = {"docker": 300.0, "native": 120.0}
"""Allowed on top of the cells. Pulling the image has a limit of its own."""

SEARCH_CHILDREN = 20
"""Children that a cell with an open batch size takes at most: the payload's search, and the measurement."""

CELL_GRACE_S = 15.0
"""Allowed per cell on top of its limit: killing the process, and writing what is known of it."""


@dataclass(frozen=True)
class RunRequest:
    """What one run was asked for, and what makes it unique."""

    inventory: str
    """Path, as given."""
    limit: str | None
    forks: int
    payload_sha256: str
    fleet_version: str
    now: datetime
    """Aware."""
    token: str
    """Four random characters of a-z and 0-9: two runs may start in one second."""


@dataclass(frozen=True)
class PlannedCells:
    """Hosts that run the same cells, for `--dry-run`."""

    aliases: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PlanSummary:
    """A plan in a form to print."""

    hosts: int
    skipped: tuple[str, ...]
    """Aliases of hosts the suite has no cells for."""
    cells: int
    """All hosts' together."""
    by_cells: tuple[PlannedCells, ...]
    estimate_s: float
    """Until the last host is done."""


def build_plan(
    hosts: Sequence[Host],
    suite: Suite,
    models: Mapping[str, ModelInfo],
    request: RunRequest,
    past: Mapping[str, Past] | None = None,
    only: Mapping[str, tuple[Cell, ...]] | None = None,
) -> Plan:
    """The plan that runs `suite` on `hosts`. Equal arguments give equal plans.

    A host whose kind of device the suite has no cells for stays in the plan, without cells: see `skip_host`.

    Args:
        past: by alias, the last run of the hosts that were measured before; for the estimate only.
        only: by alias, which of the suite's cells a host gets; None: all hosts get all for their kind of device.

    Raises:
        SelectionError: no hosts, or no cells for any of them.
    """
    now = request.now.astimezone(UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{request.token}"
    planned = tuple(
        _plan_host(
            host,
            f"{run_id}-{n:03d}",
            suite if only is None else suite.model_copy(update={"cells": only.get(host.alias, ())}),
            models,
            (past or {}).get(host.alias),
        )
        for n, host in enumerate(hosts, start=1)
    )
    if not any(host.cells for host in planned):
        kinds = " and ".join(sorted({host.settings.device for host in hosts})) or "any"
        raise SelectionError(
            f"Nothing to measure: the suite {suite.name} has no cells for {kinds} hosts.",
            "Choose another suite, or say with fleet_devices what the hosts have.",
        )
    return Plan(
        run_id=run_id,
        created=now.isoformat(timespec="seconds"),
        fleet_version=request.fleet_version,
        inventory=request.inventory,
        limit=request.limit,
        suite=suite.name,
        rules=suite.rules,
        payload_sha256=request.payload_sha256,
        forks=request.forks,
        hosts=planned,
    )


def skip_host(host: HostPlan, suite: str) -> HostOutcome:
    """The outcome of a host that was planned without cells: nobody connects to it."""
    return HostOutcome(
        alias=host.alias,
        job_id=host.job_id,
        status=HostStatus.SKIPPED,
        stage=Stage.CONNECT,
        reason="no_cells",
        message=f"The suite {suite} has no cells for a {host.settings.device} host.",
        hint="Leave the host out with --limit, or set fleet_devices if it is another kind of host.",
    )


def describe_plan(plan: Plan, wave: int = 0) -> PlanSummary:
    """The plan with the hosts that run the same cells put together, in the plan's order.

    Args:
        wave: at most so many hosts measure at the same time; 0: all.
    """
    together: dict[tuple[Cell, ...], list[str]] = {}
    for host in plan.hosts:
        if host.cells:
            together.setdefault(host.cells, []).append(host.alias)
    return PlanSummary(
        hosts=sum(len(aliases) for aliases in together.values()),
        skipped=tuple(host.alias for host in plan.hosts if not host.cells),
        cells=sum(len(host.cells) for host in plan.hosts),
        by_cells=tuple(PlannedCells(tuple(aliases), cells) for cells, aliases in together.items()),
        estimate_s=estimate_run((), [host.estimate_s for host in plan.hosts if host.cells], wave),
    )


def _plan_host(host: Host, job_id: str, suite: Suite, models: Mapping[str, ModelInfo], past: Past | None) -> HostPlan:
    most = host.settings.gpus_declared
    cells = tuple(c for c in suite.cells_for(host.settings.device) if most is None or c.devices <= most)
    return HostPlan(
        alias=host.alias,
        job_id=job_id,
        groups=host.groups,
        connection=host.connection,
        settings=host.settings,
        cells=cells,
        estimate_s=estimate_job(
            cells,
            host.settings,
            suite.rules,
            models,
            find_pace(host.settings.device, suite.rules, models, past),
        ),
        deadline_s=JOB_GRACE_S[host.settings.runtime]
        + _count_children(cells) * (suite.rules.cell_timeout_s + CELL_GRACE_S),
    )


def _count_children(cells: tuple[Cell, ...]) -> int:
    """How many children the cells take at most."""
    return sum(SEARCH_CHILDREN if cell.batch_size == 0 else 1 for cell in cells)
