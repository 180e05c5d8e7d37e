"""Many hosts at once: bounded concurrency, events as they happen, and no host that waits for another.

A job is a generator. It is stepped by worker threads: one group takes jobs that are not started yet (connect, probe,
start), for the first time or again, another takes up started jobs whose pause is over. So hosts that hang while
connecting hold up new hosts only, and between two polls a measuring host costs no thread.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from enum import Enum
from typing import Generic, TypeVar

from fleet.host.pause import Pause

HURRY_S = 1.0
"""The longest pause of a cancelled job: its end is wanted soon, and the host is still not to be stormed."""


class _Sign(Enum):
    """What the queue of events carries besides events."""

    END = "a job has ended"
    LEAVE = "nobody waits any more"


Event = TypeVar("Event")
Steps = Generator[Event | Pause, None, None]


class _Line(Generic[Event]):
    """Jobs that wait for a worker of one group, the one that is due first at the top. Guarded by the fan-out's lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self.changed = threading.Condition(lock)
        self.jobs: list[tuple[float, int, Steps[Event]]] = []

    def hurry(self) -> None:
        """No pause is waited for any more."""
        self.jobs = [(0.0, order, job) for _, order, job in self.jobs]
        heapq.heapify(self.jobs)
        self.changed.notify_all()

    def empty(self) -> list[Steps[Event]]:
        """Take all out."""
        jobs, self.jobs = [job for _, _, job in self.jobs], []
        self.changed.notify_all()
        return jobs


class Fanout(Generic[Event]):
    """Runs jobs to their end.

    Args:
        jobs: what to step; each yields events, and `Pause` where it can be left alone.
        forks: how many jobs are connecting at the same time, and how many are polled at the same time.
        cancelled: set when jobs should come to an early end; they look at it themselves, and pause shortly.
        wave: how many jobs are between their beginning and their end at the same time; 0: all of them.
    """

    def __init__(
        self, jobs: Iterable[Steps[Event]], forks: int, cancelled: threading.Event | None = None, wave: int = 0
    ) -> None:
        self._cancelled = cancelled or threading.Event()
        self._lock = threading.Lock()
        self._fresh = deque(jobs)
        self._connecting: _Line[Event] = _Line(self._lock)
        self._started: _Line[Event] = _Line(self._lock)
        self._left = len(self._fresh)
        self._begun = 0
        self._wave = wave or self._left
        self._held = False
        self._order = itertools.count()
        self._events: queue.SimpleQueue[Event | BaseException | _Sign] = queue.SimpleQueue()
        self._workers = min(forks, self._left)

    def cancel(self) -> None:
        """Let the jobs know, and step all of them at once. Safe to call from a signal handler."""
        self._cancelled.set()
        threading.Thread(target=self._end_pauses, daemon=True).start()

    def hold(self) -> None:
        """Begin no more jobs, unless they are cancelled; those that have begun go on. Safe in a signal handler."""
        self._held = True

    def drop(self) -> None:
        """Forget the jobs that have not begun."""
        with self._lock:
            self._left -= len(self._fresh)
            self._fresh.clear()

    def leave(self) -> None:
        """Let `run` end now, whatever goes on. Safe in a signal handler."""
        self._events.put(_Sign.LEAVE)

    def run(self) -> Iterator[Event]:
        """Events of all jobs as they come, until every job has ended or `leave` was called.

        Raises:
            BaseException: whatever a job raised; jobs are expected to end by themselves.
        """
        for line in (self._connecting, self._started):
            for _ in range(self._workers):
                threading.Thread(target=self._work, args=(line,), daemon=True).start()
        try:
            while self._left:
                event = self._events.get()
                if event is _Sign.LEAVE:
                    return
                if event is _Sign.END:
                    self._count_end()
                elif isinstance(event, BaseException):
                    raise event
                elif not isinstance(event, _Sign):
                    yield event
        finally:
            self._dismiss()

    def _count_end(self) -> None:
        with self._lock:
            self._left -= 1
            self._begun -= 1
            self._connecting.changed.notify()

    def _dismiss(self) -> None:
        """No worker takes up a job any more, and what the waiting ones hold is let go of."""
        with self._lock:
            self._left = 0
            waiting = [*self._fresh, *self._connecting.empty(), *self._started.empty()]
            self._fresh.clear()
        for job in waiting:
            job.close()

    def _end_pauses(self) -> None:
        with self._lock:
            self._connecting.hurry()
            self._started.hurry()

    def _work(self, line: _Line[Event]) -> None:
        while (job := self._take(line)) is not None:
            self._step(job)

    def _step(self, job: Steps[Event]) -> None:
        """Until the job pauses or ends."""
        try:
            for event in job:
                if isinstance(event, Pause):
                    self._leave(job, event)
                    return
                self._events.put(event)
            self._events.put(_Sign.END)
        except BaseException as error:
            self._events.put(error)

    def _leave(self, job: Steps[Event], pause: Pause) -> None:
        line = self._connecting if pause.connecting else self._started
        with self._lock:
            # Looked at under the lock, so that no pause slips past the end of all pauses.
            seconds = min(pause.seconds, HURRY_S) if self._cancelled.is_set() else pause.seconds
            heapq.heappush(line.jobs, (time.monotonic() + seconds, next(self._order), job))
            line.changed.notify()

    def _take(self, line: _Line[Event]) -> Steps[Event] | None:
        """A job that may begin, or the one whose pause ends first, when it has ended; None when all jobs have."""
        with self._lock:
            while self._left:
                # First, so that a host that is tried again holds up no other.
                if line is self._connecting and self._fresh and self._may_begin():
                    self._begun += 1
                    return self._fresh.popleft()
                due = line.jobs[0][0] - time.monotonic() if line.jobs else None
                if due is not None and due <= 0:
                    return heapq.heappop(line.jobs)[2]
                line.changed.wait(due)
            return None

    def _may_begin(self) -> bool:
        """A cancelled job has only its end to tell."""
        return self._cancelled.is_set() or (self._begun < self._wave and not self._held)
