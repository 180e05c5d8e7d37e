"""The middle of `fleet run`: jobs out, events in, Ctrl-C in between."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fleet.bundle import Bundle
from fleet.cli.select import name_inventory
from fleet.fanout import Fanout
from fleet.host.job import Job
from fleet.host.steps import Task
from fleet.model.event import Event, HostFinished
from fleet.model.plan import HostPlan, Plan
from fleet.plan import skip_host
from fleet.progress import Progress
from fleet.report.wording import count_things
from fleet.store.writer import RunWriter
from fleet.transport.open import open_transport
from fleet.transport.ssh_tokens import local_user

log = logging.getLogger("fleet")


def measure_hosts(
    plan: Plan, bundle: Bundle, writer: RunWriter, progress: Progress, say: Callable[[str], None]
) -> bool:
    """Take every planned host to its one outcome, stored as it arrives; whether somebody interrupted.

    `say` shows a sentence to whoever waits; it may be called from any thread.
    """
    cancelled = threading.Event()
    left = {host.alias for host in plan.hosts if host.cells}
    who = f"{local_user()}@{socket.gethostname()}"

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

        def cancel() -> None:
            fanout.cancel()
            words = f"cancelling on {count_things(len(left), 'host')}; Ctrl-C again leaves at once"
            # A handler interrupts whatever holds the display's lock; a thread of its own waits for it.
            threading.Thread(target=say, args=(words,), daemon=True).start()

        with _cancel_on_signal(cancel):
            for event in fanout.run():
                if isinstance(event, HostFinished):
                    left.discard(event.alias)
                    event = _name_inventory(event, plan.inventory)
                _tell(event, writer, progress)
    return cancelled.is_set()


def _name_inventory(event: HostFinished, inventory: str) -> HostFinished:
    hint = name_inventory(event.outcome.hint, inventory)
    return event.model_copy(update={"outcome": event.outcome.model_copy(update={"hint": hint})})


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
