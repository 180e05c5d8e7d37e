"""One job that a test watches to its end, and a transport that fails when it is told to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fleet.errors import ContactLost, HostError
from fleet.fanout import Fanout
from fleet.host.exclusion import Exclusion
from fleet.host.follow import Patience
from fleet.host.framing import read_script
from fleet.host.job import Job
from fleet.host.steps import Task
from fleet.model.event import Event, HostFinished, HostNotice, HostProgress, HostStage
from fleet.model.inventory import Connection, Settings
from fleet.model.left import JobLeft
from fleet.model.plan import HostPlan
from fleet.model.result import HostOutcome, Stage
from fleet.model.suite import Rules
from fleet.transport.base import Completed, Reader, Transport
from tests.run_builder import RUN_ID, make_cells

QUICK = Patience(poll_min_s=0.1, poll_max_s=0.1, contact_s=1.0, cancel_s=1.0)
BEGIN = 'echo \'{"index": 0, "done": 0}\' >"$4/progress.json"\n'


@dataclass
class Watched:
    """One job, stepped to its end; the test looks on and interferes."""

    workdir: Path
    transport: Transport
    payload: bytes
    deadline_s: float = 60
    devices: Literal["cpu", "all"] = "cpu"
    left: JobLeft = field(default_factory=JobLeft)
    patience: Patience = QUICK
    exclusion: Exclusion = field(default_factory=lambda: Exclusion(ignore=True))
    """By default whatever else this machine does meanwhile is no concern of the test."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    events: list[Event] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)

    @property
    def plan(self) -> HostPlan:
        return HostPlan(
            alias="here",
            job_id=f"{RUN_ID.lower()}-{os.getpid()}",  # as in script_machine
            groups=(),
            connection=Connection(kind="local"),
            settings=Settings(runtime="native", python="/bin/bash", workdir=str(self.workdir), devices=self.devices),
            cells=make_cells(count=1),
            estimate_s=1,
            deadline_s=self.deadline_s,
        )

    @property
    def directory(self) -> Path:
        return self.workdir / "jobs" / self.plan.job_id

    def run(self, on_progress: Callable[[], object] | None = None) -> HostOutcome:
        """The outcome. `on_progress` is called once, when the payload has begun."""
        sha256 = hashlib.sha256(self.payload).hexdigest()
        task = Task(self.plan, RUN_ID, Rules(), self.payload, sha256, "me@there (fleet run)")
        job = Job(task, self.transport, self._keep, self.cancelled.is_set, self.patience, self.left, self.exclusion)
        fanout: Fanout[Event] = Fanout([job.run()], 1, self.cancelled)
        for event in fanout.run():
            self.events.append(event)
            if on_progress and isinstance(event, HostProgress) and event.current_cell:
                on_progress()
                on_progress = None
        assert on_progress is None, self.events
        finished = self.events[-1]
        assert isinstance(finished, HostFinished)
        assert sum(isinstance(event, HostFinished) for event in self.events) == 1
        return finished.outcome

    def end_processes(self) -> None:
        """Kill what runs of this job until nothing does: what saw another one die may have begun to write that down."""
        while self.kill_processes():
            time.sleep(0.01)

    def kill_processes(self, command: str = "") -> int:
        """Kill what runs of this job and has these words in its command line, and say how many that were."""
        killed = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_ours = (process / "cwd").readlink().is_relative_to(self.workdir)
                if is_ours and command.encode() in (process / "cmdline").read_bytes().replace(b"\0", b" "):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed += 1
        return killed

    def _keep(self, alias: str, files: Mapping[str, bytes]) -> None:
        assert alias == "here"
        self.kept.update(files)

    @property
    def stages(self) -> list[Stage]:
        return [event.stage for event in self.events if isinstance(event, HostStage)]

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, HostNotice)]


class Unreliable:
    """A transport that loses contact while `silent` is set, and shows another boot while `rebooted` is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.warnings, self.route = transport.warnings, transport.route
        self.silent = self.rebooted = False
        self.refuses: list[HostError] = []
        """What the next calls raise instead of reaching the host."""
        self.calls = 0
        self.lose_after: set[int] = set()
        """Numbers of calls that reach the host and whose answer is lost."""
        self._lost: dict[str, tuple[str, list[str], Callable[[], object] | None]] = {}
        self._after: dict[str, Callable[[], object]] = {}

    def lose(self, script: str, reason: str, then: Callable[[], object] | None = None) -> list[str]:
        """Lose every answer of this script, for this reason, after `then`; grows by one for each."""
        asked: list[str] = []
        self._lost[read_script(script)] = (reason, asked, then)
        return asked

    def lose_no_more(self, script: str) -> None:
        del self._lost[read_script(script)]

    def do_after(self, script: str, what: Callable[[], object]) -> None:
        """Do this when the script has ended the next time."""
        self._after[read_script(script)] = what

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        if self.silent:
            raise ContactLost("here", "run", "timeout", "nothing came for 5 s")
        if self.refuses:
            raise self.refuses.pop(0)
        self.calls += 1
        done = self._transport.run(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
        if what := self._after.pop(argv[2], None):
            what()
        reason, asked, then = self._lost.get(argv[2], ("", [], None))
        if reason:
            asked.append(reason)
            if then:
                then()
            raise ContactLost("here", "run", reason, "the answer did not come")
        if self.calls in self.lose_after:
            raise ContactLost("here", "run", "reset", "the connection was reset")
        if self.rebooted:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
            return Completed(done.exit_status, done.stdout.replace(boot_id, b"another-boot"), done.stderr)
        return done

    def close(self) -> None:
        self._transport.close()
