"""Host keys are verified: against a real sshd, with every kind of line in known_hosts."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import ConfigError, HostKeyChanged, HostKeyUnknown
from fleet.transport.host_key import ScannedKey, append_known_hosts, scan_host_key
from fleet.transport.known_hosts import fingerprint_of
from tests.transport.conftest import Loopback, OpenTransport, Sshd, make_key

pytestmark = pytest.mark.needs("ssh", "root")


def public(key: Path) -> str:
    return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])


@pytest.fixture
def other_key(tmp_path: Path) -> str:
    return public(make_key(tmp_path / "other"))


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_unknown_key_names_fingerprint_and_cure(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown) as error:
        open_ssh(sshd.connection(), tmp_path / "none").run(["true"], timeout_s=10)
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{sshd.host_key}.pub"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split()[1] in error.value.message
    assert f"[127.0.0.1]:{sshd.port}" in error.value.message
    assert "fleet hosts trust -i INVENTORY --limit gpu01" in error.value.hint


def test_lines_that_cannot_be_read_are_named(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    known = write(tmp_path / "known", "# fine", f"{sshd.name} {sshd.public_host_key[:-3]}")
    with pytest.raises(HostKeyUnknown, match=f"cannot be read: {known}:2"):
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)


def test_changed_key_names_both_and_the_line(
    sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, other_key: str
) -> None:
    known = write(tmp_path / "known", "# the lab", f"{sshd.name} {other_key}")
    with pytest.raises(HostKeyChanged) as error:
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)
    assert error.value.reason == "changed"
    for text in (f"{known}:2", fingerprint_of(other_key.split()[1]), fingerprint_of(sshd.public_host_key.split()[1])):
        assert text in error.value.message
    assert f"ssh-keygen -R '{sshd.name}' -f {known}" in error.value.hint


def test_host_that_shows_another_type_has_changed(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    known = write(tmp_path / "known", f"{sshd.name} {public(make_key(tmp_path / 'ecdsa', 'ecdsa'))}")
    with pytest.raises(HostKeyChanged):
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)


@pytest.mark.parametrize("case", ["old and new", "hashed", "wildcard", "several names", "bare name", "after rubbish"])
def test_known_key_is_found(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, other_key: str, case: str) -> None:
    name, key = sshd.name, sshd.public_host_key
    known = tmp_path / "known"
    lines = {
        "old and new": [f"{name} {other_key}", f"{name} {key}"],
        "hashed": [f"{name} {key}"],
        "wildcard": [f"[127.0.0.?]:* {key}"],
        "several names": [f"gpu01,{name},10.0.0.1 {key} comment here"],
        "bare name": [f"127.0.0.1 {key}"],
        "after rubbish": ["@cert-authority *", "@what x y z", "x ssh-rsa !!!", "\udcff\udcfe", f"{name} {key}"],
    }[case]
    known.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    if case == "hashed":
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
        assert b"127.0.0.1" not in known.read_bytes()
    assert open_ssh(sshd.connection(), known).run(["echo", "in"], timeout_s=10).stdout == b"in\n"


def test_negated_pattern_excludes(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    known = write(tmp_path / "known", f"*,!{sshd.name} {sshd.public_host_key}", f"!127.0.0.1,* {sshd.public_host_key}")
    assert open_ssh(sshd.connection(), known).run(["true"], timeout_s=10).exit_status == 0
    known = write(tmp_path / "stricter", f"*,!{sshd.name},!127.0.0.1 {sshd.public_host_key}")
    with pytest.raises(HostKeyUnknown):
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)


def test_revoked_key_is_refused_although_known(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    known = write(tmp_path / "known", f"{sshd.name} {sshd.public_host_key}", f"@revoked * {sshd.public_host_key}")
    with pytest.raises(HostKeyChanged) as error:
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)
    assert error.value.reason == "revoked"
    assert f"{known}:2" in error.value.message


def test_certificate_authority_alone_is_not_enough(
    sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, other_key: str
) -> None:
    known = write(tmp_path / "known", f"@cert-authority * {other_key}")
    with pytest.raises(HostKeyUnknown) as error:
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)
    assert error.value.reason == "authority_only"
    assert "not supported" in error.value.hint


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_the_known_type_is_asked_for(
    loopback: Loopback, start_sshd: Callable[..., Sshd], open_ssh: OpenTransport, tmp_path: Path, kind: str
) -> None:
    keys = {k: make_key(tmp_path / k, k) for k in ("rsa", "ecdsa", "ed25519")}
    sshd = start_sshd(*(f"HostKey {k}" for k in keys.values()))
    known = write(tmp_path / "known", f"{sshd.name} {public(keys[kind])}")
    assert open_ssh(sshd.connection(), known).run(["true"], timeout_s=10).exit_status == 0


def test_scan_and_trust(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path, other_key: str) -> None:
    known = tmp_path / "new" / "known_hosts"

    def scan() -> ScannedKey:
        return scan_host_key("gpu01", sshd.connection(user="nobody-there"), 10, known_hosts=[str(known)])

    seen = scan()
    assert (seen.known, seen.file, seen.name) == ("no", str(known), sshd.name)
    assert f"{seen.key_type} {seen.key}" == sshd.public_host_key
    append_known_hosts(seen.file, [seen])
    assert (known.stat().st_mode & 0o777, known.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert scan().known == "yes"
    assert open_ssh(sshd.connection(), known).run(["true"], timeout_s=10).exit_status == 0
    write(known, f"{sshd.name} {other_key}")
    assert (scan().known, scan().line) == ("changed", 1)


def test_appending_keeps_what_is_there(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_bytes(b"# mine\n\xff\xfe\nold ssh-rsa AAAA")
    keys = [
        ScannedKey(f"h{i}", f"h{i}", "ssh-ed25519", base64.b64encode(bytes([i]) * 51).decode(), "", "no", str(known))
        for i in range(40)
    ]
    threads = [threading.Thread(target=append_known_hosts, args=(known, [k])) for k in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = known.read_bytes().splitlines()
    assert lines[:3] == [b"# mine", b"\xff\xfe", b"old ssh-rsa AAAA"]
    assert sorted(lines[3:]) == sorted(f"{k.name} {k.key_type} {k.key}".encode() for k in keys)
    with pytest.raises(ConfigError):
        append_known_hosts(tmp_path, keys)


def test_file_is_read_again_when_it_changes(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    known = write(tmp_path / "known", "")
    with pytest.raises(HostKeyUnknown):
        open_ssh(sshd.connection(), known).run(["true"], timeout_s=10)
    shutil.copy(sshd.known_hosts, known)
    assert open_ssh(sshd.connection(), known).run(["true"], timeout_s=10).exit_status == 0


@pytest.mark.timeout(20)
def test_a_pipe_knows_nobody(sshd: Sshd, open_ssh: OpenTransport, tmp_path: Path) -> None:
    pipe = tmp_path / "known_hosts"
    os.mkfifo(pipe)
    with pytest.raises(HostKeyUnknown):
        open_ssh(sshd.connection(), pipe).run(["true"], timeout_s=10)
