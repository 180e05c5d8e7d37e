"""Acts when time is up: one thread for all that is watched, which ends when there is nothing to watch."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator


class Watchdog:
    """Blocks of code that are not to last longer than they may, in any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[object, tuple[float, Callable[[], None]]] = {}
        self._wakes_at: float | None = None
        """When the thread looks next; None: there is no thread."""

    @contextlib.contextmanager
    def watch(self, seconds: float, act: Callable[[], None]) -> Iterator[None]:
        """Call `act`, which waits for nothing and raises nothing, if the block lasts longer; never after its end."""
        entry, at = object(), time.monotonic() + seconds
        with self._changed:
            self._watched[entry] = (at, act)
            if self._wakes_at is None:
                self._wakes_at = math.inf
                threading.Thread(target=self._run, name="fleet-watchdog", daemon=True).start()
            elif at < self._wakes_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(entry, None)
                if not self._watched:
                    self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._watched:
                for entry, (at, act) in list(self._watched.items()):
                    if at <= time.monotonic():
                        del self._watched[entry]
                        act()
                self._wakes_at = min((at for at, _ in self._watched.values()), default=0.0)
                self._changed.wait(max(0.0, self._wakes_at - time.monotonic()))
            self._wakes_at = None


WATCHDOG = Watchdog()
"""The one that all connections share."""
