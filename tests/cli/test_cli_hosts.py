"""`fleet ping` and `fleet hosts trust` against real SSH hosts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, LabHosts, RunFleet
from tests.lab.hosts import LabHost, make_key
from tests.lab.inventory import write_inventory, write_known_hosts
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("ssh", "docker")


def write_strange(workspace: Path, hosts: list[LabHost]) -> tuple[Path, Path]:
    """An inventory of hosts whose keys nobody has seen, and the known_hosts file that does not exist yet."""
    keys = workspace / "ssh" / "known_hosts"
    return write_inventory(workspace / "lab.yaml", hosts, known_hosts=keys), keys


def write_jump(workspace: Path, jump: LabHost, behind: LabHost, keys: Path) -> Path:
    """An inventory in which one host is reached through the other, whose key only the ssh_config names."""
    config = workspace / "ssh_config"
    config.write_text(
        f"Host gate\n  HostName {jump.address}\n  Port {jump.port}\n  User {jump.user}\n"
        f"Host *\n  IdentityFile {jump.private_key}\n  UserKnownHostsFile {keys}\n  GlobalKnownHostsFile /dev/null\n"
    )
    return write_inventory(
        workspace / "lab.yaml", [behind], ansible_ssh_common_args=f"-F {config} -o ProxyJump=gate", known_hosts=keys
    )


def test_ping_says_how_each_host_is_reached(lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    hosts = lab_hosts(2)
    inventory = write_inventory(workspace / "lab.yaml", hosts)
    shown = run_fleet("ping", "-i", str(inventory), env={"COLUMNS": "80"})
    told = run_fleet("ping", "-i", str(inventory), "--json")

    assert (shown.returncode, told.returncode) == (0, 0), shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert "2/2 hosts ok." in shown.stdout
    document = json.loads(told.stdout)
    assert document["schema"] == "fleet.ping/1"
    for host, pong in zip(hosts, document["hosts"], strict=True):
        assert re.search(
            rf"{host.alias} +ok +\d+ ms +{host.user}@{host.address} +…/{host.private_key.name}", shown.stdout
        )
        assert re.search(rf"^{host.alias} .*docker \d+\.", shown.stdout, re.MULTILINE)
        assert (pong["alias"], pong["status"], pong["image"][:7]) == (host.alias, "ok", "sha256:")
        assert pong["route"]["key"] == str(host.private_key)
        assert re.fullmatch("SHA256:.{43}", pong["route"]["key_fingerprint"])
        assert 0 < pong["latency_s"] < 30
        assert list(host.workdir.iterdir()) == []


def test_ping_tells_hosts_out_of_reach_from_broken_ones(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    good, unknown, stopped = [*lab_hosts(2), *lab_hosts(1, socket=False)]
    keys = write_known_hosts(workspace / "known_hosts", [good, stopped])
    inventory = write_inventory(workspace / "lab.yaml", [good, unknown, stopped], known_hosts=keys)
    everyone = run_fleet("ping", "-i", str(inventory), env={"COLUMNS": "80"})
    reachable = run_fleet("ping", "-i", str(inventory), "-l", f"all:!{stopped.alias}", "--json")

    assert everyone.returncode == 3
    assert "1/3 hosts ok." in everyone.stdout
    assert re.search(rf"✖ {unknown.alias}\n.*fleet\s+hosts trust", everyone.stdout, re.DOTALL)
    assert re.search(rf"✖ {stopped.alias}\n.*systemctl\s+start\s+docker", everyone.stdout, re.DOTALL)
    problems = re.findall(r"✖ \S+ (.+?) → ", " ".join(everyone.stdout.split()))
    assert [(said[0].islower(), said[-1]) for said in problems] == [(False, ".")] * 2
    assert reachable.returncode == 4
    answers = {pong["alias"]: pong for pong in json.loads(reachable.stdout)["hosts"]}
    assert (answers[good.alias]["status"], answers[unknown.alias]["status"]) == ("ok", "host_key_unknown")
    assert f"fleet hosts trust -i {inventory} --limit {unknown.alias}" in answers[unknown.alias]["hint"]


def test_ping_of_this_machine(workspace: Path, run_fleet: RunFleet) -> None:
    (workspace / "here.yaml").write_text(
        "all: {hosts: {here: {ansible_connection: local, fleet_runtime: native, fleet_devices: cpu}}}"
    )
    done = run_fleet("ping", "-i", "here.yaml")

    assert done.returncode in {0, 3}  # 3: this machine lacks one of the tools that a job needs
    assert re.search("here +ok .*this machine .*native Python|✖ here", done.stdout)
    assert run_fleet("hosts", "trust", "-i", "here.yaml").returncode == 0


def has_socket(pid: int) -> bool:
    """Whether it has connected to something, or is about to."""
    with contextlib.suppress(OSError):
        return any(str(link.readlink()).startswith("socket:") for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_ctrl_c_ends_a_ping_at_once(lab_hosts: LabHosts, workspace: Path, isolated_home: Path) -> None:
    (host,) = lab_hosts(1)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    host.pause()
    process = subprocess.Popen(
        [sys.executable, "-m", "fleet", "ping", "-i", str(inventory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: has_socket(process.pid))
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        host.unpause()

    assert process.returncode == 130, err
    assert time.monotonic() - begin < 10
    assert (out, err) == ("", "interrupted; not every host has answered yet.\n")


@pytest.mark.parametrize(
    ("answer", "says"),
    [("n\n", "Nothing was remembered"), ("", "Nobody was there to answer.*--yes"), ("\n", "Nothing")],
)
def test_trust_remembers_nothing_without_a_yes(
    answer: str, says: str, lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1)
    inventory, keys = write_strange(workspace, [host])
    done = run_fleet("hosts", "trust", "-i", str(inventory), stdin=answer)

    assert done.returncode == 4
    assert re.search(f"Remember 1 new key in {keys}.*{says}", done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr
    assert not keys.exists()


def test_trust_shows_keys_and_remembers_them_once(lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    first, second = lab_hosts(2)
    inventory, keys = write_strange(workspace, [first, second])
    arguments = ("hosts", "trust", "-i", str(inventory))
    one = run_fleet(*arguments, "--limit", first.alias, stdin="y\n")
    both = run_fleet(*arguments, "--yes", env={"COLUMNS": "80"})
    again = run_fleet(*arguments)

    assert [done.returncode for done in (one, both, again)] == [0, 0, 0]
    assert f"1 key added to {keys}" in one.stderr
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", "-"], input=first.host_key, capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert re.search(rf"{first.alias} +new +ssh-ed25519 +{re.escape(fingerprint)}", one.stdout)
    assert re.search(rf"{first.alias} +known .*\n{second.alias} +new ", both.stdout), both.stdout
    assert max(len(line) for line in both.stdout.splitlines()) <= 80
    assert "Every key is known already." in again.stderr
    assert keys.read_text() == f"{first.address} {first.host_key}\n{second.address} {second.host_key}\n"
    assert keys.stat().st_mode & 0o777 == 0o600
    assert run_fleet("ping", "-i", str(inventory)).returncode == 0


def test_trust_never_replaces_a_changed_key(lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    changed, new = lab_hosts(2)
    inventory, keys = write_strange(workspace, [changed, new])
    keys.parent.mkdir()
    old = f"{changed.address} {make_key(workspace / 'other', '')}\n"
    keys.write_text(old)
    done = run_fleet("hosts", "trust", "-i", str(inventory), "--yes")

    assert done.returncode == 3
    assert re.search(rf"{changed.alias} +CHANGED.*\n{new.alias} +new", done.stdout)
    assert f"{keys}:1" in done.stdout
    assert f"ssh-keygen -R {changed.address} -f {keys}" in done.stdout.replace("\n   ", "")
    assert keys.read_text() == f"{old}{new.address} {new.host_key}\n"


def test_trust_says_which_hosts_showed_no_key(lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet) -> None:
    good, gone = lab_hosts(2)
    inventory, keys = write_strange(workspace, [good, gone])
    gone.stop()
    done = run_fleet("hosts", "trust", "-i", str(inventory), "--yes")

    assert done.returncode == 4
    assert f"✖ {gone.alias}" in done.stdout
    assert keys.read_text() == f"{good.address} {good.host_key}\n"


def test_hosts_behind_a_jump_host_are_trusted_one_after_the_other(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    jump, behind = lab_hosts(2)
    keys = workspace / "known_hosts"
    inventory = write_jump(workspace, jump, behind, keys)
    arguments = ("hosts", "trust", "-i", str(inventory), "--yes")
    first, second, third = run_fleet(*arguments), run_fleet(*arguments), run_fleet(*arguments)

    assert [done.returncode for done in (first, second, third)] == [4, 0, 0], first.stderr
    assert f"{jump.address} (jump host)" in first.stdout
    assert f"Run the command again for the hosts behind {jump.address}." in first.stderr
    assert keys.read_text() == f"{jump.address} {jump.host_key}\n{behind.address} {behind.host_key}\n"
    answered = run_fleet("ping", "-i", str(inventory))
    assert answered.returncode == 0, answered.stdout
    assert f"{jump.address}:22" in answered.stdout
