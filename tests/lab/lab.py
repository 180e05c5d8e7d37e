"""A lab: a network of its own and the hosts on it, and nothing left of them when it is taken down."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from tests.lab import engine, images
from tests.lab.engine import LAB_DIR, SOCKET, LabError, docker, find_program, locked
from tests.lab.hosts import PORT, USER, HostOptions, LabHost, list_containers_below, make_key

LABS = LAB_DIR / "labs"
MAX_HOSTS = 200
KEPT = "kept"
"""Owner of a lab that outlives the process that made it."""

_NETWORK_ATTEMPTS = 40
_REMOVE_ATTEMPTS = 10


@dataclass(frozen=True)
class _Network:
    name: str
    bridge: str
    prefix4: str
    """`198.18.7.`: of the range set aside for benchmarks, which no real network uses."""
    prefix6: str | None
    """`fd66:6c65:6574:7::`, of the private range."""


class Lab:
    """Hosts come with `add_hosts` and go with `remove_hosts` or, all of them, with `take_down`.

    Args:
        kept: the lab stays when this process ends. Otherwise it is swept away by the next lab if this process dies.

    Raises:
        LabError: the engine, the images or the network cannot be had.
    """

    def __init__(self, *, kept: bool = False) -> None:
        engine.start()
        sweep_abandoned()
        self.host_image = images.build_host_image()
        self.id = secrets.token_hex(3)
        self.directory = LABS / self.id
        self.directory.mkdir(parents=True, mode=0o711)
        (self.directory / "owner").write_text(KEPT if kept else _name_process(os.getpid()))
        self._hosts: dict[str, LabHost] = {}
        self._count = 0
        try:
            self._network = _create_network(self.id)
            self.private_key = self.directory / "id_ed25519"
            self._public_key = make_key(self.private_key, "fleet lab")
        except BaseException:
            take_down(self.id)
            raise

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        return tuple(self._hosts.values())

    def add_hosts(self, count: int, **how: Unpack[HostOptions]) -> list[LabHost]:
        """Start hosts that are all alike, and wait until each one's sshd greets."""
        if self._count + count > MAX_HOSTS:
            raise LabError(f"a lab has room for {MAX_HOSTS} hosts in its life, and {self._count} are used up")
        numbers = range(self._count + 1, self._count + count + 1)
        self._count += count
        with ThreadPoolExecutor(8) as pool:
            hosts = list(pool.map(lambda number: self._start_host(number, how), numbers))
        self._hosts.update({host.alias: host for host in hosts})
        return hosts

    def remove_hosts(self, hosts: list[LabHost]) -> None:
        """Take hosts away, with the jobs that were started through them and their directories."""
        for host in hosts:
            _remove_directory(self.directory / host.alias)
            self._hosts.pop(host.alias, None)

    def take_down(self) -> None:
        """Take everything away."""
        self._hosts.clear()
        take_down(self.id)

    def _start_host(self, number: int, how: HostOptions) -> LabHost:
        alias = f"lab{number}"
        directory = self.directory / alias
        directory.mkdir(mode=0o755)
        host_key = _furnish(directory, 1000 + number, how, self._public_key)
        network = self._network
        host = LabHost(
            alias=alias,
            address=f"{network.prefix4}{10 + number}",
            address6=None if network.prefix6 is None else f"{network.prefix6}{10 + number:x}",
            port=PORT,
            user=USER,
            uid=1000 + number,
            private_key=self.private_key,
            host_key=host_key,
            known_hosts=directory / "known_hosts",
            home=directory / "home",
            workdir=directory / "work",
            container=f"lab-{self.id}-{alias}",
            docker_host=f"unix://{how.get('engine_socket', SOCKET)}",
        )
        host.known_hosts.write_text(f"{host.address} {host_key}\n")
        docker("run", *self._describe(host, how), self.host_image)
        host.wait_until_up()
        return host

    def _describe(self, host: LabHost, how: HostOptions) -> list[str]:
        """Arguments of `docker run` that make the container this host."""
        directory, socket = host.workdir.parent, how.get("engine_socket", SOCKET)
        argv = ["--detach", "--name", host.container, "--hostname", host.alias, "--label", f"fleet-lab={self.id}"]
        argv += ["--network", self._network.name, "--ip", host.address]
        argv += ["--ip6", host.address6] if host.address6 else []
        variables = {
            "LAB_USER": host.user,
            "LAB_UID": str(host.uid),
            "LAB_HOME": str(host.home),
            "LAB_SHELL": how.get("shell", "/bin/bash"),
            "LAB_MACHINE_ID": secrets.token_hex(16),
            "LAB_SOCKET_GID": str(socket.stat().st_gid),
            "LAB_IN_DOCKER_GROUP": _say(how.get("docker_permission", True)),
            "LAB_DOCKER": _say(how.get("docker", True)),
            "LAB_SOCKET": _say(how.get("socket", True)),
            "LAB_SSHD": how.get("sshd", ""),
            "LAB_SUDOERS": how.get("sudoers", ""),
        }
        argv += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        mounts = {str(host.home): str(host.home), str(host.workdir): str(host.workdir)}
        mounts |= {str(directory / "ssh"): "/etc/fleet-lab:ro", str(socket.parent): "/run/fleet-lab-engine:ro"}
        mounts |= {str(directory / "nvidia-smi"): "/usr/bin/nvidia-smi:ro"} if "nvidia_smi" in how else {}
        return argv + [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}")]


def _furnish(directory: Path, uid: int, how: HostOptions, public_key: str) -> str:
    """Make the files and file systems a host is started with; returns its public host key."""
    home, workdir, ssh = directory / "home", directory / "work", directory / "ssh"
    for path in (home, workdir, ssh):
        path.mkdir(mode=0o755 if path == ssh else 0o700)
    size, options = how.get("workdir_size"), how.get("workdir_options", "")
    if size or options:
        given = ",".join(filter(None, [f"size={size}" if size else "", options, "mode=0700"]))
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"{given},uid={uid},gid={uid}", "tmpfs", str(workdir)], check=True
        )
    if how.get("workdir_owner") == "root":
        os.chown(workdir, 0, 0)
        workdir.chmod(0o755)
    elif not options:
        os.chown(workdir, uid, uid)
    if "bashrc" in how:
        (home / ".bashrc").write_text(how["bashrc"])
        os.chown(home / ".bashrc", uid, uid)
    os.chown(home, uid, uid)
    if "nvidia_smi" in how:
        shutil.copy(how["nvidia_smi"], directory / "nvidia-smi")
        (directory / "nvidia-smi").chmod(0o755)
    (ssh / "authorized_keys").write_text(public_key + "\n")
    return make_key(ssh / "ssh_host_ed25519_key", "")


def _create_network(lab: str) -> _Network:
    """A bridge of its own. Labs run side by side, so that a range may be taken: then the next one."""
    bridge = f"fleetlab{lab}"
    ipv6 = Path("/proc/net/if_inet6").exists()
    message = ""
    for third in random.sample(range(256), _NETWORK_ATTEMPTS):
        network = _Network(f"lab-{lab}", bridge, f"198.18.{third}.", f"fd66:6c65:6574:{third:x}::" if ipv6 else None)
        argv = ["--label", f"fleet-lab={lab}", "--subnet", f"{network.prefix4}0/24"]
        argv += ["--ipv6", "--subnet", f"{network.prefix6}/64"] if network.prefix6 else []
        argv += ["--opt", f"com.docker.network.bridge.name={bridge}"]
        try:
            docker("network", "create", *argv, network.name)
        except LabError as error:
            message = str(error)
            continue
        _let_hosts_talk(bridge, "-I")
        return network
    raise LabError(f"no network for the lab after {_NETWORK_ATTEMPTS} attempts: {message}")


def _let_hosts_talk(bridge: str, action: str) -> None:
    """Where another engine made the machine drop what it forwards, let the lab's own bridge through; `-D` undoes it."""
    iptables = find_program("iptables") or "iptables"
    rules = subprocess.run([iptables, "-S", "FORWARD"], capture_output=True, text=True).stdout.splitlines()
    ours = f"-A FORWARD -i {bridge} -o {bridge} -j ACCEPT"
    if (ours in rules) if action == "-D" else (rules[:1] == ["-P FORWARD DROP"]):
        subprocess.run([iptables, "--wait", action, "FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT"], check=True)


def take_down(lab: str) -> None:
    """Take a lab away by its id: hosts, jobs started through them, network, mounts, directories."""
    _remove_containers(lambda: _list_containers(f"label=fleet-lab={lab}"))
    _remove_directory(LABS / lab)
    if docker("network", "ls", "--quiet", "--filter", f"label=fleet-lab={lab}"):
        docker("network", "rm", f"lab-{lab}")
    _let_hosts_talk(f"fleetlab{lab}", "-D")
    if not list_labs():
        # The engine is the lab's alone: what is called like a job now belongs to nobody.
        _remove_containers(lambda: _list_containers("name=^fleet-"))


def list_labs() -> Mapping[str, str]:
    """The labs there are on this machine: id → owner."""
    owners = {path.parent.name: path.read_text() for path in LABS.glob("*/owner")}
    return dict(sorted(owners.items()))


def sweep_abandoned() -> None:
    """Take the labs away whose process died without doing so."""
    with locked("sweep"):
        for lab, owner in list_labs().items():
            if owner != KEPT and _name_process(int(owner.split()[0])) != owner:
                take_down(lab)


def _name_process(pid: int) -> str:
    """`pid start-time`, so that a later process of that number has another name; `pid gone` when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return f"{pid} gone"
    return f"{pid} {fields[19]}"


def _remove_containers(find: Callable[[], list[str]]) -> None:
    """Remove containers until none is found: a job may still be starting, or be removed by its own host meanwhile."""
    for attempt in range(_REMOVE_ATTEMPTS):
        names = find()
        if not names:
            return
        try:
            docker("rm", "--force", "--volumes", *names)
        except LabError:
            if attempt == _REMOVE_ATTEMPTS - 1:
                raise
            time.sleep(0.2)


def _list_containers(condition: str) -> list[str]:
    return docker("ps", "--all", "--quiet", "--filter", condition).split()


def _remove_directory(directory: Path) -> None:
    """Remove a directory, after the containers that use it and the file systems mounted in it."""
    _remove_containers(lambda: list_containers_below(directory))
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((m for m in mounts if Path(m).is_relative_to(directory)), reverse=True):
        subprocess.run(["umount", mount], check=True, capture_output=True)
    if directory.exists():
        shutil.rmtree(directory)


def _say(value: bool) -> str:
    return "yes" if value else "no"
