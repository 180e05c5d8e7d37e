"""ssh is asked once about hosts that its configuration does not tell apart, and about each where it may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import Unreachable
from fleet.model.inventory import Connection
from fleet.transport.ssh_config import Endpoint, resolve_endpoint

pytestmark = pytest.mark.needs("ssh")

NAMES = [f"gpu{n:02}" for n in range(1, 9)]

Resolve = Callable[..., list[Endpoint]]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The names that the real ssh was asked about since the last look."""
    ssh, folder, record = shutil.which("ssh"), tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    for_last = 'for name; do :; done; echo "$name"'
    (folder / "ssh").write_text(f'#!/bin/sh\n{for_last} >>{record}\nexec {ssh} "$@"\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def look() -> list[str]:
        names = record.read_text().split() if record.exists() else []
        record.unlink(missing_ok=True)
        return names

    return look


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "ssh_config"


def resolve(config: Path, *names: str, args: tuple[str, ...] = ()) -> list[Endpoint]:
    return [resolve_endpoint(name, Connection(ssh_args=("-F", str(config), *args))) for name in names]


def ask_alone(config: Path, name: str) -> dict[str, str]:
    """What ssh itself says of one name."""
    said = subprocess.run(["ssh", "-F", str(config), "-G", name], capture_output=True, text=True, check=True).stdout
    return dict(line.partition(" ")[::2] for line in said.splitlines())


def test_hosts_that_are_alike_are_asked_about_twice(config: Path, asked: Callable[[], list[str]]) -> None:
    config.write_text("Host !gate *\n  User lab\n  Port 2201\n  ProxyJump gate\n")

    ends = resolve(config, *NAMES)

    assert sorted(asked()) == ["gate", *NAMES[:2]]
    assert [end.host for end in ends] == NAMES
    assert {(end.user, end.port, end.jumps[0].host) for end in ends} == {("lab", 2201, "gate")}


def test_every_section_has_its_own_answer(config: Path, asked: Callable[[], list[str]], tmp_path: Path) -> None:
    (tmp_path / "more").write_text('Host=gpu0[1-4]\n  Port 9\nHost "gpu0?" !gpu03\n  User lab\n  HostName %h.lab\n')
    config.write_text(f"Include {tmp_path}/more\nhost *\n  User other\n")

    ends = resolve(config, *NAMES, "cpu01", "cpu02", "cpu03")

    assert [end.host for end in ends[:4]] == ["gpu01.lab", "gpu02.lab", "gpu03", "gpu04.lab"]
    assert [end.user for end in ends[:4]] == ["lab", "lab", "other", "lab"]
    assert [end.user for end in ends[8:]] == ["other"] * 3
    assert asked() == ["gpu01", "gpu02", "gpu03", "cpu01", "cpu02"]


@pytest.mark.parametrize(
    "lines",
    [
        "Match host gpu01,gpu04\n  Port 9\n",
        'Match exec "test %n = gpu04"\n  Port 9\n',
        "Match all\n  Port 9\n",
        "CanonicalizeHostname yes\nCanonicalDomains invalid\nHost *\n  Port 9\n",
        "Host gpu0[1-4] gpu04\n  Port 9\n",
        "Host GPU*\n  Port 9\n",
        "Host gpu0? !gpu04 !gpu05\n  Port 9\n",
        "Host gpu04 # gpu05\n  Port 9\n",
        "IdentityFile ~/keys/%n\nUserKnownHostsFile ~/%h-%C\n",
        "User gpu01\n",
        "HostKeyAlias gpu02\n",
    ],
)
def test_no_answer_is_another_hosts(config: Path, lines: str) -> None:
    config.write_text(lines)

    for end in resolve(config, *NAMES):
        alone = ask_alone(config, end.asked)
        assert (end.host, str(end.port), end.user) == (alone["hostname"], alone["port"], alone["user"])
        assert end.host_key_alias == alone.get("hostkeyalias")
        if "/keys/%n" in lines:
            assert end.identity_files is not None
            assert end.identity_files[0].endswith(f"/keys/{end.asked}")


def test_a_name_that_ssh_changes_is_asked_about(config: Path, asked: Callable[[], list[str]]) -> None:
    config.write_text("Host *\n  User lab\n")

    ends = resolve(config, "gpu01", "gpu02", "GPU03", "me@gpu04")

    assert [(end.host, end.user) for end in ends[2:]] == [("gpu03", "lab"), ("gpu04", "me")]
    assert asked() == ["gpu01", "gpu02", "GPU03", "me@gpu04"]


def test_changed_files_are_asked_about_again(config: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    config.write_text(f"Include {more}\nHost *\n  User lab\n")
    more.write_text("")
    assert {end.user for end in resolve(config, *NAMES)} == {"lab"}

    more.write_text("Host gpu01\n  User other\n")

    assert [end.user for end in resolve(config, *NAMES[:3])] == ["other", "lab", "lab"]


def test_silence_about_the_files_is_no_agreement(config: Path, asked: Callable[[], list[str]], tmp_path: Path) -> None:
    config.write_text("Host gpu03\n  User other\nHost *\n  User lab\n")

    for args in (("-q",), ("-E", str(tmp_path / "log"))):
        users = [end.user for end in resolve(config, *NAMES[:4], args=args)]
        assert users == ["lab", "lab", "other", "lab"]
        assert asked() == NAMES[:4]


def test_a_refusal_is_every_hosts_own(config: Path, asked: Callable[[], list[str]]) -> None:
    config.write_text("Foo bar\n")

    for name in NAMES[:3]:
        with pytest.raises(Unreachable) as refused:
            resolve(config, name)
        assert f"the configuration for {name}: {config}" in refused.value.message
        assert "debug1" not in refused.value.message
    assert asked() == NAMES[:3]
