"""Many hosts at once: bounded concurrency, events as they happen, and no host that waits for another.

A job is a generator. It is stepped by worker threads: one group takes new jobs (connect, probe, start), another takes
up started jobs whose pause is over. So hosts that hang while connecting hold up new hosts only, and between two polls a
measuring host costs no thread.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from fleet.host.follow import Pause

HURRY_S = 1.0
"""The longest pause of a cancelled job: its end is wanted soon, and the host is still not to be stormed."""

Event = TypeVar("Event")
Steps = Generator[Event | Pause, None, None]


class Fanout(Generic[Event]):
    """Runs jobs to their end.

    Args:
        jobs: what to step; each yields events, and `Pause` where it can be left alone.
        forks: how many jobs are connecting at the same time, and how many are polled at the same time.
        cancelled: set when jobs should come to an early end; they look at it themselves, and pause shortly.
    """

    def __init__(self, jobs: Iterable[Steps[Event]], forks: int, cancelled: threading.Event | None = None) -> None:
        self._cancelled = cancelled or threading.Event()
        self._new: deque[Steps[Event]] = deque(jobs)
        self._paused: list[tuple[float, int, Steps[Event]]] = []
        self._left = len(self._new)
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._workers = min(forks, self._left)

    def cancel(self) -> None:
        """Let the jobs know, and step all of them at once. Safe to call from a signal handler."""
        self._cancelled.set()
        threading.Thread(target=self._end_pauses, daemon=True).start()

    def run(self) -> Iterator[Event]:
        """Events of all jobs as they come, until every job has ended.

        Raises:
            BaseException: whatever a job raised; jobs are expected to end by themselves.
        """
        for take in (self._take_new, self._take_paused):
            for _ in range(self._workers):
                threading.Thread(target=self._work, args=(take,), daemon=True).start()
        try:
            while self._left:
                event = self._events.get()
                if event is None:
                    self._left -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            self._dismiss()

    def _dismiss(self) -> None:
        """No worker takes up a job any more, and what the waiting ones hold is let go of."""
        self._new.clear()
        with self._changed:
            self._left = 0
            waiting, self._paused = self._paused, []
            self._changed.notify_all()
        for _, _, job in waiting:
            job.close()

    def _end_pauses(self) -> None:
        with self._changed:
            self._paused = [(0.0, order, job) for _, order, job in self._paused]
            heapq.heapify(self._paused)
            self._changed.notify_all()

    def _work(self, take: Callable[[], Steps[Event] | None]) -> None:
        while (job := take()) is not None:
            self._step(job)

    def _step(self, job: Steps[Event]) -> None:
        """Until the job pauses or ends."""
        try:
            for event in job:
                if isinstance(event, Pause):
                    with self._changed:
                        # Looked at under the lock, so that no pause slips past the end of all pauses.
                        seconds = min(event.seconds, HURRY_S) if self._cancelled.is_set() else event.seconds
                        heapq.heappush(self._paused, (time.monotonic() + seconds, next(self._order), job))
                        self._changed.notify()
                    return
                self._events.put(event)
            self._events.put(None)
        except BaseException as error:
            self._events.put(error)

    def _take_new(self) -> Steps[Event] | None:
        try:
            return self._new.popleft()
        except IndexError:
            return None

    def _take_paused(self) -> Steps[Event] | None:
        """The job whose pause ends first, when it has ended; None when all jobs have."""
        with self._changed:
            while self._left:
                due = self._paused[0][0] - time.monotonic() if self._paused else None
                if due is not None and due <= 0:
                    return heapq.heappop(self._paused)[2]
                self._changed.wait(due)
            return None
