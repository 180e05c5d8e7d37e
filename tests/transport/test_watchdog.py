"""Blocks that last too long, in many threads at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from fleet.transport.watchdog import Watchdog


def count_threads() -> int:
    return sum(thread.name == "fleet-watchdog" for thread in threading.enumerate())


def await_no_thread() -> None:
    until = time.monotonic() + 2
    while count_threads():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_each_block_is_bounded_by_its_own_limit() -> None:
    watchdog, begin = Watchdog(), time.monotonic()

    def wait(seconds: float) -> float:
        ended = threading.Event()
        with watchdog.watch(seconds, ended.set):
            assert ended.wait(5)
        return time.monotonic() - begin

    with ThreadPoolExecutor(8) as pool:
        # The first wakes the thread for nothing, the last is the soonest.
        limits = [0.6, 0.5, 0.4, 0.3, 0.3, 0.2, 0.1, 0.05]
        took = list(pool.map(wait, limits))

    assert all(limit <= seconds < limit + 0.2 for limit, seconds in zip(limits, took, strict=True)), took
    await_no_thread()


def test_a_block_that_ends_is_left_alone() -> None:
    watchdog, acted = Watchdog(), threading.Event()

    with watchdog.watch(60, threading.Event().set):
        for _ in range(50):
            with watchdog.watch(0.05, acted.set):
                assert count_threads() == 1
        time.sleep(0.1)

    assert not acted.is_set()
    await_no_thread()


def test_blocks_come_and_go_in_many_threads() -> None:
    watchdog, late = Watchdog(), []

    def work(number: int) -> None:
        for turn in range(200):
            with watchdog.watch(30, lambda: late.append(number)):
                time.sleep(0.0005 * (turn % 3))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))

    assert late == []
    await_no_thread()
