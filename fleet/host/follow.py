"""Watching a started job until it has ended, through lost connections, a dead supervisor and Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from fleet.errors import ContactLost, HostError
from fleet.host.framing import Shell
from fleet.host.outcome import Ending
from fleet.host.pause import Pause
from fleet.host.steps import PULL_DEADLINE_S, JobState, Task, cancel_job, poll_job, start_job
from fleet.model.event import Event, HostNotice, HostProgress, HostStage
from fleet.model.inventory import Settings
from fleet.model.result import HostStatus, Stage
from fleet.runtime.base import HostJob

POLL_S = 10.0
POLLS_PER_S = 20
"""Of all hosts together, where nobody asked for more: one costs the control node 4 ms of processor time."""


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    poll_min_s: float = 0.5
    poll_max_s: float = POLL_S
    """Between two polls; a job is polled less often the longer it runs, so that it is not disturbed."""
    contact_s: float = 900.0
    """A host that does not answer for this long in mid-run is given up. Its job goes on there."""
    cancel_s: float = 30.0
    """For a cancelled job to end."""
    overdue_s: float = 120.0
    """Beyond the job's own deadline, which the host should have kept."""

    @classmethod
    def for_hosts(cls, count: int, poll_max_s: float | None = None) -> Patience:
        """With so many hosts polled at the same time; `poll_max_s` is whoever watches them's own wish."""
        longest = poll_max_s or max(POLL_S, count / POLLS_PER_S)
        return cls(poll_min_s=min(longest, max(cls.poll_min_s, count / POLLS_PER_S / 5)), poll_max_s=longest)

    def now(self, *, cancelled: bool) -> float:
        """For a host that does not answer."""
        return self.cancel_s if cancelled else self.contact_s


@dataclass
class Follower:
    """One started job."""

    shell: Shell
    task: Task
    settings: Settings
    job: HostJob
    boot_id: str | None
    """Of the boot the job was started in."""
    cancelled: Callable[[], bool]
    patience: Patience
    _silent_since: float | None = field(default=None, init=False)
    _cancelled_at: float | None = field(default=None, init=False)
    _stage: Stage | None = field(default=None, init=False)
    _running_since: float | None = field(default=None, init=False)

    def follow(self) -> Generator[Event | Pause, None, Ending | None]:
        """Until the job has ended; what is already known of how, None when its own record says it.

        Raises:
            ContactLost: the host has not answered for too long, or the job did not end when it was cancelled.
        """
        begin, interval = time.monotonic(), self.patience.poll_min_s
        allowed = self.task.plan.deadline_s + PULL_DEADLINE_S + self.patience.overdue_s
        while True:
            try:
                self._cancel_if_asked()
                state = poll_job(self.shell, self.job)
                ending, done = self._read_end(state)
                if done:
                    return ending
                if not state.supervised and not state.ended:
                    start_job(self.shell, self.task, self.settings, self.job, push=False)
                # Only now: a host that answers and cannot take its job up again is not waited for until the deadline.
                self._silent_since = None
                yield from self._tell(state)
                self._check_deadline(state)
            except GivenUp:
                raise
            except HostError as error:
                yield from self._bear(error)
            if time.monotonic() - begin > allowed:
                raise self._give_up("overdue", f"the job has not ended {allowed:.0f} s after its start", answers=True)
            yield Pause(1.0 if self._cancelled_at else interval)
            interval = min(interval * 1.3, self.patience.poll_max_s)

    def _check_deadline(self, state: JobState) -> None:
        """The host should have ended it. By our own clock: the host's may be set meanwhile."""
        if state.stage not in {Stage.LAUNCH, Stage.RUN}:
            return
        now = time.monotonic()
        if self._running_since is None:
            self._running_since = now
        allowed = self.task.plan.deadline_s + self.patience.overdue_s
        if now - self._running_since > allowed:
            raise self._give_up("overdue", f"the job has not ended {allowed:.0f} s after its work began", answers=True)

    def _read_end(self, state: JobState) -> tuple[Ending | None, bool]:
        """What this poll says of the end, and whether there is nothing more to wait for."""
        if state.ended:
            return None, True
        # First, for a work directory may not outlive a boot.
        if self.boot_id and state.boot_id and state.boot_id != self.boot_id:
            hint = "Look why it rebooted (journalctl -b -1 -e)."
            return Ending(
                HostStatus.LOST, Stage.RUN, "reboot", "the machine rebooted while it was measured", hint
            ), True
        if not state.present:
            hint = "Somebody cleaned the work directory."
            return Ending(HostStatus.LOST, Stage.RUN, "removed", "the job's directory is gone", hint), True
        return None, False

    def _tell(self, state: JobState) -> Generator[Event, None, None]:
        alias, cells = self.task.plan.alias, self.task.plan.cells
        if state.stage and state.stage != self._stage:
            self._stage = state.stage
            yield HostStage(alias=alias, stage=state.stage)
        progress = state.progress
        index = progress.index if progress and progress.index is not None else -1
        current = cells[index].id if 0 <= index < len(cells) else None
        yield HostProgress(
            alias=alias,
            cells_done=min(progress.done, len(cells)) if progress else 0,
            cells_total=len(cells),
            current_cell=current,
            elapsed_s=state.elapsed_s,
            detail="pulling the image" if state.stage == Stage.PULL else "",
        )

    def _bear(self, error: HostError) -> Generator[Event | Pause, None, None]:
        """The host does not answer: the job goes on there, so try again, for as long as there is patience."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            yield HostNotice(
                alias=self.task.plan.alias, message=f"contact lost, the job goes on there: {error.message}"
            )
        patience = self.patience.now(cancelled=self.cancelled())
        if now - self._silent_since >= patience:
            raise self._give_up(error.reason, f"the host has not answered for {patience:.0f} s: {error.message}")

    def _cancel_if_asked(self) -> None:
        if not self.cancelled():
            return
        if self._cancelled_at is None:
            cancel_job(self.shell, self.job, self.settings)
            self._cancelled_at = time.monotonic()
        elif time.monotonic() - self._cancelled_at > self.patience.cancel_s:
            said = f"the job did not end within {self.patience.cancel_s:.0f} s of being cancelled"
            raise self._give_up("cancel", said, answers=True)

    def _give_up(self, reason: str, message: str, *, answers: bool = False) -> GivenUp:
        what = f"its directory is {self.job.directory}"
        if self.settings.runtime != "native":
            what = f"its container is {self.job.container}, {what}"
        hint = f"The job may still be running there: {what}. Take it up with: fleet resume {self.task.run_id}"
        error = GivenUp(self.task.plan.alias, Stage.RUN, reason, message, hint)
        error.answers = answers
        return error


class GivenUp(ContactLost):
    """No more waiting for this host; unlike other lost contact, it is final."""

    answers = False
    """The host itself is there: what the job has measured so far can be collected."""
