"""Commands as root, by a real sudo on hosts of the lab."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterator

import pytest

from fleet.errors import PreflightFailed
from fleet.model.inventory import Connection, Host, Settings
from fleet.transport.base import Transport
from fleet.transport.open import open_transport
from fleet.transport.passwords import Passwords
from tests.conftest import LabHosts
from tests.lab.hosts import LabHost
from tests.lab.lab import Lab

pytestmark = pytest.mark.needs("ssh", "docker")

PASSWORD = "s3cret und $ü'per"
EVERYTHING = "bench ALL=(ALL) ALL"

Open = Callable[..., Transport]


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[LabHost]:
    """Its user has a password; each test writes the rules."""
    (host,) = lab.add_hosts(1, docker_permission=False)
    host.set_password(PASSWORD)
    yield host
    lab.remove_hosts([host])


@pytest.fixture
def open_root() -> Iterator[Open]:
    opened: list[Transport] = []

    def make(host: LabHost, password: str | None = None) -> Transport:
        args = ("-F", "none", "-o", f"UserKnownHostsFile={host.known_hosts}")
        connection = Connection(
            host=host.address, user=host.user, private_key_file=str(host.private_key), ssh_args=args
        )
        target = Host(alias=host.alias, connection=connection, settings=Settings(become=True))
        opened.append(open_transport(target, Passwords(sudo=password)))
        return opened[-1]

    yield make
    for transport in opened:
        transport.close()


def set_rules(host: LabHost, *rules: str) -> None:
    host.exec("sh", "-c", "cat >/etc/sudoers.d/fleet-lab", stdin="".join(f"{rule}\n" for rule in rules).encode())


def fail(transport: Transport) -> PreflightFailed:
    with pytest.raises(PreflightFailed) as error:
        transport.run(["true"], timeout_s=30)
    return error.value


@pytest.mark.parametrize(
    ("rules", "password"),
    [
        ((EVERYTHING,), PASSWORD),
        (("bench ALL=(ALL) NOPASSWD: ALL",), None),
        (("bench ALL=(ALL) NOPASSWD: ALL",), "a password that nobody wants"),
        ((EVERYTHING, "Defaults lecture=always", "Defaults use_pty"), PASSWORD),
        ((EVERYTHING, "Defaults log_output", "Defaults timestamp_type=global"), PASSWORD),
    ],
)
def test_a_command_is_roots_and_has_its_own_input(
    host: LabHost, open_root: Open, rules: tuple[str, ...], password: str | None
) -> None:
    set_rules(host, *rules)
    transport = open_root(host, password)
    script = 'id -un; echo "$HOME"; pwd; printf "%s|" "$@"; cat; echo problem >&2; exit 5'
    for _ in range(2):
        done = transport.run(["/bin/sh", "-c", script, "x", "a b", "", "'\n☃"], stdin=b"line 1\nline 2", timeout_s=30)
        assert done.stdout.decode() == "root\n/root\n/root\na b||'\n☃|line 1\nline 2"
        assert (done.exit_status, done.stderr, done.truncated) == (5, b"problem\n", False)
    assert str(transport.route).endswith(", then root by sudo")


def test_megabytes_go_in_and_come_out(host: LabHost, open_root: Open) -> None:
    set_rules(host, EVERYTHING)
    data = os.urandom(5_000_000)
    transport = open_root(host, PASSWORD)
    assert transport.run(["cat"], stdin=io.BytesIO(data), timeout_s=60, limit_bytes=len(data)).stdout == data
    script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 9"
    done = transport.run(["sh", "-c", script], timeout_s=60, limit_bytes=10)
    assert (done.exit_status, len(done.stdout), len(done.stderr), done.truncated) == (9, 10, 10, True)


def test_what_is_started_detached_goes_on(host: LabHost, open_root: Open) -> None:
    set_rules(host, EVERYTHING, "Defaults use_pty")
    transport = open_root(host, PASSWORD)
    script = "trap '' HUP; setsid sh -c 'sleep 2; id -un >~/late' </dev/null >/dev/null 2>&1 &"
    transport.run(["/bin/sh", "-c", script], timeout_s=30)
    transport.close()
    time.sleep(3)
    assert transport.run(["/bin/sh", "-c", "cat ~/late"], timeout_s=30).stdout == b"root\n"


def test_a_wrong_password_is_one_try_for_good(host: LabHost, open_root: Open) -> None:
    set_rules(host, EVERYTHING, "Defaults logfile=/var/log/sudo.log")
    transport = open_root(host, "wrong")
    began = time.monotonic()
    error = fail(transport)
    assert (error.reason, error.stage) == ("sudo_refused", "probe")
    assert time.monotonic() - began < 10
    assert fail(transport).reason == "sudo_refused"
    log = " ".join(host.exec("cat", "/var/log/sudo.log").split())
    assert re.findall("([0-9]+) incorrect password attempt", log) == ["1"]


def test_a_sudo_that_wants_no_password_does_not_get_it(host: LabHost, open_root: Open) -> None:
    # It would write all that its commands read into its log.
    set_rules(host, "bench ALL=(ALL) NOPASSWD: ALL", "Defaults log_input, !compress_io")
    transport = open_root(host, PASSWORD)
    for _ in range(2):
        assert transport.run(["cat"], stdin=b"what it reads", timeout_s=30).stdout == b"what it reads"
    log = host.exec("sh", "-c", "find /var/log/sudo-io -type f -exec cat {} +")
    assert log.count("what it reads") == 2
    assert PASSWORD not in log


@pytest.mark.parametrize(
    ("rules", "password", "reason", "words"),
    [
        ((EVERYTHING,), None, "sudo_password", "-K"),
        ((EVERYTHING, "Defaults requiretty"), PASSWORD, "sudo_tty", "Defaults:bench !requiretty"),
        ((EVERYTHING, "Defaults requiretty"), None, "sudo_tty", "Defaults:bench !requiretty"),
        ((), PASSWORD, "sudo_not_allowed", "sudoers"),
        (("bench ALL=(ALL) NOPASSWD: /usr/bin/docker",), PASSWORD, "sudo_not_allowed", "sudoers"),
    ],
)
def test_what_sudo_refuses_is_a_sentence(
    host: LabHost, open_root: Open, rules: tuple[str, ...], password: str | None, reason: str, words: str
) -> None:
    set_rules(host, *rules)
    error = fail(open_root(host, password))
    assert error.reason == reason
    assert words in error.hint
    assert "bench" in error.message + error.hint


def test_a_host_without_sudo(lab_hosts: LabHosts, open_root: Open) -> None:
    (host,) = lab_hosts(1)
    host.exec("rm", "/usr/bin/sudo")
    assert fail(open_root(host, PASSWORD)).reason == "sudo_missing"


@pytest.mark.needs("root")
def test_root_needs_no_sudo() -> None:
    settings = Settings(become=True)
    transport = open_transport(Host(alias="here", connection=Connection(kind="local"), settings=settings))
    done = transport.run(["sh", "-c", "id -u; cat"], stdin=b"input", timeout_s=10)
    assert (done.exit_status, done.stdout) == (0, b"0\ninput")
    assert str(transport.route) == "this machine, then root by sudo"
