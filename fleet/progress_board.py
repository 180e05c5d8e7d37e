"""What is known of a run while it goes on: the state of every planned host, from the events, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from fleet.estimate import estimate_run
from fleet.model.event import Event, HostFinished, HostNotice, HostProgress, HostStage
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import CellStatus, HostOutcome, HostStatus, Stage
from fleet.report.failure_groups import open_limit
from fleet.report.wording import format_duration, say_sentence, say_status

_DOING = {
    Stage.CONNECT: "connecting",
    Stage.PROBE: "probing",
    Stage.PUSH: "pushing",
    Stage.START: "starting",
    Stage.PULL: "pulling",
    Stage.LAUNCH: "launching",
    Stage.RUN: "measuring",
    Stage.COLLECT: "collecting",
    Stage.CLEAN: "cleaning up",
}
WAITING = "waiting"


@dataclass
class HostState:
    plan: HostPlan
    stage: Stage | None = None
    progress: HostProgress | None = None
    heard_s: float = 0.0
    """When the last event came."""
    outcome: HostOutcome | None = None
    like: str = ""
    """The host that failed before it in the same way."""

    @property
    def word(self) -> str:
        if self.outcome is not None:
            return say_status(self.outcome.status)
        return WAITING if self.stage is None or self.waits else _DOING[self.stage]

    @property
    def waits(self) -> bool:
        """For others to let go of the machine."""
        return self.outcome is None and self.progress is not None and self.progress.waiting

    @property
    def failed(self) -> bool:
        return self.outcome is not None and self.outcome.status not in {HostStatus.OK, HostStatus.SKIPPED}

    @property
    def working(self) -> bool:
        return self.outcome is None and self.stage is not None

    def cells_done(self) -> int:
        if self.outcome is not None:
            return count_measured(self.outcome)
        return self.progress.cells_done if self.progress else 0

    def left_s(self, now_s: float) -> float:
        """Seconds until the host is expected to be done; below 0 when it should have been.

        From the plan's estimate at first, and the further the job gets the more from its own pace.
        """
        if self.outcome is not None:
            return 0.0
        estimate_s, seen = self.plan.estimate_s, self.progress
        if self.waits:
            return estimate_s
        if seen is None:
            return estimate_s - (now_s - self.heard_s if self.stage is not None else 0.0)
        left_s = estimate_s - seen.elapsed_s
        if seen.cells_done and seen.cells_total:
            weight = seen.cells_done / seen.cells_total
            pace_s = seen.elapsed_s / seen.cells_done * (seen.cells_total - seen.cells_done)
            left_s = (1 - weight) * left_s + weight * pace_s
        return left_s - (now_s - self.heard_s)


class Board:
    """The state of every planned host, from the events."""

    def __init__(self, plan: Plan, clock: Callable[[], float], wave: int = 0) -> None:
        self.clock = clock
        self.lock = Lock()
        self.started_s = clock()
        self.hosts = {host.alias: HostState(host) for host in plan.hosts}
        self.cells = sum(len(host.cells) for host in plan.hosts)
        self._wave = wave
        self._first: dict[tuple[str, ...], str] = {}

    def apply(self, event: Event) -> HostState | None:
        """Take an event in; the host it changed, or None when it changed nothing."""
        host = self.hosts.get(event.alias)
        if host is None or host.outcome is not None:
            return None
        with self.lock:
            if isinstance(event, HostStage):
                if event.stage == host.stage:
                    return None
                host.stage = event.stage
                if host.waits:
                    host.progress = None
            elif isinstance(event, HostProgress):
                host.progress = event
            elif isinstance(event, HostFinished):
                host.outcome = event.outcome
                host.like = self._find_like(host)
            if not isinstance(event, HostNotice) and not (isinstance(event, HostStage) and host.progress):
                host.heard_s = self.clock()
        return host

    def _find_like(self, host: HostState) -> str:
        """The first host that failed as this one did; empty when it is the first, or did not fail."""
        outcome, alias = host.outcome, host.plan.alias
        if outcome is None or not host.failed:
            return ""
        # Where nobody got in, the sentences differ in names, addresses and keys.
        message = "" if outcome.status.out_of_reach else outcome.message
        kind = (outcome.status, outcome.reason or "", open_limit(outcome.hint, alias), message)
        first = self._first.setdefault(kind, alias)
        return "" if first == alias else first

    def elapsed_s(self) -> float:
        return self.clock() - self.started_s

    def left_s(self) -> float:
        """Until the last host is expected to be done; below 0 when it should have been."""
        now_s = self.clock()
        working = [host.left_s(now_s) for host in self.hosts.values() if host.working]
        waiting = [host.plan.estimate_s for host in self.hosts.values() if host.outcome is None and not host.working]
        return estimate_run(working, waiting, self._wave)

    def count_states(self) -> str:
        """`3 measuring, 2 ok, 1 unreachable`: who is at work, by how far it has got, then who has ended, then the rest.

        A terminal cuts the end off where many hosts have failed in many ways.
        """
        counts = Counter(host.word for host in self.hosts.values())
        order = [*reversed(_DOING.values()), *(say_status(status) for status in HostStatus), WAITING]
        return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])

    def cells_done(self) -> int:
        """Of all hosts."""
        return sum(host.cells_done() for host in self.hosts.values())

    def sum_up(self) -> str:
        """`12/48 cells · 2 min left · 2 measuring, 1 ok`."""
        least = "at least " if any(host.waits for host in self.hosts.values()) else ""
        return f"{self.cells_done()}/{self.cells} cells · {least}{tell_left(self.left_s())} · {self.count_states()}"


def tell_left(left_s: float) -> str:
    if left_s >= 0:
        return f"{format_duration(left_s)} left"
    return f"{format_duration(-left_s)} over"


def tell_outcome(host: HostState) -> str:
    """`ok, 12/12 cells in 3 min 20 s`; or the status, what happened and what to do; or as whom it failed."""
    outcome = host.outcome
    if outcome is None:
        return ""
    words, message = say_status(outcome.status), one_line(outcome.message)
    if host.like:
        return f"{words}, as {host.like}"
    # A sentence that begins with the status stands for it.
    text = message.rstrip(".") if message.lower().startswith(words) else words
    if outcome.cells:
        text += f", {count_measured(outcome)}/{len(host.plan.cells)} cells"
    if outcome.job_s is not None:
        text += f" in {format_duration(outcome.job_s)}"
    if message and not message.lower().startswith(words):
        text += f": {say_sentence(message, host.plan.alias)}"
    return f"{text} → {one_line(outcome.hint)}" if outcome.hint else text


def count_measured(outcome: HostOutcome) -> int:
    """Cells that came to an end with a value."""
    return sum(cell.status == CellStatus.OK for cell in outcome.cells)


def one_line(text: str) -> str:
    """The text with every run of blanks and line ends as one blank."""
    return " ".join(text.split())
