"""`fleet run` as people and programs call it, on real SSH hosts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from fleet.store.rundir import Store
from tests.cli.test_cli_hosts import write_jump
from tests.conftest import ROOT, LabHosts, RunFleet
from tests.faults.conftest import TINY
from tests.lab.inventory import write_inventory, write_known_hosts

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]


@pytest.fixture
def suite(workspace: Path) -> Path:
    path = workspace / "tiny.yaml"
    path.write_text(TINY)
    return path


def test_three_hosts_of_which_two_fail(suite: Path, lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    good, unknown, stopped = lab_hosts(3)
    stopped.stop_docker()
    keys = write_known_hosts(workspace / "known_hosts", [good, stopped])
    inventory = write_inventory(workspace / "lab.yaml", [good, unknown, stopped], known_hosts=keys)
    done = run_fleet("run", "-i", str(inventory), "--suite", str(suite))

    assert done.returncode == 3, done.stderr
    assert "1/3 hosts, 1/3 cells" in done.stdout
    assert "Failures (2)" in done.stdout
    assert re.search(rf"✖ {unknown.alias}  host key unknown at connect", done.stdout)
    flat = re.sub(r"\s+", " ", done.stdout)
    assert f"fleet hosts trust -i {inventory} --limit {unknown.alias}" in flat
    assert "INVENTORY" not in done.stdout + done.stderr
    assert re.search(rf"✖ {stopped.alias}  preflight failed at probe \(docker_not_running\)", done.stdout)
    assert "systemctl start docker" in flat
    run = Store(workspace / "reports").load()
    assert {alias: outcome.status for alias, outcome in run.outcomes.items()} == {
        good.alias: HostStatus.OK,
        unknown.alias: HostStatus.HOST_KEY_UNKNOWN,
        stopped.alias: HostStatus.PREFLIGHT_FAILED,
    }
    (cell,) = run.outcomes[good.alias].cells
    assert cell.throughput is not None
    assert cell.throughput.images_per_s > 0
    again = run_fleet("report")
    assert again.stdout == done.stdout


def test_json_alone_is_on_stdout(suite: Path, lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    (host,) = lab_hosts(1)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    done = run_fleet("run", "-i", str(inventory), "--suite", str(suite), "--json", "--reports", "kept")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "fleet.report/1"
    assert document["verdict"]["coverage"] == "1/1 hosts, 1/1 cells"
    assert f"{host.alias}: ok, 1/1 cells" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert run_fleet("report", "--json", "--reports", "kept").stdout == done.stdout
    assert not (workspace / "reports").exists()


def test_hosts_that_are_all_out_of_reach_measure_nothing(
    suite: Path, lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    good, gone = lab_hosts(2)
    inventory = write_inventory(workspace / "lab.yaml", [good, gone])
    gone.stop()
    some = run_fleet("run", "-i", str(inventory), "--suite", str(suite))
    none = run_fleet("run", "-i", str(inventory), "--suite", str(suite), "--limit", gone.alias)

    assert some.returncode == 4, some.stderr
    assert none.returncode == 6, none.stderr
    assert "Traceback" not in some.stderr + none.stderr


def test_a_host_behind_a_jump_host_is_measured(
    suite: Path, lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    jump, behind = lab_hosts(2)
    keys = write_known_hosts(workspace / "known_hosts", [jump, behind])
    inventory = write_jump(workspace, jump, behind, keys)
    done = run_fleet("run", "-i", str(inventory), "--suite", str(suite))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1 hosts, 1/1 cells" in done.stdout
    assert "Accepted publickey" in jump.read_log()
    assert f"from {jump.address}" in behind.read_log()


def test_every_ctrl_c_is_answered_at_once_and_the_third_leaves(
    suite: Path, lab_hosts: LabHosts, workspace: Path, isolated_home: Path
) -> None:
    (host,) = lab_hosts(1)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    host.pause()  # it neither connects nor can be cancelled
    process = subprocess.Popen(
        [sys.executable, "-m", "fleet", "run", "-i", str(inventory), "--suite", str(suite)],
        cwd=workspace,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        while "1 host" not in process.stderr.readline():
            pass
        time.sleep(2)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        lines = [process.stderr.readline()]
        answered_s = time.monotonic() - begin
        process.send_signal(signal.SIGINT)
        lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        left_s = time.monotonic() - begin
    finally:
        process.kill()
        host.unpause()

    assert re.match(r"\d\d:\d\d:\d\d leaving\. Take it up again with: fleet resume 2", lines[0])
    assert re.fullmatch(r"\d\d:\d\d:\d\d cancelling on 1 host; Ctrl-C again leaves at once\n", lines[1])
    assert re.search(r"^\d\d:\d\d:\d\d left at once\. End it for good with: fleet cancel 2", err, re.MULTILINE)
    assert answered_s < 5
    assert (process.returncode, left_s < 10) == (130, True), err
    assert "Traceback" not in err
