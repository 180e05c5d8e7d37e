"""What a run comes to: how much was measured, what failed, which exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.errors import ExitCode
from fleet.model.facts import HostFacts
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import WITHOUT_GPU, CellResult, CellStatus, HostOutcome, HostStatus
from fleet.model.suite import Cell

NO_OUTCOME = "no_outcome"
"""Stands where a status would, for a planned host of which nothing is recorded."""


@dataclass(frozen=True)
class Failure:
    """A host that failed, or one of its cells."""

    alias: str
    status: str
    """A `HostStatus`, a `CellStatus`, or `NO_OUTCOME`."""
    stage: str
    reason: str
    message: str
    hint: str
    cell_id: str | None = None
    """None: the host itself failed."""
    out_of_reach: bool = False
    """Nobody got as far as the host's shell."""


@dataclass(frozen=True)
class Verdict:
    """Totals count what was planned, so that nothing goes missing in silence."""

    hosts_ok: int
    hosts_total: int
    hosts_skipped: int
    """Planned without a cell: the suite has none for their kind of device. Neither ok nor failed."""
    cells_ok: int
    cells_total: int
    failures: tuple[Failure, ...]
    interrupted: bool
    exit_code: ExitCode


def judge(plan: Plan, outcomes: Mapping[str, HostOutcome], interrupted: bool = False) -> Verdict:
    """Judge a run by what was planned.

    Out of memory, a precision the device lacks and skipped cells are results. A planned host without an outcome is a
    failure. The exit code is the first that applies of: interrupted, nothing was measured, a host or a cell failed,
    a host is out of reach, ok. Hosts that were all busy have failed: they are well, and somebody else measures them.
    """
    failures = tuple(
        failure for host in plan.hosts for failure in _find_failures(plan.run_id, host, outcomes.get(host.alias))
    )
    found = [outcomes[host.alias] for host in plan.hosts if host.alias in outcomes]
    cells_ok = sum(_count_ok(host, outcomes.get(host.alias)) for host in plan.hosts)
    return Verdict(
        hosts_ok=sum(outcome.status is HostStatus.OK for outcome in found),
        hosts_total=len(plan.hosts),
        hosts_skipped=sum(_has_nothing_to_do(host, outcomes.get(host.alias)) for host in plan.hosts),
        cells_ok=cells_ok,
        cells_total=sum(len(host.cells) for host in plan.hosts),
        failures=failures,
        interrupted=interrupted,
        exit_code=_choose_exit_code(interrupted, cells_ok, failures),
    )


def list_failed_cells(plan: Plan, outcomes: Mapping[str, HostOutcome]) -> dict[str, tuple[Cell, ...]]:
    """By alias, what is to be measured again: cells that failed, and all without a value of hosts that did."""
    again: dict[str, set[str]] = {}
    for host in plan.hosts:
        outcome = outcomes.get(host.alias)
        measured = {cell.cell_id for cell in outcome.cells if is_measured(cell)} if outcome else set()
        for failure in _find_failures(plan.run_id, host, outcome):
            ids = {cell.id for cell in host.cells} - measured if failure.cell_id is None else {failure.cell_id}
            again.setdefault(host.alias, set()).update(ids)
    return {
        host.alias: tuple(cell for cell in host.cells if cell.id in again[host.alias])
        for host in plan.hosts
        if again.get(host.alias)
    }


def is_measured(cell: CellResult) -> bool:
    """Whether there is a number to show."""
    return cell.status is CellStatus.OK and cell.throughput is not None


def _choose_exit_code(interrupted: bool, cells_ok: int, failures: tuple[Failure, ...]) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    all_busy = len(failures) > 0 and all(failure.status == HostStatus.BUSY for failure in failures)
    if cells_ok == 0 and not all_busy:
        return ExitCode.NOTHING
    if any(not failure.out_of_reach for failure in failures):
        return ExitCode.FAILED
    return ExitCode.UNREACHABLE if failures else ExitCode.OK


def _count_ok(host: HostPlan, outcome: HostOutcome | None) -> int:
    planned = {cell.id for cell in host.cells}
    return len(planned & {cell.cell_id for cell in outcome.cells if is_measured(cell)}) if outcome else 0


def _has_nothing_to_do(host: HostPlan, outcome: HostOutcome | None) -> bool:
    return outcome is not None and outcome.status is HostStatus.SKIPPED and not host.cells


def _find_failures(run_id: str, host: HostPlan, outcome: HostOutcome | None) -> Iterator[Failure]:
    if outcome is None:
        yield Failure(
            alias=host.alias,
            status=NO_OUTCOME,
            stage="",
            reason=NO_OUTCOME,
            message="It has no outcome yet: nobody has followed its job to the end.",
            hint=f"See what it is doing, and collect it: fleet status {run_id}; fleet resume {run_id}",
        )
        return
    if _has_nothing_to_do(host, outcome):
        return
    cells = list(_find_failed_cells(host, outcome))
    met = [failure for failure in cells if failure.status != CellStatus.LOST]
    told_by_cells = (
        outcome.status is HostStatus.OK
        or (outcome.status is HostStatus.PARTIAL and len(cells) > 0)
        or (outcome.status is HostStatus.FAILED and 0 < len(host.cells) == len(met))
    )
    if told_by_cells:
        yield from cells
    else:
        # A host that failed explains the cells it lost; what its other cells met is still worth a line each.
        yield _fail_host(outcome)
        yield from met


def _find_failed_cells(host: HostPlan, outcome: HostOutcome) -> Iterator[Failure]:
    results = {cell.cell_id: cell for cell in outcome.cells}
    for planned in host.cells:
        cell = results.get(planned.id)
        if cell is None:
            yield _miss_cell(host.alias, planned.id, CellStatus.LOST, "No document of this cell came back.")
        elif cell.failed:
            yield _fail_cell(host.alias, cell, outcome.facts)
        elif cell.status is CellStatus.OK and not is_measured(cell):
            yield _miss_cell(host.alias, planned.id, CellStatus.INVALID, "Its document says ok and has no value.")


def _fail_host(outcome: HostOutcome) -> Failure:
    return Failure(
        alias=outcome.alias,
        status=outcome.status.value,
        stage=outcome.stage.value,
        reason=outcome.reason or "",
        message=outcome.message,
        hint=outcome.hint,
        out_of_reach=outcome.status.out_of_reach,
    )


def _fail_cell(alias: str, cell: CellResult, facts: HostFacts | None) -> Failure:
    hints = []
    if cell.reason in WITHOUT_GPU and facts and not facts.gpus and not facts.driver:
        hints.append("For a host without GPUs set fleet_devices: cpu.")
    if cell.log_tail:
        hints.append(f"What it printed: `log_tail` in hosts/HOST/cells/{cell.index:03d}.json of the run's directory.")
    return Failure(
        alias=alias,
        status=cell.status.value,
        stage=cell.stage,
        reason=cell.reason or "",
        message=cell.message or "",
        hint=" ".join(hints),
        cell_id=cell.cell_id,
    )


def _miss_cell(alias: str, cell_id: str, status: CellStatus, message: str) -> Failure:
    hint = "Run this host again; if it stays so, look at its log in the run directory."
    return Failure(alias, status.value, "collect", "no_value", message, hint, cell_id)
