"""`fleet resume` and `fleet cancel`: a run whose controller is gone is taken up, to its end or to an early one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fleet.cli.execution import carry_out
from fleet.cli.measure import Limits, Work
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.values import LimitOptions, read_limits
from fleet.cli.words import tell
from fleet.errors import ExitCode, StoreError
from fleet.model.result import HostOutcome, HostStatus, Stage
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
    if run_id is None:
        _tell_others(store, path)
    return _take_up(store, path, ask, read_limits(limits, read_plan(path)), as_json=as_json)


def _tell_others(store: Store, path: Path) -> None:
    """On stderr, which runs besides the chosen one are not complete."""
    others = [other for other in store.list_begun() if other != path]
    going = [other.name for other in others if is_running(other)]
    left = [other.name for other in others if other.name not in going]
    if going and not is_running(path):
        tell(f"left alone, for another fleet is at it: {join_names(going)}")
    if left:
        tell(f"not complete either: {join_names(left)}. Take up one with: fleet resume {left[0]}")


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
        counts = {"done": len(outcomes), "begun": len(going), "never begun": len(left) - len(going)}
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        tell(f"run {run.plan.run_id}, {count_things(len(run.plan.hosts), 'host')}: {said}")
        if writer.cancel_asked and not cancel:
            again = f"To measure again: fleet run --retry-failed {run.plan.run_id}"
            tell(f"it was cancelled: what was measured is collected, what runs is ended. {again}")
        cancel = cancel or writer.cancel_asked
        if cancel:
            writer.mark_cancelled()
        # Jobs that were seen at work are followed and collected without it.
        needs_payload = not cancel and any(not job.seen for job in left.values())
        payload = read_payload(path, run.plan.payload_sha256) if needs_payload else b""
        passwords = ask_passwords(ask, (host for host in run.plan.hosts if host.alias not in outcomes))
        work = Work(run.plan, payload, limits, left, outcomes, passwords)
        return carry_out(work, writer, store, as_json=as_json, cancel=cancel)


def _wait_for_controller(store: Store, path: Path) -> None:
    """Let the controller that is at it cancel the run."""
    tell(f"run {path.name} is going on: its own fleet cancels it")
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
        tell(f"It may still go on on {join_names(names) or 'some hosts'}. Try again: fleet cancel {run.plan.run_id}")
        return ExitCode.UNREACHABLE
    if left:
        tell(f"It is ended everywhere; files of it are left on {join_names(left)}.")
        return ExitCode.FAILED
    tell(_say_clean([outcome for outcome in outcomes if outcome]))
    return ExitCode.OK


def _say_clean(outcomes: Sequence[HostOutcome]) -> str:
    """Of hosts on which nothing was begun, nobody looked at all."""
    unseen = [outcome.alias for outcome in outcomes if outcome.status.out_of_reach or outcome.stage is Stage.CONNECT]
    seen = len(outcomes) - len(unseen)
    left = f", and nothing of it is left on {count_things(seen, 'host')}" if seen else ""
    return f"It is ended{left}." + (f" Nothing was begun on {join_names(unseen)}." if unseen else "")
