"""Logging in with a password, on a real sshd that counts the tries."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.errors import AuthFailed, HostKeyUnknown
from fleet.model.inventory import Connection
from fleet.transport.ssh import SshTransport
from tests.transport.conftest import Loopback, Sshd, make_key

pytestmark = pytest.mark.needs("ssh", "root")

PASSWORD = "s3cret und $ü'per"
BY_PASSWORD = ("PasswordAuthentication yes", "LogLevel VERBOSE")
BY_QUESTION = ("UsePAM yes", "KbdInteractiveAuthentication yes", "PasswordAuthentication no", "LogLevel VERBOSE")

StartSshd = Callable[..., Sshd]
OpenSsh = Callable[..., SshTransport]


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture(autouse=True)
def _user(loopback: Loopback) -> Iterator[None]:
    """The user has a password for the time of a test."""
    user = loopback.users["sh"]
    subprocess.run(["chpasswd"], input=f"{user}:{PASSWORD}\n".encode(), check=True)
    yield
    subprocess.run(["usermod", "-p", "*", user], check=True)
    subprocess.run(["chage", "-d", "20000", user], check=True)


@pytest.fixture
def open_with() -> Iterator[OpenSsh]:
    made: list[SshTransport] = []

    def make(connection: Connection, *known_hosts: Path, password: str = PASSWORD) -> SshTransport:
        made.append(SshTransport("gpu01", connection, known_hosts=list(map(str, known_hosts)), password=password))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def read_tries(sshd: Sshd) -> list[str]:
    """How each try ended, and of which method it was: `Failed password`."""
    log = (sshd.folder / f"log-{sshd.port}").read_text()
    return re.findall(r"(?:Accepted|Failed) (?:password|publickey|keyboard-interactive/pam)", log)


def fail(transport: SshTransport) -> AuthFailed:
    with pytest.raises(AuthFailed) as error:
        transport.run(["true"], timeout_s=20)
    return error.value


@pytest.mark.parametrize("options", [BY_PASSWORD, BY_QUESTION], ids=["password", "question"])
class TestBothMethods:
    def test_it_opens_where_the_key_is_refused(
        self, start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        sshd = start_sshd(*options)
        transport = open_with(sshd.connection(key=make_key(tmp_path / "wrong")), sshd.known_hosts)
        assert transport.run(["echo", "in"], timeout_s=20).stdout == b"in\n"
        assert str(transport.route) == f"{sshd.user}@127.0.0.1:{sshd.port}, password"

    def test_it_opens_where_there_is_no_key(
        self, start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        sshd = start_sshd(*options)
        transport = open_with(sshd.connection(key=tmp_path / "gone"), sshd.known_hosts)
        assert transport.run(["echo", "in"], timeout_s=20).stdout == b"in\n"

    def test_it_is_not_sent_where_a_key_opens(
        self, start_sshd: StartSshd, open_with: OpenSsh, options: tuple[str, ...]
    ) -> None:
        sshd = start_sshd(*options)
        transport = open_with(sshd.connection(), sshd.known_hosts)
        assert transport.run(["true"], timeout_s=20).exit_status == 0
        assert read_tries(sshd) == ["Accepted publickey"]
        assert transport.route.key == str(sshd.key)

    def test_a_wrong_one_is_one_try_for_good(
        self, start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        sshd = start_sshd(*options)
        transport = open_with(sshd.connection(key=tmp_path / "gone"), sshd.known_hosts, password="wrong")
        for _ in range(3):
            error = fail(transport)
            assert error.reason == "password_refused"
            assert f"{sshd.user}@127.0.0.1:{sshd.port} refused the password. The key file" in error.message
            assert "ansible_user" in error.hint
        assert [how.split()[0] for how in read_tries(sshd)] == ["Failed"]


def test_a_host_that_wants_a_key_and_a_password(start_sshd: StartSshd, open_with: OpenSsh) -> None:
    sshd = start_sshd("AuthenticationMethods publickey,password", *BY_PASSWORD)
    assert open_with(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=20).exit_status == 0


def test_keys_do_not_use_up_the_tries(start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path) -> None:
    sshd = start_sshd("MaxAuthTries 2", *BY_PASSWORD)
    config = tmp_path / "ssh_config"
    config.write_text("".join(f"IdentityFile {make_key(tmp_path / f'wrong{n}')}\n" for n in range(3)))
    connection = Connection(host=sshd.host, port=sshd.port, user=sshd.user, ssh_args=("-F", str(config)))
    assert open_with(connection, sshd.known_hosts).run(["true"], timeout_s=20).exit_status == 0
    assert read_tries(sshd)[-1] == "Accepted password"


def test_a_host_that_takes_no_password(start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path) -> None:
    sshd = start_sshd("PasswordAuthentication no", "KbdInteractiveAuthentication no", "LogLevel VERBOSE")
    error = fail(open_with(sshd.connection(key=make_key(tmp_path / "wrong")), sshd.known_hosts))
    assert error.reason == "refused"
    assert error.message.endswith(f"{sshd.user}@127.0.0.1:{sshd.port} takes no password either, only publickey.")
    assert not [how for how in read_tries(sshd) if "publickey" not in how]


def test_who_gave_a_password_in_vain_is_not_told_to_give_one(
    start_sshd: StartSshd, open_with: OpenSsh, isolated_home: Path
) -> None:
    sshd = start_sshd("PasswordAuthentication no", "KbdInteractiveAuthentication no", "LogLevel VERBOSE")
    connection = sshd.connection().model_copy(update={"private_key_file": None})
    error = fail(open_with(connection, sshd.known_hosts))
    assert error.reason == "no_key"
    assert "takes no password either, only publickey." in error.message
    assert "--ask-pass" not in error.hint


def test_more_questions_than_one_are_left_open(start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path) -> None:
    sshd = start_sshd(*BY_QUESTION)
    # Expired: after the password PAM asks for a new one.
    subprocess.run(["chage", "-d", "0", sshd.user], check=True)
    error = fail(open_with(sshd.connection(key=tmp_path / "gone"), sshd.known_hosts))
    assert error.reason == "second_factor"
    assert "assword" in error.message


def test_a_host_whose_key_is_unknown_never_gets_it(start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path) -> None:
    sshd = start_sshd(*BY_PASSWORD)
    (tmp_path / "known_hosts").touch()
    with pytest.raises(HostKeyUnknown):
        open_with(sshd.connection(key=tmp_path / "gone"), tmp_path / "known_hosts").run(["true"], timeout_s=20)
    assert read_tries(sshd) == []


def test_a_jump_host_never_gets_it(start_sshd: StartSshd, open_with: OpenSsh, tmp_path: Path) -> None:
    gate, sshd = start_sshd(*BY_PASSWORD), start_sshd(*BY_PASSWORD)
    known = tmp_path / "known_hosts"
    known.write_text(gate.known_hosts.read_text() + sshd.known_hosts.read_text())
    config = tmp_path / "ssh_config"

    def reach(key: Path) -> SshTransport:
        config.write_text(f"Host 127.0.0.1\n  IdentityFile {key}\n  IdentitiesOnly yes\n")
        jump = f"ProxyJump={gate.user}@127.0.0.1:{gate.port}"
        connection = Connection(
            host="localhost", port=sshd.port, user=sshd.user, ssh_args=("-F", str(config), "-o", jump)
        )
        known.write_text(known.read_text() + f"[localhost]:{sshd.port} {sshd.public_host_key}\n")
        return open_with(connection, known)

    error = fail(reach(make_key(tmp_path / "wrong")))
    assert f"jump host 127.0.0.1:{gate.port}" in error.message
    assert not [how for how in read_tries(gate) if "password" in how]
    assert reach(gate.key).run(["echo", "in"], timeout_s=20).stdout == b"in\n"
    assert (read_tries(gate)[-1], read_tries(sshd)[-1]) == ("Accepted publickey", "Accepted password")
