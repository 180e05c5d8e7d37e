"""`fleet resume` and `fleet cancel`: a run whose controller is gone is taken up, to its end or to an early one."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from fleet.cli.execution import carry_out
from fleet.cli.measure import Limits, Work
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.values import LimitOptions, read_limits
from fleet.errors import ExitCode, StoreError
from fleet.model.result import HostStatus
from fleet.report.wording import count_things, join_names
from fleet.store.opening import read_left, read_payload, reopen_run
from fleet.store.reader import StoredRun, is_running, read_plan, read_run
from fleet.store.rundir import Store

CANCEL_S = 120.0
"""How long a controller that goes on may take to cancel its run: its hosts have 30 s each, the slowest its limits."""


def resume_run(reports: Path, run_id: str | None, ask: Ask, limits: LimitOptions, *, as_json: bool) -> int:
    """Collect what has finished, follow what goes on, start what never was; the exit code.

    Raises:
        LockedError: another controller is at it.
        StoreError: there is no such run, or it cannot be read.
    """
    store = Store(reports)
    path = store.find_open(run_id)
    return _take_up(store, path, ask, read_limits(limits, read_plan(path)), as_json=as_json)


def cancel_run(reports: Path, run_id: str, ask: Ask, *, as_json: bool) -> int:
    """End a run on every host, and say where that is not certain; the exit code.

    Raises:
        StoreError: there is no such run, or it cannot be read, or its controller does not answer.
    """
    store = Store(reports)
    path = store.find_open(run_id)
    if is_running(path):
        _wait_for_controller(store, path)
    else:
        _take_up(store, path, ask, Limits(), as_json=as_json, cancel=True)
    return _say_what_is_left(read_run(path))


def _take_up(store: Store, path: Path, ask: Ask, limits: Limits, *, as_json: bool, cancel: bool = False) -> int:
    writer, run = reopen_run(path)
    with writer:
        outcomes = {alias: found for alias, found in run.outcomes.items() if found.status != HostStatus.CONTACT_LOST}
        left = read_left(run, [host.alias for host in run.plan.hosts if host.alias not in outcomes])
        going = [alias for alias, job in left.items() if job.told]
        typer.echo(
            f"run {run.plan.run_id} · {count_things(len(outcomes), 'host')} of {len(run.plan.hosts)} done"
            + (f", {len(going)} begun" if going else ""),
            err=True,
        )
        passwords = ask_passwords(ask, (host for host in run.plan.hosts if host.alias not in outcomes))
        payload = b"" if cancel else read_payload(path, run.plan.payload_sha256)
        work = Work(run.plan, payload, limits, left, outcomes, passwords)
        return carry_out(work, writer, store, as_json=as_json, cancel=cancel)


def _wait_for_controller(store: Store, path: Path) -> None:
    """Let the controller that is at it cancel the run."""
    typer.echo(f"run {path.name} is going on: its own fleet cancels it", err=True)
    store.ask_cancel(path)
    end = time.monotonic() + CANCEL_S
    while is_running(path):
        if time.monotonic() > end:
            raise StoreError(
                f"{path.name}: the fleet that works at it has not ended within {CANCEL_S:.0f} s.",
                "It may be on another machine, stopped, or hang: end it there, then cancel again.",
            )
        time.sleep(0.5)


def _say_what_is_left(run: StoredRun) -> int:
    """On stderr; the exit code."""
    outcomes = [run.outcomes.get(host.alias) for host in run.plan.hosts if host.cells]
    open_ = [outcome for outcome in outcomes if outcome is None or outcome.status is HostStatus.CONTACT_LOST]
    left = [outcome.alias for outcome in outcomes if outcome and outcome.leftover]
    if open_ or run.summary is None:
        names = [o.alias for o in outcomes if o and o.status is HostStatus.CONTACT_LOST]
        typer.echo(
            f"It may still go on on {join_names(names) or 'some hosts'}. Try again: fleet cancel {run.plan.run_id}",
            err=True,
        )
        return ExitCode.UNREACHABLE
    if left:
        typer.echo(f"It is ended everywhere; files of it are left on {join_names(left)}.", err=True)
        return ExitCode.FAILED
    typer.echo(f"It is ended, and nothing of it is left on {count_things(len(outcomes), 'host')}.", err=True)
    return ExitCode.OK
