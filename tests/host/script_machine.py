"""This machine with a /tmp, a shell and tools of its own: jobs of others do not meet ours at the machine's lock."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleet.host.framing import Shell
from fleet.host.steps import Task, poll_job, start_job
from fleet.model.inventory import Connection, Settings
from fleet.model.plan import HostPlan
from fleet.model.suite import Rules
from fleet.runtime.base import HostJob
from fleet.transport.base import Completed, Reader, Route
from fleet.transport.local import LocalTransport
from tests.lab.engine import DOCKER_HOST, SOCKET
from tests.waiting import wait_for

RULES = Rules(warmup_steps=1, steps=2, max_s=5, cell_timeout_s=3600)

ENTER = """
mount --bind "$2" "$(readlink -f /bin/sh)" && mount --bind "$1" /tmp && shift 2 && exec "$@"
"""


def make_workdir(path: Path, uid: int = 0) -> Path:
    """An empty work directory of this user."""
    path.mkdir(mode=0o700)
    os.chown(path, uid, uid)
    return path


@dataclass(frozen=True)
class Machine:
    """Runs commands in a mount namespace with `tmp` as /tmp and `shell` as /bin/sh; a transport."""

    tmp: Path
    shell: str = "dash"
    path: str = os.environ["PATH"]
    uid: int = 0
    local: LocalTransport = field(default_factory=lambda: LocalTransport("here"))

    def __post_init__(self) -> None:
        self.tmp.mkdir(exist_ok=True)
        self.tmp.chmod(0o1777)

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        shell = shutil.which(self.shell)
        assert shell is not None
        words = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.tmp), os.path.realpath(shell)]
        group = SOCKET.stat().st_gid if SOCKET.exists() else self.uid
        words += ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", f"--groups={group}"] if self.uid else []
        words += ["/usr/bin/env", f"PATH={self.path}", f"HOME={self.tmp}", f"DOCKER_HOST={DOCKER_HOST}"]
        return self.local.run([*words, *argv], stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)

    def close(self) -> None:
        """There is nothing to let go of."""

    @property
    def route(self) -> Route:
        return self.local.route

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class ScriptedJob:
    """A job whose payload is a script: what is on the host does not know what it runs.

    Native it is a shell script; in a container of `image`, one for Python.
    """

    machine: Machine
    workdir: Path
    payload: bytes
    number: int = 1
    deadline_s: float = 60
    image: str = ""

    @property
    def shell(self) -> Shell:
        return Shell("here", self.machine)

    @property
    def settings(self) -> Settings:
        if not self.image:
            return Settings(runtime="native", python="/bin/sh", workdir=str(self.workdir))
        return Settings(image=self.image, devices="cpu", ipc="private", ulimits={}, workdir=str(self.workdir))

    @property
    def task(self) -> Task:
        plan = HostPlan(
            alias="here",
            # The marks of its processes are seen by every test that runs on this machine at the same time.
            job_id=f"20261201T000000Z-{os.getpid()}-{self.number}",
            groups=(),
            connection=Connection(kind="local"),
            settings=self.settings,
            cells=(),
            estimate_s=1,
            deadline_s=self.deadline_s,
        )
        return Task(plan, "20261201T000000Z-test", RULES, self.payload, self.sha256, "me@there (fleet run test)")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.payload).hexdigest()

    @property
    def job(self) -> HostJob:
        uid = self.machine.uid
        return HostJob(self.task.plan.job_id, self.task.run_id, str(self.workdir), self.sha256, uid, uid)

    @property
    def directory(self) -> Path:
        return Path(self.job.directory)

    def start(self, *, push: bool = True) -> None:
        start_job(self.shell, self.task, self.settings, self.job, push=push)

    def wait(self, timeout_s: float = 60) -> dict[str, object]:
        """exit.json, once it is there; what still runs of the job by then is a fault."""
        wait_for((self.directory / "exit.json").exists, timeout_s)
        wait_for(lambda: not self.find_processes(), 10)
        record = json.loads((self.directory / "exit.json").read_bytes())
        assert isinstance(record, dict)
        return record

    def take_up(self) -> bool:
        """What the follower does at every poll; whether the job is watched or has ended."""
        state = poll_job(self.shell, self.job)
        if not state.supervised and not state.ended:
            self.start(push=False)
        return state.supervised or state.ended

    def find_processes(self) -> list[str]:
        """Command lines of all that runs of this job: it has the job's directory or mark about it."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command, variables = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            except OSError:
                continue
            about = command + variables
            if f"{self.job.job_id}:\0".encode() in about or f"{self.directory}\0".encode() in about:
                found.append(f"{process.name} {command!r}")
        return found

    def kill_supervisor(self) -> None:
        """As an administrator would, by name: with the watch and the shell that waits for the payload."""
        subprocess.run(["pkill", "-KILL", "-f", f"sh {self.directory}/supervise.sh"], check=True)

    def is_free(self) -> bool:
        """Nobody holds the machine's lock."""
        return subprocess.run(["flock", "-n", str(self.machine.tmp / "fleet.lock"), "true"]).returncode == 0
