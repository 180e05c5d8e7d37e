"""Hosts on which something hangs: Ctrl-C need not wait for them, nor need the other hosts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fleet.model.result import CellStatus, HostStatus, Stage
from tests.conftest import LabHosts
from tests.faults.conftest import LONG, TINY, FleetRun, StartRun, find_job, is_measuring
from tests.faults.traces import find_traces
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("ssh", "docker")

HANG = '#!/bin/sh\ncase $1 in wait) sleep 3600 ;; esac\nexec /usr/bin/docker "$@"\n'


def hang_engine(host: LabHost) -> None:
    """The docker client hangs when it is asked to wait for a container."""
    host.exec("sh", "-c", f"printf '%s' '{HANG}' >/usr/local/bin/docker && chmod 755 /usr/local/bin/docker")


def test_a_cancel_leaves_a_host_that_hangs_in_its_probe(lab_hosts: LabHosts, start_run: StartRun) -> None:
    hosts = [*lab_hosts(1, bashrc="sleep 3600\n"), *lab_hosts(1)]
    run = start_run(hosts, LONG)
    wait_for(lambda: is_measuring(hosts[1]))
    begin = time.monotonic()
    run.cancel()
    code, out, err = run.wait(60)

    assert code == 130, err
    assert time.monotonic() - begin < 15
    outcomes = [run.outcome(host.alias) for host in hosts]
    assert [outcome.status for outcome in outcomes] == [HostStatus.CANCELLED] * 2, outcomes
    assert [outcome.stage for outcome in outcomes] == [Stage.PROBE, Stage.RUN]
    assert "Traceback" not in out + err


def test_a_shell_that_hangs_does_not_hold_the_report(lab_hosts: LabHosts, workspace: Path, tmp_path: Path) -> None:
    hangs, good = [*lab_hosts(1, bashrc="sleep 3600\n"), *lab_hosts(1)]
    suite = tmp_path / "suite.yaml"
    suite.write_text(TINY)
    run = FleetRun(workspace, write_inventory(tmp_path / "lab.yaml", [hangs, good]), suite, "--deadline", "60s")
    begin = time.monotonic()
    code, out, err = run.wait(90)

    assert code == 3, err
    assert time.monotonic() - begin < 75
    outcome = run.outcome(hangs.alias)
    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.TIMED_OUT, Stage.PROBE, "run_deadline")
    assert run.outcome(good.alias).status is HostStatus.OK
    assert "1/2 hosts, 1/2 cells" in out
    assert find_traces(good) == []


def test_a_cancel_ends_a_job_whose_engine_hangs_and_collects_it(lab_hosts: LabHosts, start_run: StartRun) -> None:
    (host,) = lab_hosts(1)
    hang_engine(host)
    run = start_run([host], LONG)
    wait_for(lambda: list(host.workdir.glob("jobs/*/out/cells/000.json")))
    run.cancel()
    code, _, err = run.wait(60)

    assert code == 130, err
    outcome = run.outcome(host.alias)
    assert outcome.status is HostStatus.CANCELLED, outcome.message
    assert outcome.cells[0].status is CellStatus.OK
    assert host.list_jobs() == []
    assert find_job(host) is None
    assert "sleep 3600" not in host.exec("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
