"""The middle of `fleet run`: jobs out, events in, Ctrl-C in between."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from fleet.cli.interruption import SECOND_THOUGHT_S, answer_signals, call_later
from fleet.cli.recorder import Recorder
from fleet.cli.select import name_inventory
from fleet.errors import StoreError
from fleet.fanout import Fanout
from fleet.host.exclusion import Exclusion
from fleet.host.follow import Patience
from fleet.host.job import Job
from fleet.host.probe import reread_probe
from fleet.host.steps import Task
from fleet.model.event import Event, HostFinished
from fleet.model.facts import HostFacts
from fleet.model.left import JobLeft
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.plan import skip_host
from fleet.progress import Progress
from fleet.report.wording import count_things, join_names
from fleet.store.writer import RunWriter
from fleet.transport.open import open_transport
from fleet.transport.passwords import NO_PASSWORDS, Passwords
from fleet.transport.ssh_tokens import local_user

CANCEL_LOOK_S = 1.0

_TOO_MANY = "max_fail"
_AGAIN = {HostStatus.CANCELLED, HostStatus.LOST}
"""Nothing is wrong with such a host itself."""

log = logging.getLogger("fleet")


@dataclass(frozen=True)
class Limits:
    """How this controller's part of a run is held in bounds."""

    wave: int = 0
    """At most so many hosts measure at the same time; 0: all."""
    deadline_s: float = 0
    """After so long everything is cancelled; 0: never."""
    max_fail: int | None = None
    """When more hosts than this have failed, no more are begun."""
    poll_s: float | None = None
    """Between two looks at a job, at most; None: as many hosts allow."""
    exclusion: Exclusion = field(default_factory=Exclusion)
    """What is done about machines that others use."""


@dataclass(frozen=True)
class Work:
    """A run to be carried out, from its beginning or from where it was left."""

    plan: Plan
    payload: bytes
    limits: Limits
    left: Mapping[str, JobLeft]
    """By alias, what an earlier controller left."""
    outcomes: Mapping[str, HostOutcome]
    """Of the hosts that have theirs already."""
    passwords: Passwords = NO_PASSWORDS


@dataclass(frozen=True)
class Measured:
    """What came of the hosts of a run."""

    outcomes: Mapping[str, HostOutcome]
    interrupted: bool
    """By somebody."""
    trouble: StoreError | None
    """What could not be written; the rest was cancelled then."""


def measure_hosts(
    work: Work, writer: RunWriter, progress: Progress, say: Callable[[str], None], *, cancel: bool = False
) -> Measured:
    """Take every planned host to its one outcome, stored as it arrives.

    Args:
        say: shows a sentence to whoever waits; it may be called from any thread.
        cancel: begin nothing, and end what was begun.

    Raises:
        KeyboardInterrupt: somebody insisted. What was left running has been said.
    """
    return _Session(work, writer, progress, say).measure(cancel)


class _Session:
    """One controller's work on one run."""

    def __init__(self, work: Work, writer: RunWriter, progress: Progress, say: Callable[[str], None]) -> None:
        self._work = work
        self._writer = writer
        self._progress = progress
        self._say_now = say
        self._cancelled = threading.Event()
        self._interrupted = self._overdue = False
        for alias, facts in _list_measured(work):
            work.limits.exclusion.machines.note(alias, facts)
        self._recorder = Recorder(writer, lambda: self._cancel("the results cannot be kept: "), work.outcomes)
        jobs = (self._make_job(host).run() for host in work.plan.hosts if self._recorder.is_open(host.alias))
        self._fanout: Fanout[Event] = Fanout(jobs, work.plan.forks, self._cancelled, work.limits.wave)
        self._leaving: threading.Timer | None = None
        self._ended = threading.Event()

    def measure(self, cancel: bool) -> Measured:
        for alias, outcome in self._work.outcomes.items():
            self._progress.show(HostFinished(alias=alias, outcome=outcome))
        with _log_to(self._writer):
            for host in self._work.plan.hosts:
                if not host.cells and host.alias not in self._work.outcomes:
                    self._tell(HostFinished(alias=host.alias, outcome=skip_host(host, self._work.plan.suite)))
            if cancel:
                self._interrupted = True
                self._cancel("")
            else:
                threading.Thread(target=self._watch_for_cancel, daemon=True).start()
            deadline_s = self._work.limits.deadline_s
            timer = call_later(deadline_s, self._end_time) if deadline_s else None
            try:
                with answer_signals(self._leave, self._interrupt):
                    for event in self._fanout.run():
                        self._tell(event)
                        self._judge_failures()
            except KeyboardInterrupt:
                self._say_now(self._describe_stay("left at once"))
                raise
            finally:
                self._ended.set()
                if timer:
                    timer.cancel()
                if self._interrupted and self._cancelled.is_set():
                    with suppress(StoreError):
                        self._writer.mark_cancelled()
            if self._leaving is None or self._cancelled.is_set():
                self._skip_the_rest()
        return Measured(self._recorder.outcomes, self._interrupted, self._recorder.trouble)

    def _make_job(self, host: HostPlan) -> Job:
        plan = self._work.plan
        holder = f"{local_user()}@{socket.gethostname()} (fleet run {plan.run_id}, as {host.alias})"
        task = Task(host, plan.run_id, plan.rules, self._work.payload, plan.payload_sha256, holder)
        patience = Patience.for_hosts(self._work.limits.wave or len(plan.hosts), self._work.limits.poll_s)
        transport = open_transport(host, self._work.passwords)
        left = self._work.left.get(host.alias, JobLeft())
        exclusion = self._work.limits.exclusion
        return Job(task, transport, self._recorder.keep, self._cancelled.is_set, patience, left, exclusion)

    def _watch_for_cancel(self) -> None:
        """`fleet cancel` cannot send a signal: it may run on another machine, as somebody else."""
        while not self._ended.wait(CANCEL_LOOK_S):
            if self._writer.cancel_asked:
                self._interrupted = True
                self._cancel("another fleet cancels the run: ")
                return

    def _leave(self, signal_name: str) -> None:
        """Begin nothing more; a second thought later, leave what goes on to its hosts."""
        self._interrupted = True
        self._fanout.hold()
        self._leaving = call_later(SECOND_THOUGHT_S, self._fanout.leave)
        again = f"{signal_name} again within {SECOND_THOUGHT_S:.0f} s ends it on the hosts."
        self._say(f"{self._describe_stay('leaving')} {again}")

    def _interrupt(self, signal_name: str) -> None:
        self._cancel("", f"; {signal_name} again leaves at once")

    def _end_time(self) -> None:
        self._overdue = True
        self._cancel("the time is up: ")

    def _cancel(self, why: str, then: str = "") -> None:
        if self._leaving:
            self._leaving.cancel()
        self._fanout.cancel()
        self._say(f"{why}cancelling on {count_things(self._recorder.hosts_left, 'host')}{then}")

    def _say(self, words: str) -> None:
        # A handler interrupts whatever holds the display's lock; a thread of its own waits for it.
        threading.Thread(target=self._say_now, args=(words,), daemon=True).start()

    def _describe_stay(self, how: str) -> str:
        started, run_id = self._recorder.list_started(), self._work.plan.run_id
        if self._cancelled.is_set():
            goes_on = f"; what was to end on {join_names(started)} may still run" if started else ""
            return f"{how}{goes_on}. End it for good with: fleet cancel {run_id}."
        goes_on = f"; what was started on {join_names(started)} goes on there" if started else ""
        return f"{how}{goes_on}. Take it up again with: fleet resume {run_id}."

    def _tell(self, event: Event) -> None:
        if isinstance(event, HostFinished):
            event = event.model_copy(update={"outcome": self._finish_outcome(event.outcome)})
        self._recorder.record(event)
        log.debug("%s", event)
        self._progress.show(event)

    def _finish_outcome(self, outcome: HostOutcome) -> HostOutcome:
        hint = name_inventory(outcome.hint, self._work.plan.inventory)
        if outcome.status in _AGAIN or outcome.reason == _TOO_MANY:
            hint = f"{hint} Measure it again with: fleet run --retry-failed {self._work.plan.run_id}".strip()
        changes = {"hint": hint}
        if self._overdue and outcome.status is HostStatus.CANCELLED:
            message = f"the time that --deadline gave the run was up; {outcome.message}".rstrip("; ")
            changes |= {"status": HostStatus.TIMED_OUT, "reason": "run_deadline", "message": message}
        return outcome.model_copy(update=changes)

    def _judge_failures(self) -> None:
        most, failed = self._work.limits.max_fail, self._recorder.count_failed()
        if most is not None and failed > most:
            self._fanout.drop()

    def _skip_the_rest(self) -> None:
        """Whoever has not begun, because too many had failed."""
        for host in self._work.plan.hosts:
            if host.alias not in self._recorder.outcomes:
                outcome = HostOutcome(
                    alias=host.alias,
                    job_id=host.job_id,
                    status=HostStatus.SKIPPED,
                    stage=Stage.CONNECT,
                    reason=_TOO_MANY,
                    message=f"not begun: more than {self._work.limits.max_fail} hosts had failed",
                    hint="Mend those, or raise --max-fail.",
                )
                self._tell(HostFinished(alias=host.alias, outcome=outcome))


def _list_measured(work: Work) -> Iterator[tuple[str, HostFacts]]:
    """Every host that an earlier controller began to measure, with what it is."""
    for host in work.plan.hosts:
        outcome, left = work.outcomes.get(host.alias), work.left.get(host.alias, JobLeft())
        if outcome and outcome.cells and outcome.facts:
            yield host.alias, outcome.facts
        elif left.told and (probe := reread_probe(left.files.get("probe", b""))):
            yield host.alias, probe.facts


@contextmanager
def _log_to(writer: RunWriter) -> Iterator[None]:
    """Everything worth a look later goes to the run's own fleet.log; nothing of it to stderr.

    Raises:
        StoreError: the log cannot be made.
    """
    stream = writer.open_log()
    handler = _Log(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"))
    loggers = (log, logging.getLogger("paramiko"))
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    log.setLevel(logging.DEBUG)
    loggers[1].setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        with suppress(OSError):  # what is buffered for a disk that is full
            stream.close()


class _Log(logging.StreamHandler[TextIO]):
    """A log that nothing else depends on: a line that cannot be written is lost."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing; logging would print a traceback."""
