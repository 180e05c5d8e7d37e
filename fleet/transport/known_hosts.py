"""Reads known_hosts files as ssh does: hashed names, `[host]:port`, wildcards, negation, `@revoked`, `@cert-authority`.

A line that cannot be read is left out and remembered; it never spoils the lines around it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stat
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

KeyVerdict = Literal["yes", "no", "changed", "revoked", "authority_only"]

OFFERABLE = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
"""Types of host key that we can verify, best first, as they are named in known_hosts."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file."""

    file: str
    line: int
    marker: Literal["", "@revoked", "@cert-authority"]
    key_type: str
    key: str
    """base64, as written."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.key)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What known_hosts says of a key that a host showed, and the lines that say it."""

    known: KeyVerdict
    because: tuple[KnownKey, ...] = ()


def fingerprint_of(key: str) -> str:
    """`SHA256:…` of a base64 key, as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def name_in_known_hosts(host: str, port: int, host_key_alias: str | None = None) -> str:
    """How a host is written in known_hosts: its HostKeyAlias, or its name, with the port when that is not 22."""
    if host_key_alias:
        return host_key_alias.lower()
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


class KnownHosts:
    """The lines of one file, indexed by name."""

    def __init__(self, file: str, lines: Iterable[bytes]) -> None:
        self.unreadable: list[str] = []
        """`file:line` of every line that was left out."""
        self._plain: dict[str, list[KnownKey]] = {}
        self._hashed: list[tuple[bytes, bytes, KnownKey]] = []
        self._patterns: list[tuple[tuple[str, ...], KnownKey]] = []
        for number, raw in enumerate(lines, start=1):
            text = raw.decode("utf-8", "replace").strip()
            if text and not text.startswith("#") and not self._add(file, number, text.split()):
                self.unreadable.append(f"{file}:{number}")

    def _add(self, file: str, number: int, fields: list[str]) -> bool:
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        if marker not in ("", "@revoked", "@cert-authority") or len(fields) < 3 or not _is_key(fields[1], fields[2]):
            return False
        known = KnownKey(file, number, marker, fields[1], fields[2])  # type: ignore[arg-type]
        names = fields[0].lower() if not fields[0].startswith("|") else fields[0]
        if names.startswith("|1|"):
            return self._add_hashed(names, known)
        parts = tuple(n for n in names.split(",") if n)
        if any(c in names for c in "*?!"):
            self._patterns.append((parts, known))
        else:
            for part in parts:
                self._plain.setdefault(part, []).append(known)
        return True

    def _add_hashed(self, names: str, known: KnownKey) -> bool:
        try:
            salt, digest = (base64.b64decode(p, validate=True) for p in names[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        self._hashed.append((salt, digest, known))
        return True

    def find(self, name: str) -> list[KnownKey]:
        """Every line that speaks of `name` (as `name_in_known_hosts` writes it): plain, hashed, then patterns."""
        wanted = name.encode("utf-8", "replace")
        found = list(self._plain.get(name, ()))
        found += [k for salt, digest, k in self._hashed if hmac.digest(salt, wanted, "sha1") == digest]
        return found + [k for patterns, k in self._patterns if _match_patterns(name, patterns)]


def _is_key(key_type: str, key: str) -> bool:
    # Only the first bytes are decoded: the type inside must be the type outside. Thousands of lines stay cheap.
    try:
        head = base64.b64decode(key[:64], validate=True)
    except (ValueError, binascii.Error):
        return False
    size = int.from_bytes(head[:4], "big")
    return len(key) % 4 == 0 and head[4 : 4 + min(size, 40)] == key_type.encode()[:40]


def _match_patterns(name: str, patterns: Sequence[str]) -> bool:
    matched = False
    for pattern in patterns:
        if match_pattern(name, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def match_pattern(name: str, pattern: str) -> bool:
    """Whether a pattern of ssh's files, with `*` and `?`, stands for a name."""
    return _pattern(pattern).fullmatch(name) is not None


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    # Not fnmatch: there, `[` opens a set; here it is part of `[host]:port`.
    return re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)


_cache: dict[str, tuple[tuple[int, int, int], KnownHosts]] = {}
_cache_lock = threading.Lock()


def load_known_hosts(file: str) -> KnownHosts:
    """The file parsed; parsed again only when it has changed. What is missing, unreadable or no file knows nobody."""
    with _cache_lock:
        try:
            found = Path(file).stat()
            if not stat.S_ISREG(found.st_mode):
                return KnownHosts(file, [])  # /dev/null knows nobody, and a pipe would be waited for
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if file in _cache and _cache[file][0] == stamp:
                return _cache[file][1]
            known = KnownHosts(file, Path(file).read_bytes().splitlines())
        except OSError:
            return KnownHosts(file, [])
        _cache[file] = (stamp, known)
        return known


@dataclass(frozen=True)
class HostKeys:
    """What all files in force say of one host."""

    name: str
    """As it stands in known_hosts."""
    keys: tuple[KnownKey, ...]
    keys_of_bare_name: tuple[KnownKey, ...] = ()
    """For a port other than 22: lines for the name without port. A matching one is good enough; others mean nothing."""
    unreadable: tuple[str, ...] = ()
    """`file:line` of every line that was left out: the key may have been there."""

    def offered_types(self) -> list[str]:
        """Types to ask the host for, the known ones first, so that it shows the key that we can compare."""
        known = {k.key_type for k in (*self.keys, *self.keys_of_bare_name) if not k.marker}
        return sorted(OFFERABLE, key=lambda t: t not in known)

    def judge(self, key_type: str, key: str) -> Verdict:
        """Compare the key the host showed (type and base64) with the known ones."""
        both = (*self.keys, *self.keys_of_bare_name)
        revoked = tuple(k for k in both if k.marker == "@revoked" and k.key == key)
        if revoked:
            return Verdict("revoked", revoked)
        same = tuple(k for k in both if not k.marker and k.key_type == key_type and k.key == key)
        if same:
            return Verdict("yes", same)
        # The known types are asked for first: a host that shows another type no longer has the key we know.
        other = tuple(k for k in self.keys if not k.marker and k.key_type in OFFERABLE)
        if other:
            return Verdict("changed", other)
        authorities = tuple(k for k in self.keys if k.marker == "@cert-authority")
        return Verdict("authority_only", authorities) if authorities else Verdict("no")


def find_host_keys(files: Sequence[str], host: str, port: int, host_key_alias: str | None = None) -> HostKeys:
    """Look a host up in all files."""
    loaded = [load_known_hosts(f) for f in files]
    name = name_in_known_hosts(host, port, host_key_alias)
    keys = tuple(k for f in loaded for k in f.find(name))
    bare: tuple[KnownKey, ...] = ()
    if name.startswith("[") and not host_key_alias:
        bare = tuple(k for f in loaded for k in f.find(host.lower()))
    return HostKeys(name, keys, bare, tuple(line for f in loaded for line in f.unreadable))
