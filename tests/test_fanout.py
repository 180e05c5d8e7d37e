"""Many jobs at once: bounded, independent of one another, soon over when cancelled, and nothing left behind."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator

import pytest

from fleet.fanout import HURRY_S, Fanout
from fleet.host.pause import Pause
from tests.waiting import wait_for

Job = Generator[str | Pause, None, None]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Generator[None, None, None]:
    before = threading.active_count()
    yield
    wait_for(lambda: threading.active_count() <= before)


class Meter:
    """How many are inside at the same time, at most."""

    def __init__(self) -> None:
        self.most = self._inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


def test_never_more_than_forks_connect_or_are_polled_at_once() -> None:
    connecting, polling = Meter(), Meter()

    def work(name: str) -> Job:
        with connecting:
            time.sleep(0.02)
        yield name
        yield Pause(0.03)
        with polling:
            time.sleep(0.02)
        yield name

    events = list(Fanout([work(str(n)) for n in range(20)], forks=3).run())

    assert Counter(events) == {str(n): 2 for n in range(20)}
    assert (connecting.most, polling.most) == (3, 3)


@pytest.mark.parametrize("pause", [None, Pause(0)], ids=["connecting", "polled"])
def test_a_job_that_hangs_delays_no_other(pause: Pause | None) -> None:
    release = threading.Event()

    def hang() -> Job:
        if pause:
            yield pause
        release.wait()
        yield "hung"

    def work(name: str) -> Job:
        yield name
        yield Pause(0.01)
        yield name

    begin = time.monotonic()
    others = {f"job{n}": 2 for n in range(20)}
    seen: Counter[str] = Counter()
    for event in Fanout([hang(), *(work(name) for name in others)], forks=2).run():
        seen[event] += 1
        if seen == others:
            assert time.monotonic() - begin < 10
            release.set()

    assert seen == {**others, "hung": 1}


def test_a_job_that_connects_again_and_hangs_delays_no_started_one() -> None:
    release, hangs = threading.Event(), threading.Event()

    def hang() -> Job:
        yield Pause(0.05, connecting=True)
        hangs.set()
        release.wait()
        yield "hung"

    def work() -> Job:
        yield Pause(0.2)
        assert hangs.is_set()
        release.set()
        yield "worked"

    assert sorted(Fanout([hang(), work()], forks=1).run()) == ["hung", "worked"]


def test_a_job_that_connects_again_is_one_of_those_that_connect() -> None:
    connecting = Meter()

    def work(name: str) -> Job:
        for _ in range(2):
            with connecting:
                time.sleep(0.02)
            yield Pause(0.01, connecting=True)
        yield name

    assert len(list(Fanout([work(str(n)) for n in range(10)], forks=3).run())) == 10
    assert connecting.most == 3


def test_who_connects_again_lets_those_who_never_did_go_first() -> None:
    def fail() -> Job:
        yield Pause(0.0, connecting=True)
        yield "again"

    def work(name: str) -> Job:
        time.sleep(0.02)
        yield name

    assert list(Fanout([fail(), work("a"), work("b")], forks=1).run()) == ["a", "b", "again"]


def test_events_arrive_as_they_happen() -> None:
    told = threading.Event()

    def work() -> Job:
        yield "begun"
        assert told.wait(30), "the event waits for the end of its job"
        yield "ended"

    events = Fanout([work()], forks=1).run()
    assert next(events) == "begun"
    told.set()
    assert list(events) == ["ended"]


def test_a_long_pause_costs_no_worker_and_the_shortest_comes_first() -> None:
    def work(seconds: float) -> Job:
        yield Pause(seconds)
        yield f"{seconds}"

    begin = time.monotonic()
    events = list(Fanout([work(s) for s in (1.5, 1.0, 0.5)], forks=1).run())

    assert events == ["0.5", "1.0", "1.5"]
    assert time.monotonic() - begin < 3, "all of them, one after the other"


def test_cancel_ends_pauses_at_once_and_later_ones_soon() -> None:
    cancelled, steps = threading.Event(), Counter[str]()

    def work(name: str) -> Job:
        yield "begun"
        yield Pause(600)
        assert cancelled.is_set()
        end = time.monotonic() + 1.5 * HURRY_S
        while time.monotonic() < end:
            steps[name] += 1
            yield Pause(600)
        yield name

    names = ["a", "b", "c"]
    fanout: Fanout[str] = Fanout([work(name) for name in names], 2, cancelled)
    begun, ended = 0, []
    for event in fanout.run():
        if event == "begun":
            begun += 1
            if begun == len(names):
                cancelled_at = time.monotonic()
                fanout.cancel()
        else:
            ended.append(event)

    assert sorted(ended) == names
    assert 1.5 * HURRY_S <= time.monotonic() - cancelled_at < 10 * HURRY_S
    assert set(steps.values()) <= {1, 2}, "a cancelled job is looked at again soon, and its host is not stormed"


def test_an_exception_surfaces_and_ends_everything() -> None:
    closed = threading.Event()

    def broken() -> Job:
        yield "begun"
        yield Pause(0.05)
        raise ZeroDivisionError("a fault of ours")

    def waiting() -> Job:
        try:
            yield Pause(600)
        finally:
            closed.set()

    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        list(Fanout([waiting(), broken()], forks=2).run())
    assert closed.wait(30), "what a job holds is let go of"


def test_whoever_stops_listening_stops_the_work() -> None:
    def work() -> Job:
        while True:
            yield "event"
            yield Pause(0.01)

    events = Fanout([work() for _ in range(5)], forks=2).run()
    assert next(events) == "event"
    events.close()  # type: ignore[attr-defined]


def test_five_hundred_jobs() -> None:
    def work(name: str) -> Job:
        for _ in range(3):
            yield Pause(0.01)
            yield name

    begin = time.monotonic()
    counts = Counter(Fanout([work(str(n)) for n in range(500)], forks=32).run())

    assert set(counts.values()) == {3}
    assert len(counts) == 500
    assert time.monotonic() - begin < 30


def test_no_jobs_is_no_work() -> None:
    assert list(Fanout[str]([], forks=32).run()) == []


def count_down(running: Meter, hold: threading.Event | None = None) -> Job:
    with running:
        yield "begun"
        yield Pause(0.02)
        if hold:
            hold.wait(5)
    yield "done"


def test_a_wave_is_all_that_is_between_beginning_and_end() -> None:
    running = Meter()
    fanout: Fanout[str] = Fanout((count_down(running) for _ in range(12)), 8, wave=3)
    assert Counter(fanout.run()) == {"begun": 12, "done": 12}
    assert running.most == 3


def test_held_it_begins_nothing_more_and_what_was_dropped_never() -> None:
    running, hold = Meter(), threading.Event()
    fanout: Fanout[str] = Fanout((count_down(running, hold) for _ in range(12)), 2, wave=2)
    events = []
    for event in fanout.run():
        events.append(event)
        if len(events) == 2:
            fanout.hold()
            fanout.drop()
            hold.set()
    assert Counter(events) == {"begun": 2, "done": 2}


def test_whoever_leaves_waits_for_nobody() -> None:
    running, hold = Meter(), threading.Event()
    fanout: Fanout[str] = Fanout((count_down(running, hold) for _ in range(3)), 3)
    events = []
    for event in fanout.run():
        events.append(event)
        if len(events) == 3:
            fanout.leave()
    hold.set()
    assert Counter(events) == {"begun": 3}
