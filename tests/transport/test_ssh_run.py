"""Commands over a real sshd: what goes in and what comes out."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.errors import ContactLost, Unreachable
from fleet.transport.ssh import SshTransport
from tests.transport.conftest import SHELLS, Loopback, OpenTransport, Sshd

pytestmark = pytest.mark.needs("ssh", "root")

NASTY = [
    "a b",
    "",
    "$HOME `id` $(id)",
    "'",
    '"',
    "\\",
    "\\\\0101 \\n",
    "!!",
    "!x",
    "two\nlines\n",
    "tab\there",
    "é☃🙂",
    "*",
    "~",
    "{a,b}",
    "%s%n%%",
    "^x^y",
    "#no",
    ";id",
    "-n",
]


@pytest.mark.parametrize("shell", [pytest.param(s, marks=pytest.mark.needs(s)) for s in SHELLS])
def test_argv_passes_every_login_shell_unchanged(
    loopback: Loopback, sshd: Sshd, open_ssh: OpenTransport, shell: str
) -> None:
    transport = open_ssh(sshd.connection(user=loopback.users[shell]), sshd.known_hosts)
    done = transport.run(["printf", "%s\\0", *NASTY], timeout_s=20)
    assert done.exit_status == 0
    assert done.stdout.decode().split("\0")[:-1] == NASTY
    assert done.stderr == b""


@pytest.mark.parametrize("shell", [pytest.param(s, marks=pytest.mark.needs(s)) for s in SHELLS])
def test_a_script_is_run_as_by_a_shell_of_its_own(
    loopback: Loopback, sshd: Sshd, open_ssh: OpenTransport, shell: str
) -> None:
    transport = open_ssh(sshd.connection(user=loopback.users[shell]), sshd.known_hosts)
    script = '# a comment\nset -u\ncat\nprintf \'%s\\0\' "$#" "$@"\necho "it\'s" >&2\n(exit 3)\nexit $?\n# the end'
    done = transport.run(["/bin/sh", "-c", script, "fleet", *NASTY], stdin=b"in\n", timeout_s=20)
    assert (done.exit_status, done.stderr) == (3, b"it's\n")
    assert done.stdout.decode().removeprefix("in\n").split("\0")[:-1] == [str(len(NASTY)), *NASTY]
    assert transport.run(["/bin/sh", "-c", "echo $#"], timeout_s=20).stdout == b"0\n"


def test_megabytes_go_in_and_come_out_unharmed(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    data = os.urandom(5_000_000)
    back = transport.run(["cat"], stdin=data, timeout_s=30, limit_bytes=len(data))
    assert not back.truncated
    assert hashlib.sha256(back.stdout).digest() == hashlib.sha256(data).digest()
    counted = transport.run(["wc", "-c"], stdin=data, timeout_s=30)
    assert counted.stdout.strip() == b"5000000"


def test_output_beyond_the_limit_is_read_and_dropped(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 4"
    done = transport.run(["sh", "-c", script], timeout_s=30, limit_bytes=1000)
    assert (done.exit_status, len(done.stdout), len(done.stderr), done.truncated) == (4, 1000, 1000, True)
    exact = transport.run(["printf", "12345"], timeout_s=10, limit_bytes=5)
    assert (exact.stdout, exact.truncated) == (b"12345", False)


def test_output_is_bytes(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    assert transport.run(["printf", "\\377\\000\\303"], timeout_s=10).stdout == b"\xff\x00\xc3"


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_exit_status_is_the_commands_own(sshd: Sshd, open_ssh: OpenTransport, status: int) -> None:
    assert (
        open_ssh(sshd.connection(), sshd.known_hosts).run(["sh", "-c", f"exit {status}"], timeout_s=10).exit_status
        == status
    )


def test_missing_program_is_127_and_says_so(sshd: Sshd, open_ssh: OpenTransport) -> None:
    done = open_ssh(sshd.connection(), sshd.known_hosts).run(["no-such-program"], timeout_s=10)
    assert done.exit_status == 127
    assert b"no-such-program" in done.stderr


def test_stdin_always_ends(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    assert transport.run(["cat"], timeout_s=10).stdout == b""
    # A command that does not read leaves the rest of a big standard input where it is.
    assert transport.run(["true"], stdin=bytes(8_000_000), timeout_s=10).exit_status == 0


class Endless:
    """Zeros without end, counted."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, most: int, /) -> bytes:
        self.taken += most
        return bytes(most)


def test_a_reader_is_read_as_far_as_the_command_takes_it(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    data = os.urandom(5_000_000)
    done = transport.run(["sha256sum"], stdin=io.BytesIO(data), timeout_s=30)
    endless = Endless()
    part = transport.run(["sh", "-c", "head -c 9000000 | wc -c"], stdin=endless, timeout_s=30)

    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert part.stdout.strip() == b"9000000"
    assert 9_000_000 <= endless.taken < 20_000_000  # sshd's window is 2 MiB, its pipes hold less


def test_our_own_stdin_is_left_alone(sshd: Sshd, open_ssh: OpenTransport) -> None:
    reader, writer = os.pipe()
    kept = os.dup(0)
    try:
        os.write(writer, b"list of hosts")
        os.dup2(reader, 0)
        assert open_ssh(sshd.connection(), sshd.known_hosts).run(["cat"], timeout_s=10).stdout == b""
        assert os.read(0, 100) == b"list of hosts"
    finally:
        os.dup2(kept, 0)
        for descriptor in (reader, writer, kept):
            os.close(descriptor)


def test_death_by_signal_is_no_exit_status(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    with pytest.raises(ContactLost) as lost:
        transport.run(["sh", "-c", "kill -9 $$"], timeout_s=10)
    assert lost.value.reason == "no_exit_status"
    assert transport.run(["true"], timeout_s=10).exit_status == 0


def test_timeout_costs_the_limit_and_leaves_the_connection(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    transport.run(["true"], timeout_s=10)
    link = transport._link
    began = time.monotonic()
    with pytest.raises(ContactLost) as lost:
        transport.run(["sleep", "20"], timeout_s=1)
    assert lost.value.reason == "timeout"
    assert 0.9 < time.monotonic() - began < 2.5
    assert transport.run(["echo", "on"], timeout_s=10).stdout == b"on\n"
    assert transport._link is link


def test_child_in_the_background_does_not_hold_the_command(sshd: Sshd, open_ssh: OpenTransport) -> None:
    began = time.monotonic()
    done = open_ssh(sshd.connection(), sshd.known_hosts).run(["sh", "-c", "echo up; sleep 15 & exit 3"], timeout_s=14)
    assert (done.exit_status, done.stdout) == (3, b"up\n")
    assert time.monotonic() - began < 8


@pytest.mark.needs("bash")
def test_noise_of_start_files_is_left_out(loopback: Loopback, sshd: Sshd, open_ssh: OpenTransport) -> None:
    start_file = Path(f"~{loopback.users['bash']}").expanduser() / ".bashrc"
    before = start_file.read_bytes()
    start_file.write_text("echo Welcome; echo to the lab >&2; printf '\\377'; head -c 200000 /dev/zero\n")
    try:
        transport = open_ssh(sshd.connection(user=loopback.users["bash"]), sshd.known_hosts)
        done = transport.run(["sh", "-c", "cat; echo err >&2"], stdin=b"payload", timeout_s=10, limit_bytes=100)
    finally:
        start_file.write_bytes(before)
    assert (done.stdout, done.stderr, done.truncated) == (b"payload", b"err\n", False)


def test_forced_command_is_told_from_ours(start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
    sshd = start_sshd("ForceCommand echo This account is currently not available.")
    with pytest.raises(Unreachable) as no_shell:
        open_ssh(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=10)
    assert no_shell.value.reason == "shell"
    assert "currently not available" in no_shell.value.message


def test_an_sshd_may_allow_one_session_at_a_time(start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
    sshd = start_sshd("MaxSessions 1")
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    for word in ("one", "two", "three"):
        assert transport.run(["echo", word], timeout_s=10).stdout == f"{word}\n".encode()
    assert transport.run(["sh", "-c", "sleep 0.3; echo four"], timeout_s=10).stdout == b"four\n"


def test_connects_once_and_again_after_close(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    ask = ["sh", "-c", "echo $PPID"]
    first, second = (transport.run(ask, timeout_s=10).stdout for _ in range(2))
    assert first == second
    transport.close()
    transport.close()
    assert transport.run(ask, timeout_s=10).stdout != first


def test_description_names_user_address_and_key(sshd: Sshd, open_ssh: OpenTransport) -> None:
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    assert str(transport.route) == f"{sshd.user}@127.0.0.1:{sshd.port}"
    transport.run(["true"], timeout_s=10)
    assert f", key {sshd.key} SHA256:" in str(transport.route)


def test_ipv6(start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
    sshd = start_sshd(host="::1")
    transport = open_ssh(sshd.connection(), sshd.known_hosts)
    assert transport.run(["echo", "six"], timeout_s=10).stdout == b"six\n"
    assert f"@[::1]:{sshd.port}" in str(transport.route)


def test_many_connections_end_at_once(start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
    """The numbers of closed sockets go to new ones: nobody may wait for a socket that is another's by now."""
    sshd = start_sshd("MaxStartups 1000")

    def come_and_go(transport: SshTransport) -> float:
        slowest = 0.0
        for _ in range(3):
            for _ in range(2):
                assert transport.run(["true"], timeout_s=30).exit_status == 0
            begin = time.monotonic()
            transport.close()
            slowest = max(slowest, time.monotonic() - begin)
        return slowest

    with ThreadPoolExecutor(24) as pool:
        took = list(pool.map(come_and_go, [open_ssh(sshd.connection(), sshd.known_hosts) for _ in range(24)]))

    assert max(took) < 1.5, took
