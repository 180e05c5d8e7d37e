"""How many times the network is crossed until a host's job runs, and how long that takes on a host far away.

    python tests/bench/round_trips.py

`fleet run` reaches one host through a relay that holds every byte for half a round trip, each way, and counts round
trips until the payload starts. Linux and root, as for `fanout.py`. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.fanout_hosts import Hosts, start_hosts
from tests.bench.fanout_whole import build_whole
from tests.bench.fanout_work import Work

ROOT = Path(__file__).parents[2]
FAR_S = 0.1
MOST_ROUND_TRIPS = 9.0
MOST_FAR_S = 1.2
"""From the first packet to the running job, `FAR_S` away."""


class Relay:
    """A TCP port in front of another that is a round trip of `round_trip_s` further away.

    It counts round trips as a logical clock does: what we send is one more than the last that we had heard of by then.
    """

    def __init__(self, target: tuple[str, int], round_trip_s: float) -> None:
        self._target, self._one_way_s = target, round_trip_s / 2
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.first_s: float | None = None
        """When the first connection was asked for, by the clock of the day."""
        self.arrivals: list[tuple[float, int]] = []
        """Of what we sent: when it arrived there, and in which round trip."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self.first_s = self.first_s or time.time()
                # The kernel has answered at once: the round trip of TCP's own greeting is waited for here.
                time.sleep(2 * self._one_way_s)
                far = socket.create_connection(self._target)
                heard = {near: 1, far: 0}
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=(one, other, heard, one is near), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, heard: dict[socket.socket, int], ours: bool) -> None:
        on_the_way: queue.SimpleQueue[tuple[float, int, bytes]] = queue.SimpleQueue()

        def deliver() -> None:
            with contextlib.suppress(OSError):
                while (item := on_the_way.get())[2]:
                    time.sleep(max(0.0, item[0] - time.monotonic()))
                    heard[target] = max(heard[target], item[1])
                    if ours:
                        self.arrivals.append((time.time(), item[1]))
                    target.sendall(item[2])
                target.shutdown(socket.SHUT_WR)

        threading.Thread(target=deliver, daemon=True).start()
        data = b"begin"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            on_the_way.put((time.monotonic() + self._one_way_s, heard[source] + ours, data))


@contextlib.contextmanager
def move_away(hosts: Hosts, round_trip_s: float) -> Iterator[tuple[Hosts, Relay]]:
    """The first host, so far away."""
    relay = Relay((hosts.addresses[0], hosts.port), round_trip_s)
    key = hosts.known_hosts.read_text().split(" ", 1)[1].split("\n")[0]
    known_hosts = hosts.folder / "known_hosts_far"
    known_hosts.write_text(f"[127.0.0.1]:{relay.port} {key}\n")
    config = hosts.folder / "ssh_config_far"
    text = hosts.ssh_config.read_text().replace(f"Port {hosts.port}", f"Port {relay.port}")
    config.write_text(text.replace(str(hosts.known_hosts), str(known_hosts)))
    try:
        yield (
            replace(hosts, addresses=("127.0.0.1",), port=relay.port, known_hosts=known_hosts, ssh_config=config),
            relay,
        )
    finally:
        relay.close()


def time_start(hosts: Hosts, round_trip_s: float) -> tuple[float, float]:
    """Seconds from the first packet until the job's payload runs, and the round trips that passed in them."""
    with move_away(hosts, round_trip_s) as (far, relay):
        work = Work(far, 1, hosts.folder / "work")
        work.prepare()
        argv = build_whole(work, ROOT)
        started = work.folder / "started"
        started.unlink(missing_ok=True)
        python = work.folder / "python"
        stand_in = python.rename(work.folder / "stand-in")
        python.write_text(f'#!/bin/sh\n[ "$2" != run ] || date +%s.%N >{started}\nexec {stand_in} "$@"\n')
        python.chmod(0o755)
        done = subprocess.run([*argv, "--ignore-busy"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0 or relay.first_s is None:
            sys.exit(f"fleet run failed:\n{done.stdout}\n{done.stderr}")
        at = float(started.read_text())
        # It started when the last of these had gone one half of its way.
        return at - relay.first_s, max(trip for arrived, trip in relay.arrivals if arrived <= at) - 0.5


def main() -> int:
    with start_hosts(1) as hosts:
        near = statistics.median(time_start(hosts, 0.0)[0] for _ in range(5))
        far = [time_start(hosts, FAR_S) for _ in range(5)]
    far_s, trips = (statistics.median(values) for values in zip(*far, strict=True))
    print(f"round trips from the first packet to the running job: {trips}; at most {MOST_ROUND_TRIPS:g}")
    print(f"a host {FAR_S * 1000:.0f} ms away: its job runs after {far_s:.2f} s; at most {MOST_FAR_S:g} s")
    print(f"a host next to us: after {near:.2f} s, which is work and no network")
    return int(trips > MOST_ROUND_TRIPS or far_s > MOST_FAR_S)


if __name__ == "__main__":
    sys.exit(main())
