"""Waiting: for what another process or thread brings about, and for what only one may have at a time."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def wait_for(what: Callable[[], object], timeout_s: float = 90) -> None:
    """Until it is true."""
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end, f"it never came to pass within {timeout_s:g} s"
        time.sleep(0.02)


@contextmanager
def hold(lock: Path) -> Iterator[None]:
    """Hold a lock among all processes of this machine; the file is made, and stays."""
    if not lock.exists():
        lock.touch()
    with lock.open() as file:  # for reading: another user's file in /tmp may not be opened otherwise
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
