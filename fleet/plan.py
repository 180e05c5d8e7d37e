"""Inventory × limit × suite → the frozen plan. Pure: no clock, no chance, no I/O of its own.

The estimate is for people who wait: floating-point operations ÷ an assumed speed, bounded by the suite's rules. The
deadline is for machines that hang: nothing that goes as it should ever comes near it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fleet.errors import SelectionError
from fleet.model.inventory import Host, Settings
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.model.suite import Cell, Device, ModelInfo, Precision, Rules, Suite

TRAINING_FACTOR = 3
"""A training step costs three forward passes: the gradients by activations and by weights are one each."""

CPU_FLOPS_PER_S = 2e11
"""A CPU host, all cores together. One core of a 2023 Xeon reaches 1.0 to 1.3e11 on resnet50 and alexnet
(TensorFlow 2.15, oneDNN, one pinned core); a shared or an older machine has two such cores' worth at least."""

GPU_FLOPS_PER_S: Mapping[Precision, float] = {"fp32": 8e12, "tf32": 2e13, "fp16": 2e13, "bf16": 2e13}
"""One GPU. An RTX 3090 trains resnet50 at 430 to 540 images/s in fp32 and 1,270 in fp16 (published figures), which is
1.0 to 1.2e13 and 2.9e13; somewhat less is assumed, for older ones."""

STEP_S = 0.002
"""No step is faster: the host's own work."""

CELL_START_S: Mapping[Device, float] = {"cpu": 9.0, "gpu": 25.0}
"""A fresh process per cell: importing TensorFlow and tracing; on a GPU also the driver, cuDNN and autotuning."""

JOB_START_S: Mapping[str, float] = {"docker": 12.0, "native": 6.0}
"""From the first connection to the first cell: push, start, and one process that finds out what the machine is."""

JOB_GRACE_S: Mapping[str, float] = {"docker": 300.0, "native": 120.0}
"""Allowed on top of the cells. Pulling the image has a limit of its own."""

SEARCH_CHILDREN = 20
"""Children that a cell with an open batch size takes at most: the payload's search, and the measurement."""

SEARCH_USUAL = 9
"""Attempts it usually takes: five times doubled, four times halved."""

SEARCHED_BATCH_SIZE = 256
"""What such a cell is expected to end with."""

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
    """The slowest host's: all measure at the same time."""


def build_plan(hosts: Sequence[Host], suite: Suite, models: Mapping[str, ModelInfo], request: RunRequest) -> Plan:
    """The plan that runs `suite` on `hosts`. Equal arguments give equal plans.

    A host whose kind of device the suite has no cells for stays in the plan, without cells: see `skip_host`.

    Raises:
        SelectionError: no hosts, or no cells for any of them.
    """
    now = request.now.astimezone(UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{request.token}"
    planned = tuple(_plan_host(host, f"{run_id}-{n:03d}", suite, models) for n, host in enumerate(hosts, start=1))
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


def describe_plan(plan: Plan) -> PlanSummary:
    """The plan with the hosts that run the same cells put together, in the plan's order."""
    together: dict[tuple[Cell, ...], list[str]] = {}
    for host in plan.hosts:
        if host.cells:
            together.setdefault(host.cells, []).append(host.alias)
    return PlanSummary(
        hosts=sum(len(aliases) for aliases in together.values()),
        skipped=tuple(host.alias for host in plan.hosts if not host.cells),
        cells=sum(len(host.cells) for host in plan.hosts),
        by_cells=tuple(PlannedCells(tuple(aliases), cells) for cells, aliases in together.items()),
        estimate_s=max((host.estimate_s for host in plan.hosts), default=0.0),
    )


def _plan_host(host: Host, job_id: str, suite: Suite, models: Mapping[str, ModelInfo]) -> HostPlan:
    cells = suite.cells_for(host.settings.device)
    return HostPlan(
        alias=host.alias,
        job_id=job_id,
        groups=host.groups,
        connection=host.connection,
        settings=host.settings,
        cells=cells,
        estimate_s=_estimate_job(cells, host.settings, suite.rules, models),
        deadline_s=JOB_GRACE_S[host.settings.runtime]
        + _count_children(cells) * (suite.rules.cell_timeout_s + CELL_GRACE_S),
    )


def _count_children(cells: tuple[Cell, ...]) -> int:
    """How many children the cells take at most."""
    return sum(SEARCH_CHILDREN if cell.batch_size == 0 else 1 for cell in cells)


def _estimate_job(cells: tuple[Cell, ...], settings: Settings, rules: Rules, models: Mapping[str, ModelInfo]) -> float:
    if not cells:
        return 0.0
    return round(
        JOB_START_S[settings.runtime] + sum(estimate_cell(cell, rules, models[cell.model]) for cell in cells), 1
    )


def estimate_cell(cell: Cell, rules: Rules, model: ModelInfo) -> float:
    """Seconds one cell is expected to take, from the start of its process to its document.

    A step is 2 floating-point operations per multiply-add, three times that when gradients are taken; the devices of
    one host work side by side.
    """
    if cell.batch_size == 0:
        found = estimate_cell(cell.model_copy(update={"batch_size": SEARCHED_BATCH_SIZE}), rules, model)
        return found + SEARCH_USUAL * CELL_START_S[cell.device]
    passes = 1 if cell.phase == "forward" else TRAINING_FACTOR
    flops = 2 * model.forward_macs * passes * cell.batch_size * cell.steps_per_call
    step_s = max(STEP_S, flops / (CPU_FLOPS_PER_S if cell.device == "cpu" else GPU_FLOPS_PER_S[cell.precision]))
    warmup_s = max(rules.warmup_steps * step_s, rules.warmup_s)
    timed_s = max(min(max(rules.steps * step_s, rules.min_s), rules.max_s), 2 * step_s)
    return min(CELL_START_S[cell.device] + warmup_s + timed_s, rules.cell_timeout_s)
