"""The middle of `fleet run`: jobs out, events in, Ctrl-C in between."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from fleet.bundle import Bundle
from fleet.cli.recorder import Recorder
from fleet.cli.select import name_inventory
from fleet.errors import StoreError
from fleet.fanout import Fanout
from fleet.host.job import Job
from fleet.host.steps import Task
from fleet.model.event import Event, HostFinished
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import HostOutcome
from fleet.plan import skip_host
from fleet.progress import Progress
from fleet.report.wording import count_things, join_names
from fleet.store.files import explain_error
from fleet.store.writer import RunWriter
from fleet.transport.open import open_transport
from fleet.transport.ssh_tokens import local_user

log = logging.getLogger("fleet")


@dataclass(frozen=True)
class Measured:
    """What came of the hosts of a run."""

    outcomes: Mapping[str, HostOutcome]
    interrupted: bool
    """By somebody."""
    trouble: StoreError | None
    """What could not be written; the rest was cancelled then."""


def measure_hosts(
    plan: Plan, bundle: Bundle, writer: RunWriter, progress: Progress, say: Callable[[str], None]
) -> Measured:
    """Take every planned host to its one outcome, stored as it arrives.

    `say` shows a sentence to whoever waits; it may be called from any thread.

    Raises:
        KeyboardInterrupt: somebody interrupted twice. What was left running has been said.
    """
    cancelled, interrupted = threading.Event(), threading.Event()
    who = f"{local_user()}@{socket.gethostname()}"

    def make_job(host: HostPlan) -> Job:
        holder = f"{who} (fleet run {plan.run_id}, as {host.alias})"
        task = Task(host, plan.run_id, plan.rules, bundle.data, bundle.sha256, holder)
        return Job(task, open_transport(host.alias, host.connection), recorder.keep, cancelled.is_set)

    def cancel(why: str) -> None:
        fanout.cancel()
        words = f"{why}cancelling on {count_things(recorder.hosts_left, 'host')}; Ctrl-C again leaves at once"
        # A handler interrupts whatever holds the display's lock; a thread of its own waits for it.
        threading.Thread(target=say, args=(words,), daemon=True).start()

    def interrupt() -> None:
        interrupted.set()
        cancel("")

    recorder = Recorder(writer, lambda: cancel("the results cannot be kept: "))
    fanout: Fanout[Event] = Fanout((make_job(host).run() for host in plan.hosts if host.cells), plan.forks, cancelled)
    with _log_to(writer):
        for host in plan.hosts:
            if not host.cells:
                _tell(HostFinished(alias=host.alias, outcome=skip_host(host, plan.suite)), recorder, progress)
        try:
            with _cancel_on_signal(interrupt):
                for event in fanout.run():
                    _tell(_name_inventory(event, plan.inventory), recorder, progress)
        except KeyboardInterrupt:
            _say_what_stays(recorder, say)
            raise
    return Measured(recorder.outcomes, interrupted.is_set(), recorder.trouble)


def _say_what_stays(recorder: Recorder, say: Callable[[str], None]) -> None:
    started = recorder.list_started()
    if started:
        run_id = recorder.plan.run_id
        say(
            f"left at once; what was started on {join_names(started)} goes on there until it is done or its time is "
            f"up, in jobs/{run_id}-… of fleet's work directory (containers fleet-{run_id}-…)"
        )


def _name_inventory(event: Event, inventory: str) -> Event:
    if not isinstance(event, HostFinished):
        return event
    hint = name_inventory(event.outcome.hint, inventory)
    return event.model_copy(update={"outcome": event.outcome.model_copy(update={"hint": hint})})


def _tell(event: Event, recorder: Recorder, progress: Progress) -> None:
    recorder.record(event)
    log.debug("%s", event)
    progress.show(event)


@contextmanager
def _cancel_on_signal(cancel: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP cancels; the second raises KeyboardInterrupt."""

    def handle(number: int, _frame: FrameType | None) -> None:
        for caught in before:
            if before[caught] != signal.SIG_IGN:
                signal.signal(caught, signal.default_int_handler)
        log.warning("%s: cancelling", signal.Signals(number).name)
        cancel()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        # nohup and cron's children ignore SIGHUP: that is meant.
        if before[number] != signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, before[number])


@contextmanager
def _log_to(writer: RunWriter) -> Iterator[None]:
    """Everything worth a look later goes to the run's own fleet.log; nothing of it to stderr.

    Raises:
        StoreError: the log cannot be made.
    """
    try:
        handler = _Log(writer.log_path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise explain_error(error, writer.log_path) from error
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
            handler.close()


class _Log(logging.FileHandler):
    """A log that nothing else depends on: a line that cannot be written is lost."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing; logging would print a traceback."""
