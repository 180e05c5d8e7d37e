"""ssh_config means what it means to ssh: resolved by ssh itself, and driven through real jump hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.errors import AuthFailed, HostKeyChanged, HostKeyUnknown, Unreachable
from fleet.model.inventory import Connection
from fleet.transport.host_key import scan_host_key
from fleet.transport.ssh_config import Endpoint, resolve_endpoint
from tests.transport.conftest import OpenTransport, Sshd, free_port, make_key

pytestmark = pytest.mark.needs("ssh", "root")

StartSshd = Callable[..., Sshd]


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str) -> Path:
        path = tmp_path / "ssh_config"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def resolve(config: Path, name: str = "gpu01", **inventory: object) -> Endpoint:
    return resolve_endpoint("gpu01", Connection(host=name, ssh_args=("-F", str(config)), **inventory))


def test_directives_and_include(write_config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host gpu*\n  HostName %h.lab\n  User lab\n  HostKeyAlias rack-%h\n")
    config = write_config(
        f"Include {tmp_path}/more",
        "Host *",
        f"  IdentityFile {tmp_path}/%u-%r-%h",
        "  IdentitiesOnly yes",
        "  Port 2201",
        "  ConnectTimeout 7",
        "  ServerAliveInterval 9",
        "  AddressFamily inet",
        f"  UserKnownHostsFile {tmp_path}/a {tmp_path}/b",
        "  GlobalKnownHostsFile none",
        "  StrictHostKeyChecking no",
    )
    end = resolve(config)
    assert (end.user, end.port, end.family) == ("lab", 2201, "inet")
    assert (end.connect_timeout_s, end.keepalive_s, end.identities_only) == (7.0, 9.0, True)
    assert end.known_hosts_files == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert end.host == "gpu01.lab"
    assert end.identity_files is not None
    assert end.identity_files[0].endswith("-lab-gpu01.lab")


def test_inventory_stands_above_ssh_config(write_config: Callable[..., Path]) -> None:
    config = write_config("Host *", "  User other", "  Port 1", "  IdentityFile /other", "  IdentityAgent /agent")
    end = resolve(config, user="me", port=2222, private_key_file="~/mine")
    assert (end.user, end.port) == ("me", 2222)
    assert end.identity_files is not None
    assert [Path(f).name for f in end.identity_files] == ["mine"]
    assert end.identities_only
    assert end.identity_agent == "/agent"


def test_keys_are_verified_where_ssh_config_throws_them_away(write_config: Callable[..., Path]) -> None:
    end = resolve(write_config("UserKnownHostsFile /dev/null", "GlobalKnownHostsFile none", "StrictHostKeyChecking no"))
    assert [Path(f).parts[-2:] for f in end.known_hosts_files] == [(".ssh", "known_hosts")]


def test_nobody_chose_a_key(write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    end = resolve(write_config(""))
    assert end.identity_files is None
    assert not end.identities_only
    assert end.identity_agent == "/run/agent"
    assert (end.host, end.port) == ("gpu01", 22)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("Foo bar",), "bad configuration option: foo"),
        (("RevokedHostKeys /etc/revoked",), "RevokedHostKeys"),
        (("ProxyCommand nc %h %p", "ProxyUseFdpass yes"), "ProxyUseFdpass"),
        (("ProxyJump [bad",), ""),
    ],
)
def test_what_cannot_be_done_is_refused(write_config: Callable[..., Path], lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(Unreachable) as error:
        resolve(write_config(*lines))
    assert error.value.reason == "ssh_config"
    assert words.lower() in error.value.message.lower()
    assert error.value.hint


def test_circle_of_jump_hosts_ends(write_config: Callable[..., Path]) -> None:
    with pytest.raises(Unreachable, match="circle"):
        resolve(write_config("Host a", "  ProxyJump b", "Host b", "  ProxyJump a", "Host gpu01", "  ProxyJump a"))


def test_unsupported_directives_are_warned_of(write_config: Callable[..., Path]) -> None:
    end = resolve(write_config("CertificateFile /x", "KnownHostsCommand /y"))
    assert [w.split("sets ")[1].split(" ")[0].rstrip(";") for w in end.warnings] == [
        "CertificateFile",
        "KnownHostsCommand",
    ]


def test_option_in_place_of_a_name_is_refused() -> None:
    with pytest.raises(Unreachable):
        resolve_endpoint("gpu01", Connection(host="-oProxyCommand=touch /tmp/x"))


def test_hostile_name_does_not_reach_the_shell(write_config: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        resolve(write_config("ProxyCommand nc %h %p"), f"x;touch {tmp_path}/owned")
    assert not (tmp_path / "owned").exists()


def test_without_an_ssh_client(
    sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("ssh") is None
    connection = Connection(host=sshd.host, port=sshd.port, user=sshd.user, private_key_file=str(sshd.key))
    assert open_ssh(connection, sshd.known_hosts).run(["echo", "in"], timeout_s=10).stdout == b"in\n"
    with pytest.raises(Unreachable) as error:
        open_ssh(sshd.connection(), sshd.known_hosts).run(["true"], timeout_s=10)
    assert "no ssh client" in error.value.message


def test_config_reaches_a_real_host(sshd: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path]) -> None:
    known = sshd.folder / "by_alias"
    known.write_text(f"rack-7 {sshd.public_host_key}\n")
    config = write_config(
        "Host gpu01",
        f"  HostName {sshd.host}",
        f"  Port {sshd.port}",
        f"  User {sshd.user}",
        f"  IdentityFile {sshd.key}",
        "  HostKeyAlias rack-7",
        f"  UserKnownHostsFile {known}",
    )
    transport = open_ssh(Connection(ssh_args=("-F", str(config))))
    assert transport.run(["echo", "in"], timeout_s=10).stdout == b"in\n"


class TestJumps:
    """target is behind jump; both run here, with host keys of their own."""

    @pytest.fixture
    def jump(self, start_sshd: StartSshd, tmp_path: Path) -> Sshd:
        return start_sshd(host="127.1.0.1", host_key=make_key(tmp_path / "jump_host_key"))

    def config(self, write: Callable[..., Path], jump: Sshd, target: Sshd, *lines: str) -> Connection:
        known = jump.folder / f"both-{jump.port}"
        known.write_text(jump.known_hosts.read_text() + target.known_hosts.read_text())
        path = write(
            *lines,
            "Host gateway",
            f"  HostName {jump.host}",
            f"  Port {jump.port}",
            "Host gpu01",
            f"  HostName {target.host}",
            f"  Port {target.port}",
            "  ProxyJump gateway",
            "Host *",
            f"  User {jump.user}",
            f"  IdentityFile {jump.key}",
            f"  UserKnownHostsFile {known}",
        )
        return Connection(ssh_args=("-F", str(path)))

    def test_commands_and_data_pass(
        self, sshd: Sshd, jump: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path]
    ) -> None:
        transport = open_ssh(self.config(write_config, jump, sshd))
        data = os.urandom(3_000_000)
        assert transport.run(["cat"], stdin=data, timeout_s=20, limit_bytes=len(data)).stdout == data
        assert len(jump.descendants()) > 0, "the connection does go through the jump host"
        assert str(transport.route).endswith(f" via 127.1.0.1:{jump.port}")
        with pytest.raises(Exception, match="did not end"):
            transport.run(["sleep", "9"], timeout_s=0.5)
        assert transport.run(["true"], timeout_s=10).exit_status == 0

    def test_many_hosts_behind_one(
        self, sshd: Sshd, start_sshd: StartSshd, open_ssh: OpenTransport, write_config: Callable[..., Path]
    ) -> None:
        gate = start_sshd("MaxStartups 10:30:100", host="127.1.0.1")
        transports = [open_ssh(self.config(write_config, gate, sshd)) for _ in range(32)]
        with ThreadPoolExecutor(32) as pool:
            assert set(pool.map(lambda t: t.run(["true"], timeout_s=60).exit_status, transports)) == {0}

    def test_unknown_jump_host(
        self, sshd: Sshd, jump: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path]
    ) -> None:
        connection = self.config(write_config, jump, sshd)
        only_target = sshd.known_hosts
        with pytest.raises(HostKeyUnknown) as error:
            open_ssh(connection, only_target).run(["true"], timeout_s=10)
        assert error.value.message.startswith(f"jump host 127.1.0.1:{jump.port} ")
        assert error.value.host == "gpu01"
        seen = scan_host_key("gpu01", connection, 10, known_hosts=[str(only_target)])
        assert (seen.is_jump, seen.known, seen.name) == (True, "no", jump.name)

    def test_changed_jump_host(
        self, sshd: Sshd, jump: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path], tmp_path: Path
    ) -> None:
        connection = self.config(write_config, jump, sshd)
        known = tmp_path / "known"
        known.write_text(f"{jump.name} {sshd.public_host_key}\n")
        with pytest.raises(HostKeyChanged, match="jump host"):
            open_ssh(connection, known).run(["true"], timeout_s=10)

    def test_scan_through_a_known_jump_host(self, sshd: Sshd, jump: Sshd, write_config: Callable[..., Path]) -> None:
        connection = self.config(write_config, jump, sshd)
        seen = scan_host_key("gpu01", connection, 10, known_hosts=[str(jump.known_hosts)])
        assert (seen.is_jump, seen.known, seen.name) == (False, "no", sshd.name)

    def test_chain_with_user_and_port(
        self,
        sshd: Sshd,
        jump: Sshd,
        start_sshd: StartSshd,
        open_ssh: OpenTransport,
        write_config: Callable[..., Path],
        tmp_path: Path,
    ) -> None:
        second = start_sshd(host="127.1.0.2", host_key=make_key(tmp_path / "second"))
        known = tmp_path / "all"
        known.write_text("".join(s.known_hosts.read_text() for s in (sshd, jump, second)))
        hops = f"ProxyJump {jump.user}@gateway,ssh://{jump.user}@{second.host}:{second.port}"
        connection = self.config(write_config, jump, sshd, "Host gpu01", f"  {hops}", "Host *")
        transport = open_ssh(connection, known)
        assert transport.run(["echo", "in"], timeout_s=10).stdout == b"in\n"
        assert str(transport.route).endswith(f" via 127.1.0.1:{jump.port}, 127.1.0.2:{second.port}")

    def test_target_closed_or_jump_closed(
        self, sshd: Sshd, jump: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path]
    ) -> None:
        closed = str(free_port())
        connection = self.config(write_config, jump, sshd, "Host gpu01", f"  Port {closed}", "Host *")
        with pytest.raises(Unreachable) as error:
            open_ssh(connection).run(["true"], timeout_s=10)
        assert error.value.reason == "jump"
        assert f"127.0.0.1:{closed} cannot be reached from the jump host: connect" in error.value.message
        connection = self.config(write_config, jump, sshd, "Host gateway", f"  Port {closed}", "Host *")
        with pytest.raises(Unreachable) as error:
            open_ssh(connection).run(["true"], timeout_s=10)
        assert error.value.reason == "jump"
        assert error.value.message == f"jump host 127.1.0.1:{closed} refused the connection."

    def test_jump_host_refuses_the_key(
        self, sshd: Sshd, jump: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path], tmp_path: Path
    ) -> None:
        wrong = ("Host gateway", f"  IdentityFile {make_key(tmp_path / 'wrong')}", "  IdentitiesOnly yes")
        connection = self.config(write_config, jump, sshd, *wrong, "  User nobody-there", "Host *")
        with pytest.raises(AuthFailed, match="jump host"):
            open_ssh(connection).run(["true"], timeout_s=10)


def test_hosts_behind_one_proxy_are_told_by_its_command(write_config: Callable[..., Path]) -> None:
    ends = [resolve(write_config("ProxyCommand ssh -W %h:%p gate"), name) for name in ("10.1.2.3", "10.1.2.4")]
    assert {end.server for end in ends} == {"ssh -W %h:22 gate"}
    assert resolve(write_config("Port 2201"), "10.1.2.3").server == "10.1.2.3:2201"


class TestProxyCommand:
    RELAY = (
        "import socket,sys,threading,os;s=socket.create_connection((sys.argv[1],int(sys.argv[2])));"
        "threading.Thread(target=lambda:[s.sendall(d) for d in iter(lambda:os.read(0,65536),b'')],daemon=True).start();"
        "[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')]"
    )

    def test_commands_and_data_pass(
        self, sshd: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path], tmp_path: Path
    ) -> None:
        relay = tmp_path / "relay.py"
        relay.write_text(self.RELAY)
        config = write_config(f"ProxyCommand python3 {relay} %h %p")
        transport = open_ssh(sshd.connection("-F", str(config)), sshd.known_hosts)
        data = os.urandom(1_000_000)
        assert transport.run(["cat"], stdin=data, timeout_s=20, limit_bytes=len(data)).stdout == data
        transport.close()
        left = Path("/proc/self/task").glob("*/children")
        assert not [c for f in left for c in f.read_text().split() if "relay.py" in command_line(c)]

    def test_command_that_fails(self, sshd: Sshd, open_ssh: OpenTransport, write_config: Callable[..., Path]) -> None:
        transport = open_ssh(sshd.connection("-F", str(write_config("ProxyCommand exit 1"))), sshd.known_hosts)
        with pytest.raises(Unreachable) as error:
            transport.run(["true"], timeout_s=3)
        assert error.value.reason == "proxy_command"


def command_line(pid: str) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes().replace(b"\0", b" ").decode() if path.exists() else ""
