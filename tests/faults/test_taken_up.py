"""A run whose controller is gone: taken up, it ends with one result per host, whatever the moment it was killed at."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from fleet.store.rundir import Store
from tests.conftest import LabHosts, RunFleet
from tests.faults.conftest import LONG, TINY, FleetRun, StartRun, find_job, is_measuring
from tests.lab.hosts import LabHost
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]

Moment = Callable[[Path, LabHost], object]


def has_ended(host: LabHost) -> bool:
    job = find_job(host)
    return job is not None and (job / "exit.json").exists()


MOMENTS: dict[str, Moment] = {
    "the plan is written": lambda run, host: (run / "events.jsonl").exists(),
    "the host was probed": lambda run, host: (run / "hosts" / host.alias / "probe").exists(),
    "the host was told to start": lambda run, host: '"start"' in (run / "events.jsonl").read_text(),
    "the job is claimed": lambda run, host: find_job(host),
    "the container is there": lambda run, host: host.list_jobs(),
    "it measures": lambda run, host: is_measuring(host),
    "the job has ended": lambda run, host: has_ended(host),
    "files come in": lambda run, host: (run / "hosts" / host.alias / "log").exists(),
    "all files are in": lambda run, host: (run / "hosts" / host.alias / "exit.json").exists(),
}


def kill_at(run: FleetRun, moment: Moment, host: LabHost) -> Path:
    """Kill the controller, -9, as soon as it has come to this; the run's directory."""
    runs = run.workspace / "reports" / "runs"
    wait_for(lambda: any(runs.glob("*/events.jsonl")))
    (directory,) = runs.iterdir()
    wait_for(lambda: moment(directory, host))
    run.process.kill()
    run.process.wait()
    assert not (directory / "run.json").exists()
    return directory


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_job_and_one_result_whenever_the_controller_was_killed(
    moment: str, lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], TINY)
    directory = kill_at(run, MOMENTS[moment], host)
    job = find_job(host)
    if job is not None and not (job / "supervise.sh").exists():
        job = None  # the start was cut off with its connection
    if job is not None:
        wait_for(lambda: (job / "exit.json").exists(), 240)
    there = {name: (job / at).read_bytes() for name, at in FILES.items()} if job else {}
    done = run_fleet("resume", "--reports", str(run.workspace / "reports"), timeout_s=500)

    assert done.returncode == 0, done.stderr
    assert "1/1 hosts, 1/1 cells" in done.stdout
    assert Store(run.workspace / "reports").load().outcomes[host.alias].status is HostStatus.OK
    kept = directory / "hosts" / host.alias
    assert {name: (kept / name).read_bytes() for name in there} == there
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    assert (host.list_jobs(), find_job(host)) == ([], None)
    finished = [line for line in (directory / "events.jsonl").read_text().splitlines() if '"finished"' in line]
    assert len(finished) == 1


@pytest.mark.parametrize("moment", ["it measures", "it is done"])
def test_a_machine_under_several_names_is_measured_once_by_all_controllers_together(
    moment: str, lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host, replace(host, alias="again")], TINY, "--wave", "1")
    kept = Path("hosts") / host.alias / "host.json"
    kill_at(run, MOMENTS.get(moment, lambda directory, _: (directory / kept).exists()), host)
    resumed = run_fleet("resume", "--reports", str(run.workspace / "reports"), timeout_s=500)

    assert resumed.returncode == 3, resumed.stderr
    outcomes = Store(run.workspace / "reports").load().outcomes
    assert outcomes[host.alias].status is HostStatus.OK
    assert (outcomes["again"].status, outcomes["again"].reason) == (HostStatus.BUSY, "same_machine")
    assert host.list_jobs() == []


FILES = {"exit.json": "exit.json", "cells/000.json": "out/cells/000.json", "system.json": "out/system.json"}
"""What is kept → where it lies in the job's directory."""


def test_one_signal_leaves_the_job_to_its_host(lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet) -> None:
    going, new = lab_hosts(2)
    new.pause()
    run = start_run([going, new], LONG)
    wait_for(lambda: is_measuring(going))
    run.process.send_signal(signal.SIGTERM)
    code, out, err = run.wait(30)
    new.unpause()

    run_id = run.load().plan.run_id
    assert code == 130, err
    assert re.search(rf"what was started on {going.alias} goes on there.*fleet resume {run_id}", err)
    assert "INCOMPLETE" in out
    assert going.list_jobs() and not new.list_jobs()
    reports = ("--reports", str(run.workspace / "reports"))
    status = json.loads(run_fleet("status", "--json", *reports).stdout)
    assert [host["state"] for host in status["hosts"]] == ["measuring", "never begun"]
    done = run_fleet("resume", *reports)
    assert done.returncode == 0, done.stderr
    assert "2/2 hosts, 4/4 cells" in done.stdout


def test_a_run_that_goes_on_is_not_taken_up_and_is_cancelled_by_its_own_controller(
    lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: is_measuring(host))
    reports = ("--reports", str(run.workspace / "reports"))
    run_id = run.load().plan.run_id
    refused = run_fleet("resume", *reports)
    assert (refused.returncode, f"run {run_id} is going on" in refused.stderr) == (75, True)
    assert json.loads(run_fleet("status", "--json", *reports).stdout)["state"] == "running"
    done = run_fleet("cancel", run_id, *reports)

    assert done.returncode == 0, done.stderr
    assert "nothing of it is left on 1 host" in done.stderr
    assert run.wait(30)[0] == 130
    assert run.outcome(host.alias).status is HostStatus.CANCELLED
    assert (host.list_jobs(), find_job(host)) == ([], None)


def test_a_run_without_a_controller_is_cancelled_on_its_hosts(
    lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet
) -> None:
    going, silent = lab_hosts(2)
    run = start_run([going, silent], LONG.replace("min_s: 5, max_s: 5", "min_s: 100, max_s: 100"))
    wait_for(lambda: is_measuring(going) and is_measuring(silent))
    run.process.kill()
    run.process.wait()
    (run.load().path / "events.jsonl").write_bytes(b"")  # as a power cut may leave it
    (run.load().path / "payload.pyz").unlink()
    silent.drop_packets()
    reports = ("--reports", str(run.workspace / "reports"))
    done = run_fleet("cancel", run.load().plan.run_id, *reports)

    assert done.returncode == 4, done.stderr
    assert f"It may still go on on {silent.alias}." in done.stderr
    assert run.outcome(going.alias).status is HostStatus.CANCELLED
    assert run.outcome(silent.alias).status is HostStatus.CONTACT_LOST
    assert (going.list_jobs(), find_job(going)) == ([], None)
    silent.accept_packets()
    again = run_fleet("resume", run.load().plan.run_id, *reports)
    assert again.returncode == 130, again.stderr
    assert "it was cancelled" in again.stderr
    assert run.outcome(silent.alias).status is HostStatus.CANCELLED  # it does not measure to its end
    assert (silent.list_jobs(), find_job(silent)) == ([], None)
