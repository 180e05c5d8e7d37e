"""One machine of a lab: a container with sshd, and the ways to look into it and to break it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from tests.lab.engine import DOCKER_HOST, LabError, docker, find_program

PORT = 22
USER = "bench"
ENGINE_SOCKET = "/run/docker.sock"
"""Where the host's docker client looks. A link, so that one host's engine can go away and come back."""


class HostOptions(TypedDict, total=False):
    """How a host differs from a good one. Everything is really so on the host, nothing is pretended."""

    docker: bool
    """False: there is no docker client."""
    socket: bool
    """False: the client is there, the engine is not."""
    docker_permission: bool
    """False: the user may not talk to the engine."""
    workdir_size: str
    """The work directory is a file system of this size, e.g. `1m`."""
    workdir_options: str
    """The work directory is a file system mounted so, e.g. `noexec` or `ro`."""
    workdir_owner: Literal["user", "root"]
    """`root`: the user cannot write there."""
    shell: str
    """Login shell: /bin/bash (the default), /bin/sh, /usr/bin/fish, /bin/tcsh, /bin/zsh, /usr/sbin/nologin."""
    bashrc: str
    """Text of ~/.bashrc, which Debian's bash reads for commands over SSH too."""
    engine_socket: Path
    """Of another engine than the lab's: see `tests.lab.spare_engine`."""
    sshd: str
    """Options of sshd that stand over the lab's own, e.g. `-oPasswordAuthentication=yes`."""
    sudoers: str
    """What sudo lets the user do, e.g. `bench ALL=(ALL) ALL`; nothing by default."""
    nvidia_smi: Path
    """A program that replays what a real nvidia-smi printed; it becomes /usr/bin/nvidia-smi."""


@dataclass(frozen=True)
class LabHost:
    """A host that is up. The paths are the same on this machine and on the host."""

    alias: str
    address: str
    address6: str | None
    """None: this machine's kernel has no IPv6."""
    port: int
    user: str
    uid: int
    private_key: Path
    """Of the user, on this machine; no passphrase."""
    host_key: str
    """Public: `ssh-ed25519 AAAA…`."""
    known_hosts: Path
    """On this machine: a file with this host's line alone."""
    home: Path
    workdir: Path
    container: str
    """Name of the container that is the host."""
    docker_host: str = DOCKER_HOST
    """The engine the host uses, from this machine."""

    def run_ssh(self, *command: str, stdin: bytes = b"", timeout_s: float = 60) -> subprocess.CompletedProcess[bytes]:
        """Run a command on the host with the system's own ssh client; the words are quoted for a POSIX shell."""
        argv = ["ssh", "-F", "none", "-p", str(self.port), "-i", str(self.private_key)]
        for option in ("BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"):
            argv += ["-o", option]
        argv += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=none"]
        argv += [f"{self.user}@{self.address}", "--", shlex.join(command)]
        return subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s)

    def exec(self, *argv: str, stdin: bytes = b"", timeout_s: float = 60) -> str:
        """What the program prints when root runs it on the host. LabError when it fails."""
        return docker("exec", "-i", self.container, *argv, stdin=stdin, timeout_s=timeout_s)

    def set_password(self, password: str, user: str = USER) -> None:
        """Give an account a password: sudo takes it, and sshd where it is told to."""
        self.exec("chpasswd", stdin=f"{user}:{password}\n".encode())

    def read_log(self) -> str:
        """What the host's sshd has logged so far."""
        done = subprocess.run(
            ["docker", "--host", DOCKER_HOST, "logs", self.container], capture_output=True, timeout=60
        )
        return (done.stdout + done.stderr).decode(errors="replace")

    def list_jobs(self) -> list[str]:
        """Names of the containers, running or not, that use a directory of this host: what was started through it."""
        return [name for name in list_containers_below(self.workdir.parent) if name != self.container]

    def kill_connections(self) -> None:
        """Kill the processes that serve the user's SSH connections. What was started detached lives on."""
        self.exec("sh", "-c", 'pkill -KILL -u "$1" ^sshd || test $? = 1', "sh", self.user)  # 1: there is none

    def stop(self) -> None:
        """Switch the host off: its sshd and everything the user runs on it die, containers on the engine do not."""
        docker("stop", "--time", "0", self.container)

    def start(self) -> None:
        """Switch the host on again, with the same address, keys and files; waits until its sshd answers."""
        docker("start", self.container)
        self.wait_until_up()

    def pause(self) -> None:
        """Freeze every process of the host. Its kernel goes on accepting connections that nobody serves."""
        docker("pause", self.container)

    def unpause(self) -> None:
        docker("unpause", self.container)

    def drop_packets(self) -> None:
        """Cut the host off as a broken network does, both ways: nothing comes through, no error either."""
        self._call_iptables("-I", "INPUT", "1", "!", "-i", "lo", "-j", "DROP")
        self._call_iptables("-I", "OUTPUT", "1", "!", "-o", "lo", "-j", "DROP")

    def accept_packets(self) -> None:
        """Undo one `drop_packets`."""
        self._call_iptables("-D", "OUTPUT", "!", "-o", "lo", "-j", "DROP")
        self._call_iptables("-D", "INPUT", "!", "-i", "lo", "-j", "DROP")

    def lose_packets(self, share: float) -> None:
        """From now on this share of what comes in is lost, by chance."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", str(share))
        self._call_iptables("-I", "INPUT", "1", "!", "-i", "lo", *chance, "-j", "DROP")

    def slow_down(self, rate: str) -> None:
        """From now on no more than this comes through, e.g. `64kbit`, in each direction."""
        index = self.exec("cat", "/sys/class/net/eth0/iflink")
        (link,) = (
            path.name for path in Path("/sys/class/net").iterdir() if (path / "ifindex").read_text() == f"{index}\n"
        )
        shape = ["root", "tbf", "rate", rate, "burst", "4kb", "latency", "400ms"]
        self._call_in_network("tc", "qdisc", "add", "dev", "eth0", *shape)
        subprocess.run([find_program("tc") or "tc", "qdisc", "add", "dev", link, *shape], check=True, timeout=30)

    def freeze_sshd(self) -> None:
        """Stop every process of sshd, those of connections too; what they have started goes on."""
        self._signal_sshd(signal.SIGSTOP)

    def thaw_sshd(self) -> None:
        self._signal_sshd(signal.SIGCONT)

    def _signal_sshd(self, number: signal.Signals) -> None:
        # From outside: the first process of a container takes no SIGSTOP from within.
        for line in docker("top", self.container, "-eo", "pid,comm").splitlines():
            pid, name = line.split(None, 1)
            if name.startswith("sshd"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), number)

    def stop_docker(self) -> None:
        """The engine is gone for this host's client, as when its service is stopped. What runs on it goes on."""
        self.exec("rm", "-f", ENGINE_SOCKET)

    def start_docker(self) -> None:
        """Undo `stop_docker`."""
        self.exec("ln", "-sfn", "/run/fleet-lab-engine/docker.sock", ENGINE_SOCKET)

    def wait_until_up(self, timeout_s: float = 30) -> None:
        """Return when the host's sshd greets.

        Raises:
            LabError: it does not within the time; the message has the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 2) as connection:
                if connection.recv(8).startswith(b"SSH-2.0"):
                    return
            time.sleep(0.05)
        raise LabError(f"{self.alias}: sshd does not answer after {timeout_s:g} s: {self.read_log()[-1000:]}")

    def _call_iptables(self, *rule: str) -> None:
        self._call_in_network("iptables", "--wait", *rule)

    def _call_in_network(self, program: str, *words: str) -> None:
        # In the host's network and with this machine's program: the host itself has neither the right nor the tool.
        pid = docker("inspect", "--format", "{{.State.Pid}}", self.container)
        argv = ["nsenter", f"--net=/proc/{pid}/ns/net", find_program(program) or program, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise LabError(f"{self.alias}: {program} failed: {done.stderr.strip()}")


def list_containers_below(directory: Path) -> list[str]:
    """Names of the engine's containers, running or not, that mount something at or below the directory."""
    identifiers = docker("ps", "--all", "--quiet").split()
    if not identifiers:
        return []
    form = "{{.Name}}{{range .Mounts}}\t{{.Source}}{{end}}"
    # A container that goes away between the two calls makes inspect fail, and all others be printed.
    argv = ["docker", "--host", DOCKER_HOST, "inspect", "--format", form, *identifiers]
    lines = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.splitlines()
    rows = [line.split("\t") for line in lines if line]
    return [name.lstrip("/") for name, *sources in rows if any(_is_below(source, directory) for source in sources)]


def _is_below(path: str, directory: Path) -> bool:
    return Path(path).is_relative_to(directory)


def make_key(path: Path, comment: str, passphrase: str = "") -> str:
    """Make an ed25519 key pair at `path` and `path.pub`; returns the public line without its comment."""
    argv: Sequence[str] = ("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", comment, "-f", str(path))
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])
