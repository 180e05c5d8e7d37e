"""`fleet resume`, `fleet cancel` and `fleet report` among several runs, and what they say of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from fleet.model.event import HostFinished, HostStage
from fleet.model.plan import Plan
from fleet.model.result import HostStatus, Stage
from fleet.store.opening import reopen_run
from fleet.store.rundir import Store
from tests.conftest import RunFleet
from tests.run_builder import Ending, make_cells, make_outcome, make_plan, store_run

FIRST, SECOND, THIRD, FOURTH = (f"2026010{day}T000000Z-aaaa" for day in range(1, 5))
CELLS = make_cells()
UNREACHABLE = Ending(status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", message="Refused.")


def plan_run(run_id: str, *aliases: str) -> Plan:
    """Of hosts whose names nobody can resolve, with an empty payload."""
    plan = make_plan({f"{alias}.invalid": CELLS for alias in aliases}, run_id)
    return plan.model_copy(update={"payload_sha256": hashlib.sha256(b"").hexdigest()})


def leave_run(reports: Path, plan: Plan, endings: Mapping[str, Ending]) -> None:
    """A run whose controller went while it connected to hosts that have no ending."""
    with Store(reports).create(plan) as writer:
        for host in plan.hosts:
            writer.record(HostStage(alias=host.alias, stage=Stage.CONNECT))
            if host.alias in endings:
                outcome = make_outcome(host, plan, endings[host.alias])
                writer.record(HostFinished(alias=host.alias, outcome=outcome))


def test_the_newest_run_that_nobody_is_at_is_taken_up(workspace: Path, run_fleet: RunFleet) -> None:
    reports = workspace / "reports"
    for run_id in (FIRST, SECOND):
        leave_run(reports, plan_run(run_id, "a", "b"), {})
    store_run(reports, plan_run(THIRD, "a"), {"a.invalid": UNREACHABLE}, exit_code=6)
    with Store(reports).create(plan_run(FOURTH, "a")):
        done = run_fleet("resume")
        reported = run_fleet("report", SECOND)
        latest = run_fleet("report")

    assert done.returncode == 6, done.stderr
    assert f"left alone, for another fleet is at it: {FOURTH}\n" in done.stderr
    assert f"not complete either: {FIRST}. Take up one with: fleet resume {FIRST}\n" in done.stderr
    assert f"run {SECOND}, 2 hosts: 2 never begun\n" in done.stderr
    assert "about" not in done.stderr  # how long it takes: nobody knows
    assert f"run {SECOND}" in done.stdout
    assert json.loads((reports / "runs" / SECOND / "run.json").read_text())["hosts"] == {
        "a.invalid": "unreachable",
        "b.invalid": "unreachable",
    }
    assert reported.stderr == ""
    assert latest.stderr == f"a newer run is not complete: see fleet status {FOURTH}\n"


def test_a_run_at_which_another_fleet_is_is_not_taken_up(workspace: Path, run_fleet: RunFleet) -> None:
    with Store(workspace / "reports").create(plan_run(FIRST, "a")):
        done = run_fleet("resume")

    assert done.returncode == 75
    assert f"run {FIRST} is going on" in done.stderr


def test_a_cancelled_run_stays_cancelled(workspace: Path, run_fleet: RunFleet) -> None:
    plan = plan_run(FIRST, "a", "b")
    with Store(workspace / "reports").create(plan) as writer:
        writer.keep("a.invalid", {"probe": b"it may have been told to start"})
        writer.record(HostStage(alias="a.invalid", stage=Stage.RUN))
    cancelled, resumed = run_fleet("cancel", FIRST), run_fleet("resume", FIRST)

    assert cancelled.returncode == 4, cancelled.stderr
    assert f"It may still go on on a.invalid. Try again: fleet cancel {FIRST}" in cancelled.stderr
    assert resumed.returncode == 130, resumed.stderr
    assert "it was cancelled: what was measured is collected, what runs is ended." in resumed.stderr
    outcomes = Store(workspace / "reports").load(FIRST).outcomes
    assert [outcome.status for outcome in outcomes.values()] == [HostStatus.CONTACT_LOST, HostStatus.CANCELLED]


def test_a_run_that_was_cancelled_to_its_end_keeps_no_mark(tmp_path: Path) -> None:
    plan = make_plan({"a": CELLS, "b": CELLS})
    for name, status in (("ended", HostStatus.CANCELLED), ("lost", HostStatus.CONTACT_LOST)):
        with Store(tmp_path / name).create(plan) as writer:
            writer.mark_cancelled()
            assert writer.cancel_asked
            for host in plan.hosts:
                outcome = make_outcome(host, plan, Ending(status=status, stage=Stage.RUN))
                writer.record(HostFinished(alias=host.alias, outcome=outcome))
            writer.finish(exit_code=130, interrupted=True)
        assert writer.cancel_asked == (name == "lost")


def test_only_hosts_that_were_seen_are_said_to_be_clean(workspace: Path, run_fleet: RunFleet) -> None:
    plan = plan_run(FIRST, "a", "b", "c")
    endings = {"a.invalid": Ending(), "b.invalid": UNREACHABLE}
    leave_run(workspace / "reports", plan, endings)
    leave_run(workspace / "reports", plan_run(SECOND, "a"), {})
    some, none = run_fleet("cancel", FIRST), run_fleet("cancel", SECOND)

    said = "It is ended, and nothing of it is left on 1 host. Nothing was begun on b.invalid, c.invalid.\n"
    assert some.stderr.endswith(said), some.stderr
    assert f"run {FIRST}, 3 hosts: 2 done, 1 never begun\n" in some.stderr
    assert none.stderr.endswith("\nIt is ended. Nothing was begun on a.invalid.\n"), none.stderr
    assert (some.returncode, none.returncode) == (0, 0)


def test_only_jobs_that_are_to_be_started_need_the_payload(workspace: Path, run_fleet: RunFleet) -> None:
    plan = plan_run(FIRST, "a", "b")
    leave_run(workspace / "reports", plan, {})
    (workspace / "reports" / "runs" / FIRST / "payload.pyz").unlink(missing_ok=True)
    refused = run_fleet("resume", FIRST)
    with reopen_run(workspace / "reports" / "runs" / FIRST)[0] as writer:
        for host in plan.hosts:
            writer.record(HostStage(alias=host.alias, stage=Stage.RUN))
    followed = run_fleet("resume", FIRST)

    assert refused.returncode == 2
    assert "payload.pyz is missing" in refused.stderr
    assert "payload.pyz" not in followed.stderr
    assert Store(workspace / "reports").load(FIRST).outcomes["a.invalid"].status is HostStatus.CONTACT_LOST
