"""Many logins at one sshd: as many at a time as it bears, and none waits for one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.errors import Unreachable
from fleet.transport import logins
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place
from fleet.transport.logins import AT_ONCE, Logins
from tests.transport.conftest import OpenTransport, Sshd

StartSshd = Callable[..., Sshd]

HERE = Place("gpu01", "gate", 22)


def test_one_server_has_room_for_some_and_every_other_has_its_own() -> None:
    rooms, most, inside, lock = Logins(), 0, 0, threading.Lock()

    def log_in(_: int) -> None:
        nonlocal most, inside
        with rooms.enter("gate:22", HERE, Deadline(10)):
            with lock:
                inside += 1
                most = max(most, inside)
            with rooms.enter("other:22", HERE, Deadline(10)):
                time.sleep(0.02)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(log_in, range(30)))
    assert most == AT_ONCE


def test_who_hangs_leaves_the_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "HOLD_S", 0.2)
    rooms, ended = Logins(), threading.Event()

    def hang(_: int) -> None:
        with rooms.enter("gate:22", HERE, Deadline(10)):
            ended.wait(20)

    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        hung = pool.map(hang, range(2 * AT_ONCE))
        begin = time.monotonic()
        with rooms.enter("gate:22", HERE, Deadline(10)):
            assert time.monotonic() - begin < 5
        ended.set()
        list(hung)
    # And nobody left it twice.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended.clear()
        hung = pool.map(hang, range(AT_ONCE))
        time.sleep(0.05)
        with pytest.raises(Unreachable, match="had no room in time"), rooms.enter("gate:22", HERE, Deadline(0.05)):
            pass
        ended.set()
        list(hung)


@pytest.mark.needs("ssh", "root")
def test_sixty_hosts_behind_one_sshd_as_debian_configures_it(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    """MaxStartups 10:30:100 drops one in three from the eleventh on: without limit, most of sixty are dropped once."""
    sshd = start_sshd("MaxStartups 10:30:100")
    assert reach(sshd, open_ssh, 60) == [0] * 60
    assert (sshd.folder / f"log-{sshd.port}").read_bytes().count(b"MaxStartups") <= 12


@pytest.mark.needs("ssh", "root")
def test_sixty_hosts_behind_an_sshd_that_bears_two(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd("MaxStartups 2:50:8")
    assert reach(sshd, open_ssh, 60) == [0] * 60
    assert b"MaxStartups" in (sshd.folder / f"log-{sshd.port}").read_bytes(), "the test must have made sshd drop some"


def reach(sshd: Sshd, open_ssh: OpenTransport, count: int) -> list[int]:
    transports = [open_ssh(sshd.connection(), sshd.known_hosts) for _ in range(count)]
    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(lambda t: t.run(["true"], timeout_s=60).exit_status, transports))
