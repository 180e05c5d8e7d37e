"""Looks at a host's key without logging in, and remembers keys in known_hosts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

from fleet.errors import ConfigError
from fleet.model.inventory import Connection
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place
from fleet.transport.known_hosts import HostKeys, KeyVerdict, fingerprint_of
from fleet.transport.link import Link
from fleet.transport.ssh import choose_known_hosts
from fleet.transport.ssh_config import resolve_endpoint
from fleet.transport.ssh_tokens import home_directory


@dataclass(frozen=True)
class ScannedKey:
    """The key that a host showed."""

    alias: str
    name: str
    """As it stands in known_hosts: `gpu01`, `[gpu01]:2222`, or the HostKeyAlias."""
    key_type: str
    key: str
    """base64."""
    fingerprint: str
    """`SHA256:…`"""
    known: KeyVerdict
    file: str
    """Where the line is that decides `known`; for an unknown key: the file that it belongs into."""
    line: int | None = None
    is_jump: bool = False
    """This is the key of a jump host; the host behind it can be seen only once this one is known."""


class _Seen(Exception):
    def __init__(self, key: ScannedKey) -> None:
        super().__init__()
        self.key = key


def scan_host_key(
    alias: str, connection: Connection, timeout_s: float, *, known_hosts: Sequence[str] | None = None
) -> ScannedKey:
    """Connect up to the key exchange, and no further.

    Jump hosts on the way are logged in to, if their keys are known; the key of the first that is not known is returned
    instead (`is_jump`).

    Raises:
        Unreachable, AuthFailed (a jump host's).
    """
    deadline = Deadline(timeout_s)
    endpoint = choose_known_hosts(resolve_endpoint(alias, connection), known_hosts)
    link = Link()
    try:
        for hop in (*endpoint.jumps, endpoint):
            is_jump = hop is not endpoint
            home = hop.known_hosts_files[0] if hop.known_hosts_files else str(home_directory() / ".ssh/known_hosts")

            def look(place: Place, keys: HostKeys, key: paramiko.PKey, home: str = home) -> None:
                seen = _describe(place, keys, key, home)
                if seen.known != "yes" or not place.is_jump:
                    raise _Seen(seen)

            link.extend(Place(alias, hop.host, hop.port, is_jump), hop, look, deadline)
    except _Seen as seen:
        return seen.key
    finally:
        link.close()
    raise AssertionError("the last hop's key is always looked at")


def _describe(place: Place, keys: HostKeys, key: paramiko.PKey, home: str) -> ScannedKey:
    verdict = keys.judge(key.get_name(), key.get_base64())
    first = verdict.because[0] if verdict.because else None
    return ScannedKey(
        alias=place.alias,
        name=keys.name,
        key_type=key.get_name(),
        key=key.get_base64(),
        fingerprint=fingerprint_of(key.get_base64()),
        known=verdict.known,
        file=first.file if first else home,
        line=first.line if first else None,
        is_jump=place.is_jump,
    )


def append_known_hosts(path: str | Path, keys: Sequence[ScannedKey]) -> None:
    """Add a line for each key; lines that are there stay as they are.

    One write under a lock, so that two fleets at once lose nothing. Where they have to be made,
    the file gets mode 0600 and its directory 0700.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = "".join(f"{k.name} {k.key_type} {k.key}\n" for k in keys)
    path = Path(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.closing(os.fdopen(descriptor, "r+b", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            last = os.pread(file.fileno(), 1, size - 1) if size else b"\n"
            # A file whose last line lacks its end must not swallow our first.
            data = ("" if last == b"\n" else "\n").encode() + text.encode()
            file.write(data)
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(f"the host keys cannot be remembered: {error.strerror}", file=path) from None
