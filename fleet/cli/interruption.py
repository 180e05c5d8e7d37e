"""Ctrl-C, SIGTERM, SIGHUP: the first leaves jobs to their hosts, the second ends them there, the third ends fleet."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SECOND_THOUGHT_S = 2.0
"""How long after the first one a second still finds fleet there."""

log = logging.getLogger("fleet")


@contextmanager
def answer_signals(leave: Callable[[str], None], cancel: Callable[[str], None]) -> Iterator[None]:
    """Call `leave` with the first signal's name and `cancel` with the second's; the third is a KeyboardInterrupt."""
    answers = [leave, cancel]

    def handle(number: int, _frame: FrameType | None) -> None:
        answer = answers.pop(0)
        log.warning("%s: %s", signal.Signals(number).name, answer.__name__)
        if not answers:
            for caught in before:
                if before[caught] != signal.SIG_IGN:
                    signal.signal(caught, signal.default_int_handler)
        answer("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)

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


def call_later(seconds: float, action: Callable[[], None]) -> threading.Timer:
    """Call `action` from a thread of its own, which keeps nobody from ending; cancel the timer to prevent it."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer
