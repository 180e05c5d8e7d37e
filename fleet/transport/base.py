"""The one contract between fleet and a host's shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """A command that ended, and what it printed. Bytes, cut off at the limit that was asked for."""

    exit_status: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    """There was more on stdout than the limit."""


@dataclass(frozen=True)
class Route:
    """How a host is reached. As text: `user@host:port, key SOURCE SHA256:… via JUMP, then root by sudo`."""

    address: str
    """`user@host:port`, or `this machine`."""
    key: str = ""
    """What opened the host: the key's path, `agent (comment)`, or `password`; empty before the connection."""
    key_fingerprint: str = ""
    """Of the key: `SHA256:…`."""
    jumps: tuple[str, ...] = ()
    """`host:port` of the jump hosts, the nearest first."""
    become: bool = False
    """Commands run as root, by sudo."""

    def __str__(self) -> str:
        key = f", {self.key}" if self.key else ""
        if self.key_fingerprint:
            key = f", key {self.key} {self.key_fingerprint}"
        via = f" via {', '.join(self.jumps)}" if self.jumps else ""
        return self.address + key + via + (", then root by sudo" if self.become else "")


class Reader(Protocol):
    """Bytes that are read as they are wanted: an open file, or what passes for one."""

    def read(self, most: int, /) -> bytes:
        """The next bytes, at most so many; none at the end."""
        ...


class Transport(Protocol):
    """One host. Connects on the first `run`, and again after contact was lost.

    Safe to hand from thread to thread, not to share.
    """

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about settings that matter and are not honoured; known once it has connected."""
        ...

    @property
    def route(self) -> Route:
        """The way to the host; the key only once it has connected."""
        ...

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        """Run one command to its end.

        Args:
            argv: the program and its arguments; quoting is the transport's business.
            stdin: all that the command can read; it always ends. A reader is read in small parts, as the command takes
                them.
            timeout_s: for everything: connecting, the command, its output.
            limit_bytes: the most kept of stdout (and of stderr); what comes after is read and dropped.

        Raises:
            Unreachable, AuthFailed, HostKeyUnknown, HostKeyChanged: there is no connection.
            ContactLost: it broke, or the time ran out, or no exit status came. What the command did is not known.
        """
        ...

    def close(self) -> None:
        """Let go of the connection. Never raises; `run` connects again."""
        ...


def quote_command(argv: Sequence[str], mark: str = "") -> str:
    r"""One line that any login shell (sh, bash, zsh, fish, tcsh) passes on to /bin/sh unchanged.

    A mark is printed on both outputs first: what comes before it is the login shell's own noise.

    The words are quoted for sh, then written with `printf %b` escapes so that the line holds no quote, backslash pair,
    newline, `!` or byte beyond ASCII that some shell would read in its own way.
    """
    say = f"printf %s {_quote(mark)}"
    text = (f"{say}; {say} >&2; " if mark else "") + _write_command(argv)
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$1\")\"' sh '{text}'"


def write_plainly(argv: Sequence[str]) -> str:
    """The same for a /bin/sh that reads it from anywhere else than a command line."""
    if list(argv[:2]) != ["/bin/sh", "-c"]:
        return f"exec {shlex.join(argv)}"
    return f"set -- {shlex.join(argv[4:])}\n{argv[2]}"


def _write_command(argv: Sequence[str]) -> str:
    """For /bin/sh, which runs a script of its own itself: a machine that is being measured starts one program less."""
    if list(argv[:2]) != ["/bin/sh", "-c"]:
        return " ".join(["exec", *map(_quote, argv)])
    return " ".join(["set --", *map(_quote, argv[4:])]) + _escape(f"\n{argv[2]}")


@lru_cache(maxsize=256)
def _quote(word: str) -> str:
    """The scripts are long, and the same for all hosts."""
    return _escape(shlex.quote(word))


_SPECIAL = re.compile(r"""[^A-Za-z0-9 _./=:,@%+*?()\[\]{}<>|&;$"#~^`-]""")


@lru_cache(maxsize=256)
def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda m: "".join(f"\\0{b:03o}" for b in m[0].encode()), text)
