"""The middle of `fleet run`: jobs out, events in, Ctrl-C in between."""

from __future__ import annotations

import getpass
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fleet.bundle import Bundle
from fleet.fanout import Fanout
from fleet.host.job import Job
from fleet.host.steps import Task
from fleet.model.event import Event, HostFinished
from fleet.model.plan import HostPlan, Plan
from fleet.plan import skip_host
from fleet.progress import Progress
from fleet.store.writer import RunWriter
from fleet.transport.open import open_transport

log = logging.getLogger("fleet")


def measure_hosts(plan: Plan, bundle: Bundle, writer: RunWriter, progress: Progress) -> bool:
    """Take every planned host to its one outcome, stored as it arrives; whether somebody interrupted."""
    cancelled = threading.Event()
    who = f"{getpass.getuser()}@{socket.gethostname()}"

    def make_job(host: HostPlan) -> Job:
        holder = f"{who} (fleet run {plan.run_id}, as {host.alias})"
        task = Task(host, plan.run_id, plan.rules, bundle.data, bundle.sha256, holder)
        return Job(task, open_transport(host.alias, host.connection), writer.keep, cancelled.is_set)

    with _log_to(writer):
        for host in plan.hosts:
            if not host.cells:
                _tell(HostFinished(alias=host.alias, outcome=skip_host(host, plan.suite)), writer, progress)
        fanout: Fanout[Event] = Fanout(
            (make_job(host).run() for host in plan.hosts if host.cells), plan.forks, cancelled
        )
        with _cancel_on_signal(fanout.cancel):
            for event in fanout.run():
                _tell(event, writer, progress)
    return cancelled.is_set()


def _tell(event: Event, writer: RunWriter, progress: Progress) -> None:
    writer.record(event)
    log.debug("%s", event)
    progress.show(event)


@contextmanager
def _cancel_on_signal(cancel: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP cancels; the second ends fleet at once, as if nothing were set up."""

    def handle(number: int, _frame: FrameType | None) -> None:
        for caught in before:
            signal.signal(caught, before[caught])
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
    """Everything worth a look later goes to the run's own fleet.log; nothing of it to stderr."""
    handler = logging.FileHandler(writer.log_path, encoding="utf-8", errors="backslashreplace")
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
        handler.close()
