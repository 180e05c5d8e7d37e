"""Which key is offered, and what is said when none is taken."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.errors import AuthFailed
from fleet.model.inventory import Connection
from tests.transport.conftest import OpenTransport, Sshd, make_key
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("ssh", "root")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    started = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(re.findall(r"(SSH_\w+)=([^;]+);", started))
    monkeypatch.setenv("SSH_AUTH_SOCK", values["SSH_AUTH_SOCK"])
    yield
    subprocess.run(["ssh-agent", "-k"], env={**os.environ, **values}, check=True, capture_output=True)


@pytest.fixture
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def add_to_agent(*keys: Path) -> None:
    subprocess.run(["ssh-add", "-q", *map(str, keys)], check=True, capture_output=True)


def by_config(sshd: Sshd, folder: Path, *lines: str) -> Connection:
    """No key from the inventory; ssh_config says these."""
    config = folder / "ssh_config"
    config.write_text("\n".join(lines) + "\n")
    return Connection(host=sshd.host, port=sshd.port, user=sshd.user, ssh_args=("-F", str(config)))


def fail(transport: OpenTransport, sshd: Sshd, connection: Connection) -> AuthFailed:
    with pytest.raises(AuthFailed) as error:
        transport(connection, sshd.known_hosts).run(["true"], timeout_s=10)
    return error.value


@pytest.mark.usefixtures("no_agent")
class TestWithoutAgent:
    def test_wrong_user(self, sshd: Sshd, open_ssh: OpenTransport) -> None:
        error = fail(open_ssh, sshd, sshd.connection(user="nobody-there"))
        assert error.reason == "refused"
        assert f"nobody-there@127.0.0.1:{sshd.port}" in error.message
        assert f"{sshd.key} SHA256:" in error.message

    def test_missing_key(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        error = fail(open_ssh, sshd, sshd.connection(key=tmp_path / "gone"))
        assert error.reason == "key_missing"
        assert str(tmp_path / "gone") in error.message

    def test_passphrase(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        key = make_key(tmp_path / "locked", passphrase="open sesame")
        error = fail(open_ssh, sshd, sshd.connection(key=key))
        assert error.reason == "key_passphrase"
        assert f"ssh-add {key}" in error.hint

    def test_key_open_to_others(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        key = tmp_path / "loose"
        shutil.copy(sshd.key, key)
        key.chmod(0o644)
        error = fail(open_ssh, sshd, sshd.connection(key=key))
        assert (error.reason, error.hint) == ("key_mode", f"chmod 600 {key}")
        key.chmod(0o600)
        assert open_ssh(sshd.connection(key=key), sshd.known_hosts).run(["true"], timeout_s=10).exit_status == 0

    def test_rubbish_for_a_key(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        key = tmp_path / "rubbish"
        key.write_text("not a key\n")
        key.chmod(0o600)
        assert fail(open_ssh, sshd, sshd.connection(key=key)).reason == "key_unreadable"

    def test_no_key_at_all(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        error = fail(open_ssh, sshd, by_config(sshd, tmp_path, "IdentityFile none"))
        assert error.reason == "no_key"
        assert "no agent" in error.message
        assert error.hint.endswith("For a password give --ask-pass.")

    def test_stale_agent_socket(
        self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stale = tmp_path / "agent"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(stale))
        monkeypatch.setenv("SSH_AUTH_SOCK", str(stale))
        assert open_ssh(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=10).exit_status == 0

    def test_hanging_agent(
        self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(tmp_path / "agent"))
            silent.listen()
            assert open_ssh(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=9).exit_status == 0

    @pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
    def test_other_kinds_of_key(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, kind: str) -> None:
        key = make_key(tmp_path / kind, kind)
        allowed = sshd.folder / "authorized_keys"
        before = allowed.read_text()
        allowed.write_text(before + key.with_name(f"{kind}.pub").read_text())
        try:
            done = open_ssh(sshd.connection(key=key), sshd.known_hosts).run(["true"], timeout_s=10)
        finally:
            allowed.write_text(before)
        assert done.exit_status == 0

    def test_password_only_host(self, start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
        sshd = start_sshd("PubkeyAuthentication no", "PasswordAuthentication yes")
        error = fail(open_ssh, sshd, sshd.connection())
        assert error.reason == "no_public_key"
        assert "password" in error.message

    def test_second_factor(self, start_sshd: Callable[..., Sshd], open_ssh: OpenTransport) -> None:
        options = ("AuthenticationMethods publickey,password", "PasswordAuthentication yes")
        sshd = start_sshd(*options)
        assert fail(open_ssh, sshd, sshd.connection()).reason == "second_factor"


@pytest.mark.usefixtures("agent")
class TestWithAgent:
    def test_locked_key_is_used_by_the_agent(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        add_to_agent(sshd.key)
        locked = tmp_path / "locked"
        shutil.copy(sshd.key, locked)
        subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)], check=True)
        transport = open_ssh(sshd.connection(key=locked), sshd.known_hosts)
        assert transport.run(["true"], timeout_s=10).exit_status == 0
        assert ", key agent (" in str(transport.route)

    def test_full_agent_does_not_displace_the_chosen_key(
        self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path
    ) -> None:
        add_to_agent(*(make_key(tmp_path / f"wrong{i}") for i in range(8)))
        assert open_ssh(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=10).exit_status == 0
        config = by_config(sshd, tmp_path, f"IdentityFile {sshd.key}")
        assert open_ssh(config, sshd.known_hosts).run(["true"], timeout_s=10).exit_status == 0

    def test_too_many_wrong_keys(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        add_to_agent(*(make_key(tmp_path / f"wrong{i}") for i in range(8)))
        error = fail(open_ssh, sshd, by_config(sshd, tmp_path, "IdentityFile none"))
        assert error.reason == "too_many_keys"
        assert error.message.count("SHA256:") == 6
        assert "ansible_ssh_private_key_file" in error.hint

    def test_identities_only_keeps_the_agents_others_back(
        self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path
    ) -> None:
        add_to_agent(sshd.key)
        wrong = make_key(tmp_path / "wrong")
        lines = (f"IdentityFile {wrong}", "IdentitiesOnly yes")
        assert fail(open_ssh, sshd, by_config(sshd, tmp_path, *lines)).message.count("SHA256:") == 1
        transport = open_ssh(by_config(sshd, tmp_path, lines[0]), sshd.known_hosts)
        assert transport.run(["true"], timeout_s=10).exit_status == 0

    def test_identity_agent_none(self, sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
        add_to_agent(sshd.key)
        error = fail(open_ssh, sshd, by_config(sshd, tmp_path, f"IdentityFile {tmp_path}/no", "IdentityAgent none"))
        assert error.reason == "key_missing"


@pytest.mark.usefixtures("no_agent")
def test_failures_leave_no_thread(sshd: Sshd, open_ssh: OpenTransport) -> None:
    before = threading.active_count()
    transport = open_ssh(sshd.connection(user="nobody-there"), sshd.known_hosts)
    for _ in range(5):
        with pytest.raises(AuthFailed):
            transport.run(["true"], timeout_s=10)
        wait_for(lambda: threading.active_count() <= before)
