"""The lab itself: hosts come up as asked, break as asked, and leave nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, LabHosts
from tests.lab import engine
from tests.lab.engine import docker
from tests.lab.hosts import HostOptions, LabHost
from tests.lab.inventory import write_inventory, write_known_hosts
from tests.lab.lab import LABS, Lab, list_labs, sweep_abandoned

pytestmark = pytest.mark.needs("root", "ssh", "docker")

RUN_TENSORFLOW = "import tensorflow as tf; print('sum', int(tf.reduce_sum(tf.ones((3, 3)))))"


def test_three_hosts_are_machines_of_their_own(lab_hosts: LabHosts) -> None:
    hosts = lab_hosts(3)

    said = [h.run_ssh("sh", "-c", "hostname; cat /etc/machine-id; id -u; command -v python3").stdout for h in hosts]

    lines = [text.decode().split() for text in said]
    assert [line[0] for line in lines] == [h.alias for h in hosts]
    assert [line[2] for line in lines] == [str(h.uid) for h in hosts]
    assert all(len(line) == 3 for line in lines), "a host must have no python3"
    for distinct in ({line[1] for line in lines}, {h.address for h in hosts}, {h.host_key for h in hosts}):
        assert len(distinct) == 3


def test_a_host_offers_the_key_that_its_line_says(lab_hosts: LabHosts, tmp_path: Path) -> None:
    one, other = lab_hosts(2)

    other.known_hosts.write_text(f"{other.address} {one.host_key}\n")
    done = other.run_ssh("true")

    assert done.returncode == 255
    assert b"HOST IDENTIFICATION HAS CHANGED" in done.stderr
    scanned = subprocess.run(["ssh-keyscan", "-t", "ed25519", one.address], capture_output=True, text=True).stdout
    assert scanned == write_known_hosts(tmp_path / "k", [one]).read_text().splitlines(keepends=True)[0]


def test_a_host_runs_the_stand_in_like_nvidias_image(lab_hosts: LabHosts, tensorflow_image: str) -> None:
    host = lab_hosts(1)[0]
    (host.workdir / "job").mkdir(mode=0o700)
    os.chown(host.workdir / "job", host.uid, host.uid)
    argv = ["docker", "run", "--name", f"fleet-{host.alias}", "--network=none", "--user", f"{host.uid}:{host.uid}"]
    argv += ["--volume", f"{host.workdir}/job:/job", tensorflow_image, "python", "-c"]

    done = host.run_ssh(*argv, f"open('/job/out', 'w').write('here'); {RUN_TENSORFLOW}", timeout_s=120)

    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "\nNVIDIA Release 25.02-tf2 (build 000000)\nTensorFlow Version 2.21.0\n" in text
    assert "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available." in text
    assert "NOTE: The SHMEM allocation limit is set to the default of 64MB." in text
    assert text.endswith("\nsum 9\n"), "the program's output comes after the banner"
    assert host.exec("cat", f"{host.workdir}/job/out") == "here"
    assert (host.workdir / "job/out").stat().st_uid == host.uid
    assert host.list_jobs() == [f"fleet-{host.alias}"]


def test_the_stand_in_carries_nvidias_environment(tensorflow_image: str) -> None:
    shown = docker("image", "inspect", "--format", "{{json .Config}}", tensorflow_image)
    config = yaml.safe_load(shown)

    names = {variable.partition("=")[0] for variable in config["Env"]}
    assert names >= {"NVIDIA_TENSORFLOW_VERSION", "NVIDIA_VISIBLE_DEVICES", "CUDA_CACHE_DISABLE", "BASH_ENV", "LC_ALL"}
    assert not {name for name in names if name.startswith("PIP_")}, "this machine's package index stays out"
    assert config["WorkingDir"] == "/workspace"
    assert not config.get("User"), "root"
    assert config["Entrypoint"] == ["/opt/nvidia/nvidia_entrypoint.sh"]


LACKS: list[tuple[HostOptions, str, str]] = [
    ({"docker": False}, "docker ps", "docker: not found"),
    ({"socket": False}, "docker ps", "Cannot connect to the Docker daemon"),
    ({"docker_permission": False}, "docker ps", "permission denied while trying to connect"),
    ({"workdir_size": "1m"}, "head -c 2000000 /dev/zero >big", "No space left on device"),
    ({"workdir_options": "noexec"}, "echo true >x; chmod +x x; ./x", "Permission denied"),
    ({"workdir_options": "ro"}, "echo true >x", "Read-only file system"),
    ({"workdir_owner": "root"}, "echo true >x", "Permission denied"),
]


@pytest.mark.parametrize(("how", "command", "complaint"), LACKS)
def test_what_is_missing_is_really_missing(lab: Lab, how: HostOptions, command: str, complaint: str) -> None:
    host = lab.add_hosts(1, **how)[0]
    try:
        done = host.run_ssh("sh", "-c", f"cd {host.workdir} && {command}")
    finally:
        lab.remove_hosts([host])
    assert done.returncode != 0
    assert complaint in done.stderr.decode()


def test_login_shell_bashrc_and_nvidia_smi_are_as_asked(lab_hosts: LabHosts, tmp_path: Path) -> None:
    replay = tmp_path / "replay"
    replay.write_text("#!/bin/sh\necho 'GPU 0: recorded'\n")

    noisy = lab_hosts(1, bashrc="echo noise\n", nvidia_smi=replay)[0]
    shells = [lab_hosts(1, shell=shell)[0] for shell in ("/usr/bin/fish", "/bin/tcsh", "/bin/zsh")]

    assert noisy.run_ssh("nvidia-smi", "-L").stdout == b"noise\nGPU 0: recorded\n"
    seen = [host.run_ssh("sh", "-c", "ps -o comm= -p $PPID").stdout.decode().strip() for host in shells]
    assert all(name in {"fish", "tcsh", "zsh", "sshd"} for name in seen)
    assert [host.exec("getent", "passwd", "bench").rpartition(":")[2] for host in shells] == [
        "/usr/bin/fish",
        "/bin/tcsh",
        "/bin/zsh",
    ]
    assert shells[0].run_ssh("set", "x", "1").returncode == 0, "fish has `set`, with its own meaning"


def test_killed_connections_leave_what_was_detached(lab_hosts: LabHosts) -> None:
    host = lab_hosts(1)[0]
    host.run_ssh("sh", "-c", "setsid sleep 300 >/dev/null 2>&1 </dev/null &")
    waiting = _start_over_ssh(host, "echo ready; sleep 300")

    host.kill_connections()

    assert waiting.wait(timeout=20) == 255
    assert host.exec("pgrep", "-c", "-x", "sleep") == "2", "sshd does not kill what it started"
    assert host.run_ssh("true").returncode == 0
    assert "Accepted publickey for bench" in host.read_log()


def _start_over_ssh(host: LabHost, text: str) -> subprocess.Popen[bytes]:
    """A command that runs on over ssh; returns when it has printed its first line."""
    argv = ["ssh", "-F", "none", "-i", str(host.private_key), "-o", f"UserKnownHostsFile={host.known_hosts}"]
    process = subprocess.Popen([*argv, f"{host.user}@{host.address}", text], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    return process


def test_faults_come_and_go(lab_hosts: LabHosts) -> None:
    host = lab_hosts(1)[0]

    for break_it, mend_it in ((host.drop_packets, host.accept_packets), (host.pause, host.unpause)):
        break_it()
        assert not _greets(host)
        mend_it()
        assert _greets(host)

    host.stop_docker()
    assert b"Is the docker daemon running" in host.run_ssh("docker", "ps").stderr
    host.start_docker()
    assert host.run_ssh("docker", "ps").returncode == 0

    machine_id = host.run_ssh("cat", "/etc/machine-id").stdout
    host.stop()
    assert not _greets(host)
    host.start()
    assert host.run_ssh("cat", "/etc/machine-id").stdout == machine_id


def _greets(host: LabHost) -> bool:
    try:
        with socket.create_connection((host.address, host.port), 1.5) as connection:
            return connection.recv(8).startswith(b"SSH-2.0")
    except OSError:
        return False


def test_hosts_reach_each_other(lab_hosts: LabHosts) -> None:
    jump, target = lab_hosts(2)

    done = jump.run_ssh("ssh-keyscan", "-t", "ed25519", target.address)

    assert target.host_key in done.stdout.decode()


def test_the_inventory_says_how_to_reach_the_hosts(lab_hosts: LabHosts, tmp_path: Path) -> None:
    one, other = lab_hosts(2)
    overrides = {other.alias: {"fleet_image": "absent:1"}}

    path = write_inventory(tmp_path / "lab.yaml", [one, other], overrides=overrides, fleet_image="x:1", fleet_ipc=None)

    everything = yaml.safe_load(path.read_text())["all"]
    assert list(everything["hosts"]) == [one.alias, other.alias]
    assert everything["hosts"][other.alias]["fleet_image"] == "absent:1"
    assert everything["vars"]["fleet_image"] == "x:1"
    assert "fleet_ipc" not in everything["vars"]
    options = everything["vars"]["ansible_ssh_common_args"].split()
    host = everything["hosts"][one.alias]
    argv = ["ssh", "-F", "none", *options, "-o", "BatchMode=yes", "-i", host["ansible_ssh_private_key_file"]]
    argv += ["-p", str(host["ansible_port"]), f"{host['ansible_user']}@{host['ansible_host']}", "echo", "reached"]
    assert subprocess.run(argv, capture_output=True, timeout=30).stdout == b"reached\n"


def test_nothing_is_left(tensorflow_image: str) -> None:
    made = Lab()
    host = made.add_hosts(1, workdir_size="1m")[0]
    argv = ["docker", "run", "--detach", "--network=none", "--volume", f"{host.workdir}:/w", tensorflow_image]
    assert host.run_ssh(*argv, "sleep", "300").returncode == 0
    assert [len(kind) for kind in _find_traces(made.id)] == [2, 1, 1, 1, 1]

    made.take_down()

    assert [len(kind) for kind in _find_traces(made.id)] == [0, 0, 0, 0, 0]


def _find_traces(lab: str) -> list[list[str]]:
    """Containers, networks, links, mounts and directories of one lab."""
    form = "{{.Names}} {{.Mounts}}"
    kinds = [
        docker("ps", "--all", "--no-trunc", "--format", form).splitlines(),
        docker("network", "ls", "--format", "{{.Name}}").split(),
        [path.name for path in Path("/sys/class/net").iterdir()],
        Path("/proc/self/mountinfo").read_text().splitlines(),
        [path.name for path in LABS.iterdir()],
    ]
    return [[line for line in kind if lab in line] for kind in kinds]


def test_a_lab_whose_process_was_killed_is_swept_away() -> None:
    text = (
        "import time; from tests.lab.lab import Lab; l = Lab(); l.add_hosts(1); print(l.id, flush=True); time.sleep(99)"
    )
    process = subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        identifier = process.stdout.readline().strip()
    sweep_abandoned()
    assert identifier in list_labs(), "its process lives"

    process.kill()
    process.wait()
    sweep_abandoned()

    assert identifier not in list_labs()
    assert docker("ps", "--all", "--quiet", "--filter", f"label=fleet-lab={identifier}") == ""


def test_a_shell_can_have_a_lab_too() -> None:
    def call(*args: str) -> str:
        argv = [sys.executable, "-m", "tests.lab", *args]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout

    inventory = Path(call("up", "1").strip())
    identifier = inventory.parent.name

    assert list(yaml.safe_load(inventory.read_text())["all"]["hosts"]) == ["lab1"]
    assert f"{identifier} kept" in call("list").splitlines()
    call("down", identifier)

    assert identifier not in list_labs()


def test_setup_is_a_no_op_when_all_is_there() -> None:
    pid = Path("/run/fleet-lab/docker.pid").read_text()
    started = time.monotonic()

    done = subprocess.run([str(engine.SETUP)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert Path("/run/fleet-lab/docker.pid").read_text() == pid
    assert time.monotonic() - started < 20
