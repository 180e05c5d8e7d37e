"""Networks and hosts that misbehave: each ends in time, as the right error, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.errors import ContactLost, FleetError, HostError, Unreachable
from fleet.model.inventory import Connection
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place
from fleet.transport.sockets import open_socket
from tests.servers import blackhole, listening
from tests.transport.conftest import OpenTransport, Sshd, free_port

pytestmark = pytest.mark.needs("ssh", "root")

StartSshd = Callable[..., Sshd]


SLACK_S = 4.0
"""What a busy machine may add to a time."""


def elapsed(began: float) -> float:
    return time.monotonic() - began


def fail(open_ssh: OpenTransport, connection: Connection, timeout_s: float) -> HostError:
    with pytest.raises(HostError) as error:
        open_ssh(connection).run(["true"], timeout_s=timeout_s)
    return error.value


def at(port: int, host: str = "127.0.0.1") -> Connection:
    return Connection(host=host, port=port, user="lab", ssh_args=("-F", "none"))


def test_refused(open_ssh: OpenTransport) -> None:
    began = time.monotonic()
    error = fail(open_ssh, at(port := free_port()), 10)
    assert isinstance(error, Unreachable)
    assert (error.reason, error.host, error.stage) == ("refused", "gpu01", "connect")
    assert f"127.0.0.1:{port}" in error.message
    assert elapsed(began) < SLACK_S


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b", "x" * 70 + ".invalid"])
def test_name_that_does_not_resolve(open_ssh: OpenTransport, name: str) -> None:
    error = fail(open_ssh, at(22, name), 10)
    assert (type(error), error.reason) == (Unreachable, "dns")
    assert name in error.message


def test_blackhole_costs_the_limit(open_ssh: OpenTransport) -> None:
    with blackhole() as port:
        began = time.monotonic()
        assert fail(open_ssh, at(port), 1).reason == "timeout"
        assert 0.9 < elapsed(began) < 1 + SLACK_S


def test_connect_timeout_of_ssh_config(open_ssh: OpenTransport) -> None:
    with blackhole() as port:
        connection = Connection(host="127.0.0.1", port=port, ssh_args=("-F", "none", "-o", "ConnectTimeout=1"))
        began = time.monotonic()
        assert fail(open_ssh, connection, 30).reason == "timeout"
        assert elapsed(began) < 1 + SLACK_S


def test_no_route(open_ssh: OpenTransport) -> None:
    # Multicast takes no TCP connection: the kernel says so at once.
    assert fail(open_ssh, at(22, "224.0.0.1"), 5).reason == "no_route"


def test_silent_port(open_ssh: OpenTransport) -> None:
    with listening(lambda peer: None) as port:
        began = time.monotonic()
        error = fail(open_ssh, at(port), 1)
        assert (type(error), error.reason) == (Unreachable, "banner")
        assert elapsed(began) < 1 + SLACK_S


def test_web_server(open_ssh: OpenTransport) -> None:
    def answer(peer: socket.socket) -> None:
        peer.recv(100)
        peer.sendall(b"HTTP/1.1 400 Bad \x1b[31mRequest\r\n\r\n")
        peer.shutdown(socket.SHUT_RDWR)

    with listening(answer) as port:
        began = time.monotonic()
        error = fail(open_ssh, at(port), 10)
        assert error.reason == "banner"
        assert "HTTP/1.1 400 Bad" in error.message
        assert "\x1b" not in error.message
        assert elapsed(began) < SLACK_S


def test_endless_banner_is_cut_off(open_ssh: OpenTransport) -> None:
    def answer(peer: socket.socket) -> None:
        while True:
            peer.sendall(bytes(65536))

    with listening(answer) as port:
        began = time.monotonic()
        assert fail(open_ssh, at(port), 10).reason == "banner"
        assert elapsed(began) < 8


def test_stalled_key_exchange(open_ssh: OpenTransport) -> None:
    with listening(lambda peer: peer.sendall(b"SSH-2.0-stalled\r\n")) as port:
        began = time.monotonic()
        assert fail(open_ssh, at(port), 1).reason == "key_exchange"
        assert elapsed(began) < 1 + SLACK_S


def test_no_common_algorithm(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd("Ciphers chacha20-poly1305@openssh.com")
    error = fail(open_ssh, sshd.connection(), 10)
    assert (type(error), error.reason) == (Unreachable, "key_exchange")


def test_stopped_sshd_before_connecting(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd()
    sshd.send(signal.SIGSTOP)
    began = time.monotonic()
    assert fail(open_ssh, sshd.connection(), 1).reason == "banner"
    assert elapsed(began) < 1 + SLACK_S


def test_stopped_sshd_costs_the_limit_and_recovers(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd()
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    transport.run(["true"], timeout_s=10)
    sshd.send(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(ContactLost) as lost:
        transport.run(["true"], timeout_s=1)
    assert lost.value.reason == "timeout"
    assert elapsed(began) < 1 + SLACK_S
    sshd.send(signal.SIGCONT)
    assert transport.run(["true"], timeout_s=10).exit_status == 0


def test_sshd_stopped_in_the_middle_of_a_push(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd()
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    transport.run(["true"], timeout_s=10)
    timer = threading.Timer(0.3, sshd.send, [signal.SIGSTOP])
    timer.start()
    began = time.monotonic()
    with pytest.raises(ContactLost) as lost:
        transport.run(["sh", "-c", "sleep 0.5; cat >/dev/null; sleep 9"], stdin=bytes(50_000_000), timeout_s=2)
    timer.join()
    assert lost.value.reason == "timeout"
    assert elapsed(began) < 2 + SLACK_S
    sshd.send(signal.SIGCONT)
    assert transport.run(["true"], timeout_s=10).exit_status == 0


def test_connection_killed_in_mid_command(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd()
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    began = time.monotonic()
    with pytest.raises(ContactLost) as lost:
        transport.run(["sh", "-c", "kill -9 $PPID; sleep 9"], timeout_s=8)
    assert lost.value.reason == "connection_lost"
    assert elapsed(began) < SLACK_S
    assert transport.run(["true"], timeout_s=10).exit_status == 0


def test_connection_that_died_while_idle_is_made_again(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd()
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    transport.run(["true"], timeout_s=10)
    for pid in sshd.descendants():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    assert transport.run(["echo", "again"], timeout_s=10).stdout == b"again\n"


def test_commands_that_outlive_their_limit_do_not_use_up_the_sessions(
    start_sshd: StartSshd, open_ssh: OpenTransport
) -> None:
    sshd = start_sshd("MaxSessions 2")
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    for _ in range(4):
        with pytest.raises(ContactLost, match="did not end"):
            transport.run(["sleep", "9"], timeout_s=0.5)
    assert transport.run(["true"], timeout_s=10).exit_status == 0


def test_busy_sshd_is_tried_again(start_sshd: StartSshd, open_ssh: OpenTransport) -> None:
    sshd = start_sshd("MaxStartups 2:90:3")
    transports = [open_ssh(sshd.connection(), sshd.known_hosts) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda t: t.run(["true"], timeout_s=30).exit_status, transports))
    assert done == [0] * 16
    assert b"MaxStartups" in (sshd.folder / f"log-{sshd.port}").read_bytes(), "the test must have made sshd drop some"


@pytest.mark.needs("unshare")
def test_next_address_is_tried(sshd: Sshd, tmp_path: Path) -> None:
    """A name with two addresses of which the first is a black hole, through the system's own resolver."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.77.0.1 two-addresses.test\n127.0.0.1 two-addresses.test\n")
    script = (
        "import sys, time; from fleet.transport.deadline import Deadline; from fleet.transport.faults import Place;"
        "from fleet.transport.sockets import open_socket; began = time.monotonic();"
        f"s = open_socket(Place('h', 'two-addresses.test', {sshd.port}), 'any', None, Deadline(5));"
        "print(s.getpeername()[0], time.monotonic() - began < 4); s.close()"
    )
    with blackhole("127.77.0.1", sshd.port):
        mounted = f'mount --bind {hosts} /etc/hosts && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", mounted, "sh", sys.executable, "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, env={**os.environ, "PYTHONPATH": "."})
    assert done.stdout == "127.0.0.1 True\n", done.stderr


def test_socket_is_tuned(sshd: Sshd) -> None:
    with open_socket(Place("h", sshd.host, sshd.port), "any", None, Deadline(5)) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_nothing_is_printed(sshd: Sshd, open_ssh: OpenTransport, capfd: pytest.CaptureFixture[str]) -> None:
    with listening(lambda peer: peer.close()) as port:
        fail(open_ssh, at(port), 1)
    with pytest.raises(FleetError):
        open_ssh(sshd.connection(user="nobody-there"), sshd.known_hosts).run(["true"], timeout_s=10)
    assert capfd.readouterr() == ("", "")
