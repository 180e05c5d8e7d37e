"""Whole runs in which fleet is root on a host, beside such in which it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from fleet.store.rundir import Store
from tests.conftest import LabHosts, RunFleet
from tests.faults.conftest import TINY
from tests.lab.inventory import write_inventory

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]


def test_root_and_the_user_share_the_machines_lock_and_nothing_else(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    first, second = lab_hosts(2, sudoers="bench ALL=(ALL) NOPASSWD: ALL")
    (workspace / "tiny.yaml").write_text(TINY)
    for root, other in ((first, second), (second, first)):
        root.exec("chown", "root", str(root.workdir))
        other.exec("chown", "bench", str(other.workdir))
        overrides = {root.alias: {"fleet_become": True}}
        inventory = str(write_inventory(workspace / "lab.yaml", [first, second], overrides=overrides))
        done = run_fleet("run", "-i", inventory, "-s", "./tiny.yaml")

        assert done.returncode == 0, done.stdout + done.stderr
        outcomes = Store(workspace / "reports").load().outcomes
        assert [outcome.status for outcome in outcomes.values()] == [HostStatus.OK] * 2
        users = {alias: outcome.facts.user for alias, outcome in outcomes.items() if outcome.facts}
        assert users == {root.alias: "root", other.alias: "bench"}
        swept = run_fleet("clean", "-i", inventory)
        assert swept.returncode == 0, swept.stdout
        for host in (first, second):
            assert host.exec("sh", "-c", 'ls -A "$1"; ls -d /tmp/fleet.holder.* || true', "sh", str(host.workdir)) == ""
    # Whoever came first made it, and the other could use it all the same.
    assert [host.exec("stat", "-c", "%U %a", "/tmp/fleet.lock") for host in (first, second)] == [
        "root 666",
        "bench 666",
    ]


def test_a_work_directory_of_the_user_is_none_for_root(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1, sudoers="bench ALL=(ALL) NOPASSWD: ALL")
    inventory = str(write_inventory(workspace / "lab.yaml", [host], fleet_become=True))
    said = " ".join(run_fleet("ping", "-i", inventory).stdout.split())
    assert f"The work directory {host.workdir} does not belong to root." in said
