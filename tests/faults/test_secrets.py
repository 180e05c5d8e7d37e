"""Secrets that must turn up nowhere: those that are typed, those of the host, those of the control node."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from fleet.store.rundir import Store
from tests.conftest import LabHosts
from tests.faults.conftest import LONG, TINY, is_measuring
from tests.lab.engine import DOCKER_HOST
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.terminal import Terminal
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker", "root", "setsid"), pytest.mark.long]

PLACES = ("cmdline", "environ")


@dataclass(frozen=True)
class Secret:
    """A word that is looked for as it is and in the guises that it might go about in."""

    core: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def text(self) -> str:
        """What is typed: with all that a shell or JSON would write otherwise, so that only the core is looked for."""
        return f"{self.core} $'\"\\ü"

    @property
    def guises(self) -> list[bytes]:
        core = self.core.encode()
        # Of base64 there are three, by what stands before; the edges depend on the neighbours.
        shifted = [base64.b64encode(b"x" * shift + core)[4:-4] for shift in range(3)]
        return [core, core.hex().encode(), *shifted]

    def is_in(self, data: bytes) -> bool:
        return any(guise in data for guise in self.guises)


@dataclass
class Watch:
    """Looks at every process of this machine, which are those of the lab's hosts and their containers too."""

    secrets: Sequence[Secret]
    seen: set[tuple[Secret, int, str]] = field(default_factory=set)
    """Secret, process, and how the line of its ancestors reads."""
    looks: int = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._look_until, args=(over,), daemon=True)
        thread.start()
        yield
        over.set()
        thread.join()

    def _look_until(self, over: threading.Event) -> None:
        while not over.wait(0.005):
            self.looks += 1
            for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
                data = b""
                for place in PLACES:
                    with contextlib.suppress(OSError):
                        data += Path("/proc", pid, place).read_bytes()
                for secret in self.secrets:
                    if secret.is_in(data):
                        self.seen.add((secret, int(pid), read_line(int(pid))))


def read_line(pid: int) -> str:
    """`7/3/1`: a process, who started it, and so on."""
    line = []
    with contextlib.suppress(OSError):
        while pid:
            line.append(pid)
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return "/".join(map(str, line))


@dataclass
class Typed:
    """What is typed in a test: right, or wrong and no less secret."""

    login: Secret = field(default_factory=Secret)
    sudo: Secret = field(default_factory=Secret)

    @property
    def answers(self) -> dict[str, str]:
        return {"SSH password: ": self.login.text, "sudo password (empty: the SSH password): ": self.sudo.text}


class Session:
    """Commands of fleet on one host, one after the other, and everything they said."""

    def __init__(self, workspace: Path, canary: Secret) -> None:
        self.workspace = workspace
        self.canary = canary
        self.said = b""
        self.pids: list[int] = []

    def start(self, typed: Typed, *arguments: str) -> Terminal:
        terminal = Terminal([*arguments, "-kK"], typed.answers, self.workspace, {"LAB_CANARY": self.canary.text})
        self.pids.append(terminal.process.pid)
        return terminal

    def end(self, terminal: Terminal) -> tuple[int, str]:
        """Exit code, and all that was said as one line."""
        code, out, err = terminal.wait()
        self.said += terminal.screen + out.encode() + err.encode()
        return code, " ".join((out + err).split())

    def run(self, typed: Typed, *arguments: str) -> tuple[int, str]:
        return self.end(self.start(typed, *arguments))


def make_host(lab_hosts: LabHosts, right: Typed, registry: Secret) -> LabHost:
    """It takes no key, its user may not use the engine, its sudo wants root's password, and root has a registry's."""
    (host,) = lab_hosts(
        1,
        docker_permission=False,
        workdir_owner="root",
        sudoers="bench ALL=(ALL) ALL\nDefaults rootpw\nDefaults logfile=/var/log/sudo.log",
        sshd="-oPubkeyAuthentication=no -oPasswordAuthentication=yes",
    )
    host.set_password(right.login.text)
    host.set_password(right.sudo.text, "root")
    auth = base64.b64encode(f"bench:{registry.text}".encode()).decode()
    login = json.dumps({"auths": {"registry.example": {"auth": auth}}})
    host.exec("sh", "-c", "mkdir -p ~/.docker && cat >~/.docker/config.json", stdin=login.encode())
    return host


def read_tree(directory: Path) -> bytes:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    return b"\0".join(str(path).encode() + b"\0" + path.read_bytes() for path in files)


def test_no_secret_shows_anywhere(lab_hosts: LabHosts, workspace: Path, isolated_home: Path) -> None:
    right, wrong, wrong_sudo = Typed(), Typed(), Typed()
    wrong_sudo.login = right.login
    registry, canary = Secret(), Secret()
    host = make_host(lab_hosts, right, registry)
    inventory = str(write_inventory(workspace / "lab.yaml", [host], fleet_become=True))
    for name, suite in (("long", LONG), ("tiny", TINY)):
        (workspace / f"{name}.yaml").write_text(suite)
    typed = [right.login, right.sudo, wrong.login, wrong.sudo, wrong_sudo.sudo]
    session, watch = Session(workspace, canary), Watch([*typed, registry, canary])

    with watch.watching():
        assert session.run(right, "run", "-i", inventory, "-s", "./tiny.yaml", "--dry-run")[0] == 0
        run = session.start(right, "run", "-i", inventory, "-s", "./long.yaml")
        wait_for(lambda: is_measuring(host), 120)
        left = read_tree(host.workdir)
        run.process.send_signal(signal.SIGTERM)
        assert session.end(run)[0] == 130
        assert '"measuring"' in session.run(right, "status", "--json")[1]
        assert "refused the password of bench" in session.run(wrong_sudo, "resume")[1]
        code, said = session.run(right, "resume")
        assert code == 0, said
        assert "1/1 host ok" in session.run(right, "ping", "-i", inventory)[1]
        assert "refused the password" in session.run(wrong, "ping", "-i", inventory)[1]
        assert "password of bench" in session.run(wrong_sudo, "run", "-i", inventory, "-s", "./tiny.yaml")[1]
        assert session.run(right, "clean", "-i", inventory)[0] == 0

    store = Store(workspace / "reports")
    (outcome,) = [store.load(run.run_id).outcomes[host.alias] for run in store.runs() if run.hosts_ok]
    assert (outcome.status, outcome.facts and outcome.facts.user) == (HostStatus.OK, "root")
    assert watch.looks > 20

    kept = {"reports": read_tree(workspace / "reports"), "output": session.said, "host": left + read_host(host)}
    shown = [where for where, data in kept.items() for secret in watch.secrets if secret.is_in(data)]
    assert shown == []
    # The control node's own environment is the one place where something of it belongs.
    strange = [
        seen for seen in watch.seen if seen[0] != canary or not {*seen[2].split("/")} & {*map(str, session.pids)}
    ]
    assert strange == []
    assert canary in {seen[0] for seen in watch.seen}


def read_host(host: LabHost) -> bytes:
    """All files that anybody may have written there, but for the one that holds the registry's password."""
    places = f"{host.home} {host.workdir} /root /tmp /var /run /etc"
    find = f"find {places} -xdev -type f ! -path ~/.docker/config.json -exec cat {{}} +"
    argv = ["docker", "--host", DOCKER_HOST, "exec", host.container, "sh", "-c", find]
    return subprocess.run(argv, capture_output=True, check=True, timeout=120).stdout
