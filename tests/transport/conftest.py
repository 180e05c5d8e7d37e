"""A real sshd on the loopback interface, with users of its own for the login shells."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet.model.inventory import Connection
from fleet.transport.ssh import SshTransport

SHELLS = ("sh", "bash", "fish", "tcsh", "zsh")
SSHD = "/usr/sbin/sshd"


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)], check=True)
    return path


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


@dataclass
class Sshd:
    """One running sshd. Its directory is readable by its users."""

    folder: Path
    key: Path
    """A private key that it takes."""
    host_key: Path
    user: str
    host: str
    port: int
    process: subprocess.Popen[bytes]
    known_hosts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.known_hosts = self.folder / f"known_hosts-{self.port}"
        self.known_hosts.write_text(f"{self.name} {self.public_host_key}\n")

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}"

    @property
    def public_host_key(self) -> str:
        return " ".join(self.host_key.with_name(self.host_key.name + ".pub").read_text().split()[:2])

    def connection(self, *args: str, user: str | None = None, key: Path | None = None) -> Connection:
        """No ssh_config but what `args` say."""
        return Connection(
            host=self.host,
            port=self.port,
            user=user or self.user,
            private_key_file=str(key or self.key),
            ssh_args=args if "-F" in args else ("-F", "none", *args),
        )

    def descendants(self) -> list[int]:
        """The processes that serve its connections."""
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            with contextlib.suppress(OSError):  # it has ended
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
                queue += (more := [int(p) for p in children.split()])
                found += more
        return found

    def send(self, number: int) -> None:
        """A signal to it and all that it started."""
        for pid in [self.process.pid, *self.descendants()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        self.send(signal.SIGCONT)
        for pid in self.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.terminate()
        self.process.wait(timeout=10)


@dataclass
class Loopback:
    """Where sshds are started; users are `fleet<pid>-<shell>`."""

    folder: Path
    key: Path
    users: dict[str, str]
    running: list[Sshd] = field(default_factory=list)

    def start(self, *options: str, host: str = "127.0.0.1", host_key: Path | None = None, shell: str = "sh") -> Sshd:
        port = free_port(host)
        host_key = host_key or self.folder / "host_ed25519"
        config = self.folder / f"sshd_config-{port}"
        common = [
            f"Port {port}",
            f"ListenAddress {host}",
            f"HostKey {host_key}",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "StrictModes no",
            "UsePAM no",
            "PidFile none",
            "UseDNS no",
        ]
        # sshd keeps the first value of each directive.
        config.write_text("\n".join([*options, *common]) + "\n")
        log = (self.folder / f"log-{port}").open("wb")
        with log:
            process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=log)
        sshd = Sshd(self.folder, self.key, host_key, self.users[shell], host, port, process)
        self.running.append(sshd)
        wait_for_port(host, port)
        return sshd

    def stop(self, sshd: Sshd) -> None:
        self.running.remove(sshd)
        sshd.stop()


def wait_for_port(host: str, port: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    folder = Path(tempfile.mkdtemp(prefix="fleet-sshd-"))
    folder.chmod(0o755)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    key = make_key(folder / "id_ed25519")
    make_key(folder / "host_ed25519")
    shutil.copy(f"{key}.pub", folder / "authorized_keys")
    users: dict[str, str] = {}
    made = Loopback(folder, key, users)
    try:
        for shell in SHELLS:
            path = shutil.which(shell)
            if path is not None:
                users[shell] = f"fleet{os.getpid()}-{shell}"
                subprocess.run(["useradd", "-m", "-s", path, "-p", "*", users[shell]], check=True)
        yield made
    finally:
        for sshd in list(made.running):
            made.stop(sshd)
        for user in users.values():
            subprocess.run(["userdel", "-f", "-r", user], check=False, capture_output=True)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def sshd(loopback: Loopback) -> Sshd:
    """One for all tests that leave it as it is."""
    return loopback.start()


@pytest.fixture
def start_sshd(loopback: Loopback) -> Iterator[Callable[..., Sshd]]:
    """Starts sshds of the test's own."""
    before = list(loopback.running)
    yield loopback.start
    for one in [s for s in loopback.running if s not in before]:
        loopback.stop(one)


OpenTransport = Callable[..., SshTransport]


@pytest.fixture
def open_ssh() -> Iterator[OpenTransport]:
    """Makes transports, closes them, and finds no thread and no file descriptor left behind."""
    made: list[SshTransport] = []
    threads, descriptors = set(threading.enumerate()), count_descriptors()

    def make(connection: Connection, *known_hosts: Path, alias: str = "gpu01") -> SshTransport:
        made.append(SshTransport(alias, connection, known_hosts=[str(k) for k in known_hosts] if known_hosts else None))
        return made[-1]

    yield make
    for transport in made:
        transport.close()
    until = time.monotonic() + 2
    while left := [t for t in threading.enumerate() if t not in threads and t.name != "fleet-resolver"]:
        assert time.monotonic() < until, left
        time.sleep(0.01)
    assert count_descriptors() <= descriptors


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
