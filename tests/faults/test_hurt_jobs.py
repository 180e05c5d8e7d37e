"""What is done to a job, its host or its controller in the middle of a run, and what becomes of the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.model.result import CellStatus, HostStatus
from tests.conftest import LabHosts, RunFleet
from tests.faults.conftest import LONG, TINY, StartRun, find_job, is_measuring
from tests.lab.engine import docker
from tests.lab.hosts import LabHost
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]


def kill_supervisor(host: LabHost) -> None:
    host.exec("pkill", "-KILL", "-f", "supervise.sh")


def test_a_killed_connection_costs_nothing(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: is_measuring(host))
    host.kill_connections()
    code, out, err = run.wait()

    assert code == 0, err
    assert host.read_log().count("Accepted publickey") == 2
    assert run.outcome(host.alias).status is HostStatus.OK
    assert "1/1 hosts, 2/2 cells" in out
    assert host.list_jobs() == []


def test_a_job_outlives_its_supervisor(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: is_measuring(host))
    kill_supervisor(host)
    code, _, err = run.wait()

    assert code == 0, err
    assert run.outcome(host.alias).status is HostStatus.OK


def test_a_job_outlives_its_controller(lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: is_measuring(host))
    run.process.kill()
    run.process.wait()
    job = find_job(host)
    assert job is not None
    wait_for(lambda: (job / "exit.json").exists())

    assert json.loads((job / "exit.json").read_text())["exit_status"] == 0
    cells = [json.loads((job / "out" / "cells" / f"{n:03d}.json").read_text()) for n in range(2)]
    assert [cell["status"] for cell in cells] == ["ok", "ok"]
    assert run.load().summary is None
    reports = ("--reports", str(run.workspace / "reports"))
    shown = run_fleet("report", run.load().plan.run_id, *reports)
    assert "no outcome" in shown.stdout and "Failures" not in shown.stdout
    (now,) = json.loads(run_fleet("status", "--json", *reports).stdout)["hosts"]
    assert (now["state"], now["cells_done"], now["ended"]) == ("ended, not collected", 2, True)


def test_a_removed_container_is_lost_and_said_so(lab_hosts: LabHosts, start_run: StartRun) -> None:
    broken, good = lab_hosts(2)
    run = start_run([broken, good], LONG)
    wait_for(lambda: is_measuring(broken) and broken.list_jobs())
    docker("rm", "--force", *broken.list_jobs())
    code, _, err = run.wait()

    assert code == 3, err
    outcome = run.outcome(broken.alias)
    # Docker kills it before it removes it: which of the two the supervisor sees is chance.
    assert outcome.status in {HostStatus.LOST, HostStatus.FAILED}
    assert outcome.reason == "killed"
    assert all(cell.status is CellStatus.LOST for cell in outcome.cells if not cell.timing)
    assert run.outcome(good.alias).status is HostStatus.OK


def test_a_killed_container_keeps_what_was_measured(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: list(host.workdir.glob("jobs/*/out/cells/000.json")))
    docker("kill", *host.list_jobs())
    code, _, err = run.wait()

    assert code == 3, err
    outcome = run.outcome(host.alias)
    assert (outcome.status, outcome.reason) == (HostStatus.FAILED, "killed")
    assert "SIGKILL" in outcome.message
    assert [cell.status for cell in outcome.cells] == [CellStatus.OK, CellStatus.LOST]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[: len(data) // 2], "cannot be read"),
        (lambda data: b"", "empty"),
        (lambda data: data.replace(b'"index": 0', b'"index": 7').replace(b'"index":0', b'"index":7'), "another job"),
        (lambda data: data.replace(b'"duration_s"', b'"x": NaN, "duration_s"'), "NaN"),
    ],
    ids=["truncated", "empty", "foreign", "nan"],
)
def test_a_damaged_document_is_invalid_and_kept(
    damage: Callable[[bytes], bytes], says: str, lab_hosts: LabHosts, start_run: StartRun
) -> None:
    (host,) = lab_hosts(1)
    run = start_run([host], LONG)
    wait_for(lambda: list(host.workdir.glob("jobs/*/out/cells/000.json")))
    (document,) = host.workdir.glob("jobs/*/out/cells/000.json")
    damaged = damage(document.read_bytes())
    document.write_bytes(damaged)
    code, _, err = run.wait()

    assert code == 3, err
    outcome = run.outcome(host.alias)
    assert outcome.status is HostStatus.RESULT_INVALID
    assert says in outcome.message
    assert [cell.status for cell in outcome.cells] == [CellStatus.LOST, CellStatus.OK]
    kept = run.load().path / "hosts" / host.alias / "cells" / "000.json"
    assert kept.read_bytes() == damaged


def test_two_signals_cancel_on_the_hosts_and_report(lab_hosts: LabHosts, start_run: StartRun) -> None:
    hosts = lab_hosts(2)
    run = start_run(hosts, LONG)
    wait_for(lambda: all(is_measuring(host) for host in hosts))
    run.cancel()
    code, out, err = run.wait(60)

    assert code == 130, err
    assert err.index("cancelling on 2 hosts; Ctrl-C again leaves at once\n") < err.index(": cancelled")
    assert "INTERRUPTED" in out
    assert {run.outcome(host.alias).status for host in hosts} == {HostStatus.CANCELLED}
    summary = run.load().summary
    assert summary is not None
    assert summary.interrupted
    assert [host.list_jobs() for host in hosts] == [[], []]
    assert [find_job(host) for host in hosts] == [None, None]


def test_a_machine_is_measured_by_one_at_a_time(
    lab_hosts: LabHosts, start_run: StartRun, run_fleet: RunFleet, workspace: Path
) -> None:
    (host,) = lab_hosts(1)
    first = start_run([host], LONG)
    wait_for(lambda: is_measuring(host))
    second = run_fleet(
        "run",
        "-i",
        str(workspace / "lab.yaml"),
        "--suite",
        str(workspace / "suite.yaml"),
        "--json",
        "--reports",
        str(workspace / "second"),
    )

    assert second.returncode == 3
    failures = json.loads(second.stdout)["failures"]
    assert [failure["status"] for failure in failures] == ["busy"]
    assert first.load().plan.run_id in failures[0]["message"]
    assert first.wait()[0] == 0


def test_the_payload_is_pushed_once(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    assert start_run([host], TINY).wait()[0] == 0
    (payload,) = host.workdir.glob("payload-*.pyz")
    before = payload.stat()
    assert start_run([host], TINY).wait()[0] == 0

    assert payload.stat().st_ino == before.st_ino
    assert payload.stat().st_mode & 0o777 == 0o444


def test_a_payload_that_was_changed_on_the_host_is_replaced(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    assert start_run([host], TINY).wait()[0] == 0
    (payload,) = host.workdir.glob("payload-*.pyz")
    right = payload.read_bytes()
    payload.chmod(0o644)
    payload.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    run = start_run([host], TINY)
    code, _, err = run.wait()

    assert code == 0, err
    assert payload.read_bytes() == right
