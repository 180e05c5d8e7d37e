"""Runs one command and says what it took: wall time, processor time and memory, of it and all that it starts.

    python -m tests.bench.fanout_measure COMMAND…

Prints one line of JSON. What the command leaves running (OpenSSH's masters, for one) is ended and counted too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SHARE = 0.05
"""The most of one core that looking at the memory may take."""

_LEAST_PAUSE_S = 0.05


def list_descendants() -> list[int]:
    """Processes that this one started, and theirs."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        for file in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += (more := [int(pid) for pid in file.read_text().split()])
                found += more
    return found


def read_memory(pid: int) -> int:
    """Bytes in memory; what processes share is divided among them. 0 when the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


class Sampler(threading.Thread):
    """Looks at the memory of all descendants again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0

    def run(self) -> None:
        while True:
            before = time.thread_time()
            self.peak_bytes = max(self.peak_bytes, sum(map(read_memory, list_descendants())))
            time.sleep(max(_LEAST_PAUSE_S, (time.thread_time() - before) / _SHARE))


def end_rest() -> None:
    """End what is left of the descendants, and wait, so that what they took is counted."""
    for pid in list_descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def main(argv: list[str]) -> None:
    # Whoever loses its parent becomes our child, not init's.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sampler = Sampler()
    sampler.start()
    before = time.monotonic()
    status = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode
    wall_s = time.monotonic() - before
    end_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {"status": status, "wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime}
    print(json.dumps({**taken, "peak_bytes": sampler.peak_bytes}))


if __name__ == "__main__":
    main(sys.argv[1:])
