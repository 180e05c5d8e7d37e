"""What it costs to watch many hosts while they measure: processor time, memory and connections of `fleet run`.

    python tests/bench/polls.py                              # 256 hosts for ten minutes, by the default interval
    python tests/bench/polls.py --hosts 64 --minutes 2
    python tests/bench/polls.py --minutes 2 --live           # on a terminal: the live display draws all the while

Their jobs do nothing until the time is up. It is counted from the moment when all are polled no more often than at the
longest interval. Linux and root, as for `fanout.py`. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.fanout_hosts import start_hosts
from tests.bench.fanout_whole import build_whole
from tests.bench.fanout_work import Work

ROOT = Path(__file__).parents[2]
MOST_SHARE = 0.10
"""Of one core."""
MOST_GROWTH = 0.05
"""Of memory, from the first look to the last."""
SETTLE_S = 60.0
EVERY_S = 10.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """One look at the process."""

    at_s: float
    cpu_s: float
    resident_bytes: int
    connections: int
    threads: int


def look_at(pid: int) -> Look:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    sockets = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            sockets += path.readlink().name.startswith("socket:")
    return Look(time.monotonic(), (int(words[11]) + int(words[12])) * TICK_S, resident, sockets, int(words[17]))


def watch(process: subprocess.Popen[bytes], started: Path, count: int, minutes: float) -> list[Look]:
    """Look at `fleet run` until the time is up, from when all hosts are at work."""
    while len(list(started.iterdir())) < count:
        if process.poll() is not None:
            sys.exit("fleet run ended before all hosts were at work")
        time.sleep(0.5)
    time.sleep(SETTLE_S)
    looks = [look_at(process.pid)]
    while looks[-1].at_s - looks[0].at_s < minutes * 60:
        time.sleep(EVERY_S)
        looks.append(look_at(process.pid))
        share = (looks[-1].cpu_s - looks[-2].cpu_s) / (looks[-1].at_s - looks[-2].at_s)
        print(
            f"{looks[-1].at_s - looks[0].at_s:5.0f} s  {share * 100:4.1f} % of a core  "
            f"{looks[-1].resident_bytes / 1e6:.0f} MB  {looks[-1].connections} sockets  {looks[-1].threads} threads",
            flush=True,
        )
    return looks


def open_terminal() -> int:
    """The file descriptor of a terminal whose other end is read and thrown away."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def throw_away() -> None:
        with contextlib.suppress(OSError):
            while os.read(ours, 1 << 16):
                pass

    threading.Thread(target=throw_away, daemon=True).start()
    return theirs


def make_lasting(work: Work) -> Path:
    """Let the stand-in work until there is a file `end`; where each host leaves a file when it begins."""
    started = work.folder / "started"
    started.mkdir(exist_ok=True)
    python = work.folder / "python"
    stand_in = python.rename(work.folder / "stand-in")
    begin = f": >{started}/$(cat /etc/machine-id)"
    wait = f"until [ -e {work.folder}/end ]; do sleep 5; done"
    python.write_text(f'#!/bin/sh\nif [ "$2" = run ]; then {begin}; {wait}; fi\nexec {stand_in} "$@"\n')
    python.chmod(0o755)
    return started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=256, metavar="N")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M")
    parser.add_argument("--live", action="store_true", help="let it draw on a terminal of 120 columns and 40 lines")
    arguments = parser.parse_args()
    with start_hosts(arguments.hosts) as hosts, (hosts.folder / "said").open("w+") as said:
        work = Work(hosts, 32, hosts.folder / "work")
        work.prepare()
        argv = [*build_whole(work, ROOT), "--ignore-busy"]
        started = make_lasting(work)
        screen = open_terminal() if arguments.live else said.fileno()
        process = subprocess.Popen(argv, cwd=ROOT, stdout=said, stderr=screen)
        try:
            looks = watch(process, started, arguments.hosts, arguments.minutes)
            (work.folder / "end").touch()
            process.wait(timeout=600)
        except BaseException:
            process.kill()
            said.seek(0)
            print(said.read()[-2000:], file=sys.stderr)
            raise
    first, last = looks[0], looks[-1]
    share = (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)
    growth = last.resident_bytes / first.resident_bytes - 1
    most, least = max(look.connections for look in looks), min(look.connections for look in looks)
    print(f"{share * 100:.1f} % of one core; at most {MOST_SHARE * 100:.0f} %")
    print(f"memory grew by {growth * 100:.1f} % in {arguments.minutes:g} minutes; at most {MOST_GROWTH * 100:.0f} %")
    print(f"between {least} and {most} sockets for {arguments.hosts} hosts")
    print(f"fleet run ended with {process.returncode}")
    return int(share > MOST_SHARE or growth > MOST_GROWTH or process.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
