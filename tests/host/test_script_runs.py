"""Whole runs on real machines, where the scripts decide how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.model.result import HostStatus, Stage
from tests.conftest import LabHosts
from tests.faults.conftest import LONG, TINY, FleetRun, find_job, is_measuring
from tests.host.smi_program import A100
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]


def start(workspace: Path, inventory: Path, suite: str) -> FleetRun:
    path = workspace / "suite.yaml"
    path.write_text(suite)
    return FleetRun(workspace, inventory, path)


def check_measured_once(run: FleetRun, names: list[LabHost], stage: Stage) -> None:
    """One of the names was measured, and the other is told to be the same machine."""
    code, _, err = run.wait()
    outcomes = [run.outcome(name.alias) for name in names]
    assert code == 3, err
    assert sorted(outcome.status for outcome in outcomes) == [HostStatus.BUSY, HostStatus.OK]
    (busy,) = [outcome for outcome in outcomes if outcome.status is HostStatus.BUSY]
    assert (busy.stage, busy.reason) == (stage, "same_machine")
    (measured,) = {name.alias for name in names} - {busy.alias}
    assert f"as {measured}" in busy.message
    for host in names:
        assert host.list_jobs() == []


def test_one_machine_under_two_names_is_measured_once(lab_hosts: LabHosts, workspace: Path) -> None:
    (host,) = lab_hosts(1)
    names = [host, replace(host, alias="again")]
    run = start(workspace, write_inventory(workspace / "lab.yaml", names), TINY)

    check_measured_once(run, names, Stage.PROBE)
    assert [path.name.partition("-")[0] for path in host.workdir.iterdir()] == ["payload"]


def test_a_machine_whose_users_have_a_tmp_each_is_measured_once(lab_hosts: LabHosts, workspace: Path) -> None:
    """No lock tells: each name sees a /tmp of its own. The containers are in one boot as it is."""
    names = lab_hosts(2)
    for host in names:
        host.exec("sh", "-c", "echo fedcba9876543210fedcba9876543210 >/etc/machine-id")

    check_measured_once(start(workspace, write_inventory(workspace / "lab.yaml", names), TINY), names, Stage.PROBE)


def test_a_machine_without_an_id_under_two_names_is_measured_once(lab_hosts: LabHosts, workspace: Path) -> None:
    (host,) = lab_hosts(1)
    host.exec("rm", "/etc/machine-id")
    names = [host, replace(host, alias="again")]

    check_measured_once(start(workspace, write_inventory(workspace / "lab.yaml", names), TINY), names, Stage.START)


def test_a_gpu_host_that_others_use_is_left_to_them(lab_hosts: LabHosts, workspace: Path, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    apps, use = f"{A100}, 1, 59392, /usr/sbin/sshd", f"{A100}, 0, 81920, 97"
    program.write_text(f"#!/bin/sh\ncase $1 in *apps*) echo '{apps}' ;; *utilization*) echo '{use}' ;; esac\n")
    used, free = [*lab_hosts(1, nvidia_smi=program), *lab_hosts(1)]
    inventory = write_inventory(workspace / "lab.yaml", [used, free], overrides={used.alias: {"fleet_devices": "all"}})
    run = start(workspace, inventory, TINY.replace("[cpu]", "[cpu, gpu]"))
    code, out, err = run.wait()

    assert code == 3, err
    busy = run.outcome(used.alias)
    assert (busy.status, busy.reason) == (HostStatus.BUSY, "gpu_busy")
    assert busy.message == "GPU 0 is used by sshd (root, pid 1): 58.0 of 80.0 GiB, 97 % busy"
    assert f"{used.alias}  busy at probe" in out
    assert run.outcome(free.alias).status is HostStatus.OK
    assert [*used.workdir.iterdir()] == []


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
