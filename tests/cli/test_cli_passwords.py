"""`--ask-pass` and `--ask-become-pass`: asked once, on the terminal, and only where a host may want it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import LabHosts, RunFleet
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.terminal import Terminal

PASSWORD = "s3cret und $ü'per"
PROMPTS = {"SSH password: ": PASSWORD, "sudo password (empty: the SSH password): ": ""}
HERE = "all: {hosts: {here: {ansible_connection: local, fleet_runtime: native, fleet_devices: cpu}}}"

needs_lab = pytest.mark.needs("ssh", "docker", "setsid")


def start_host(lab_hosts: LabHosts) -> LabHost:
    """It takes no key, and its user is not in the group docker; the work directory is root's."""
    (host,) = lab_hosts(
        1,
        docker_permission=False,
        workdir_owner="root",
        sudoers="bench ALL=(ALL) ALL",
        sshd="-oPubkeyAuthentication=no -oPasswordAuthentication=yes",
    )
    host.set_password(PASSWORD)
    return host


@needs_lab
def test_ping_with_both_passwords(lab_hosts: LabHosts, workspace: Path, isolated_home: Path) -> None:
    host = start_host(lab_hosts)
    inventory = write_inventory(workspace / "lab.yaml", [host], fleet_become=True)
    terminal = Terminal(["ping", "-i", str(inventory), "-kK"], PROMPTS, workspace, {"COLUMNS": "120"})
    code, out, err = terminal.wait()

    assert code == 0, out + err
    assert "1/1 host ok." in out
    assert [word for word in ("password", "root", "docker") if word not in out] == []
    assert PASSWORD not in terminal.screen.decode() + out + err


@needs_lab
def test_one_prompt_serves_all_hosts_and_json_stays_clean(
    lab_hosts: LabHosts, workspace: Path, isolated_home: Path
) -> None:
    hosts = [start_host(lab_hosts), start_host(lab_hosts)]
    inventory = write_inventory(workspace / "lab.yaml", hosts, fleet_runtime="native")
    terminal = Terminal(["ping", "-i", str(inventory), "-k", "--json"], {"SSH password: ": PASSWORD}, workspace)
    code, out, _ = terminal.wait()

    pongs = json.loads(out)["hosts"]
    assert code == 3  # a lab's host has no Python: they were reached, and that was found
    assert [pong["reason"] for pong in pongs] == ["python_missing"] * 2
    assert terminal.screen.count(b"password") == 1


def test_without_a_terminal_nothing_begins(workspace: Path, run_fleet: RunFleet) -> None:
    text = "all: {hosts: {gpu01: {ansible_host: 192.0.2.1, fleet_become: true}}}"
    (workspace / "lab.yaml").write_text(text)
    for option in ("--ask-pass", "--ask-become-pass"):
        for command in ("run", "ping", "clean"):
            done = run_fleet(command, "-i", "lab.yaml", option, stdin=f"{PASSWORD}\n")
            assert done.returncode == 2
            assert f"fleet: {option}: there is no terminal to ask on" in done.stderr
            assert PASSWORD not in done.stdout + done.stderr
    assert not (workspace / "reports").exists()


def test_nothing_is_asked_that_no_host_wants(workspace: Path, run_fleet: RunFleet) -> None:
    (workspace / "here.yaml").write_text(HERE)
    done = run_fleet("ping", "-i", "here.yaml", "-k", "-K", "--json")
    assert done.returncode == 0, done.stderr
    assert "--ask-pass asks for nothing, for no host is reached over SSH." in done.stderr
    assert "--ask-become-pass asks for nothing, for no host has fleet_become: true." in done.stderr


@pytest.mark.needs("setsid")
def test_an_empty_password_is_none(workspace: Path, isolated_home: Path) -> None:
    (workspace / "lab.yaml").write_text("all: {hosts: {gpu01: {ansible_host: 192.0.2.1}}}")
    code, out, err = Terminal(["ping", "-i", "lab.yaml", "-k"], {"SSH password: ": ""}, workspace).wait()
    assert (code, out) == (2, "")
    assert "fleet: --ask-pass: no password was typed" in err


@pytest.mark.needs("setsid")
def test_ctrl_c_at_the_prompt(workspace: Path, isolated_home: Path) -> None:
    (workspace / "lab.yaml").write_text("all: {hosts: {gpu01: {ansible_host: 192.0.2.1}}}")
    code, out, err = Terminal(["ping", "-i", "lab.yaml", "-k"], {"SSH password: ": "\x03"}, workspace).wait()
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_a_dry_run_shows_who_becomes_root_and_asks_nothing(workspace: Path, run_fleet: RunFleet) -> None:
    (workspace / "lab.yaml").write_text(
        "all: {vars: {fleet_devices: cpu}, hosts: {a1: {fleet_become: true}, b1: {fleet_become: no}, c1: }}"
    )
    done = run_fleet("run", "-i", "lab.yaml", "-s", "smoke", "-kK", "--dry-run")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line[:2] in ("ho", "a1", "b1", "c1")][:4]
    assert rows[0][:4] == ["host", "address", "as", "devices"]
    assert [row[:3] for row in rows[1:]] == [["a1", "a1", "root"], ["b1", "b1", "CPU"], ["c1", "c1", "CPU"]]
