"""Whole runs on real machines, where the scripts decide how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from tests.conftest import LabHosts
from tests.faults.conftest import LONG, TINY, FleetRun, find_job, is_measuring
from tests.lab.inventory import write_inventory
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]


def start(workspace: Path, inventory: Path, suite: str) -> FleetRun:
    path = workspace / "suite.yaml"
    path.write_text(suite)
    return FleetRun(workspace, inventory, path)


def test_one_machine_under_two_names_is_measured_once(lab_hosts: LabHosts, workspace: Path) -> None:
    (host,) = lab_hosts(1)
    names = [host, replace(host, alias="again")]
    run = start(workspace, write_inventory(workspace / "lab.yaml", names), TINY)
    code, _, err = run.wait()
    outcomes = [run.outcome(name.alias) for name in names]

    assert code == 3, err
    assert sorted(outcome.status for outcome in outcomes) == [HostStatus.BUSY, HostStatus.OK]
    (busy,) = [outcome for outcome in outcomes if outcome.status is HostStatus.BUSY]
    assert busy.reason == "same_machine"
    (measured,) = {name.alias for name in names} - {busy.alias}
    assert f"as {measured})" in busy.message
    assert host.list_jobs() == []
    assert [path.name.partition("-")[0] for path in host.workdir.iterdir()] == ["payload"]


def test_a_disk_that_fills_up_in_mid_run_is_never_ok(lab_hosts: LabHosts, workspace: Path) -> None:
    (host,) = lab_hosts(1, workdir_size="80m")
    run = start(workspace, write_inventory(workspace / "lab.yaml", [host]), LONG)
    wait_for(lambda: is_measuring(host))
    filler = host.workdir / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
    except OSError:
        pass
    assert find_job(host) is not None
    code, _, err = run.wait()
    outcome = run.outcome(host.alias)

    assert code in {3, 6}, err
    assert outcome.status in {HostStatus.FAILED, HostStatus.PARTIAL, HostStatus.RESULT_INVALID}, outcome.message
    assert "No space left" in outcome.message
    assert host.list_jobs() == []
    assert find_job(host) is None
