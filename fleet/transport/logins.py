"""How many log in at one SSH server at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator

from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, unreachable
from fleet.transport.watchdog import WATCHDOG

AT_ONCE = 8
"""sshd drops connections at random from the eleventh on that has not logged in (MaxStartups 10:30:100), and others
than fleet log in there too."""

HOLD_S = 3.0
"""A login takes less. What takes longer waits for something else, as a dead host behind a proxy, and delays nobody."""


class Logins:
    """Those under way, by server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(AT_ONCE))

    @contextlib.contextmanager
    def enter(self, server: str, place: Place, deadline: Deadline) -> Iterator[None]:
        """Wait for room at a server, and take it until the block ends, but not for longer than a login takes.

        Raises:
            Unreachable: there was none before the deadline.
        """
        with self._lock:
            room = self._rooms[server]
        if not room.acquire(timeout=deadline.left()):
            raise unreachable(place, "timeout", f"had no room in time: {AT_ONCE} others were logging in there")
        left: list[bool] = []

        def leave() -> None:
            left.append(True)
            room.release()

        try:
            with WATCHDOG.watch(HOLD_S, leave):
                yield
        finally:
            if not left:
                room.release()


LOGINS = Logins()
"""The ones of all connections."""
