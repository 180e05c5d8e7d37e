"""Steps that may hang: taken in a thread, and left to themselves when nobody waits for them any more."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.2
"""How soon it is noticed that nobody waits."""

Answer = TypeVar("Answer")


class LeftAlone(Exception):
    """Nobody waits for the step any more; what it finds is lost."""


def take_step(
    step: Callable[[], Answer], cancelled: Callable[[], bool], patience_s: float, let_go: Callable[[], None]
) -> Answer:
    """The step's answer, or what it raises.

    Args:
        patience_s: how long it is waited for once `cancelled`, from then or from its beginning on.
        let_go: called when a step is left alone, and once more when it has ended: it may have connected in between.

    Raises:
        LeftAlone: that long has passed.
    """
    answers: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
    left = threading.Event()

    def take() -> None:
        try:
            answers.put(step())
        except BaseException as error:
            answers.put(error)
        if left.is_set():
            let_go()

    threading.Thread(target=take, name=f"{threading.current_thread().name}-step", daemon=True).start()
    cancelled_at = None
    while True:
        try:
            answer = answers.get(timeout=LOOK_S)
        except queue.Empty:
            if cancelled():
                cancelled_at = cancelled_at or time.monotonic()
                if time.monotonic() - cancelled_at >= patience_s:
                    left.set()
                    let_go()
                    raise LeftAlone from None
            continue
        if isinstance(answer, BaseException):
            raise answer
        return answer
