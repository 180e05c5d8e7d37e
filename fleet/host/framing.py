"""Reading what the scripts print, whatever a login shell printed before it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fleet.errors import ContactLost
from fleet.model.text import make_inert
from fleet.transport.base import Completed, Reader, Transport


@dataclass(frozen=True)
class Section:
    """One `@@<nonce> name words…` line and the bytes up to the next one."""

    name: str
    words: tuple[str, ...]
    body: bytes


_CALLS = {
    "cancel": ("processes",),
    "clean": ("processes",),
    "supervise": ("processes",),
    "neighbours": ("holder",),
    "start": ("holder",),
    "peer_serve": ("processes",),
    "peer_fetch": ("processes", "holder", "lock"),
    "peer_end": ("processes",),
    "push_receive": ("processes", "holder", "lock"),
    "push_load": ("processes", "holder", "lock"),
    "sweep": ("holder",),
}


@cache
def read_script(name: str) -> str:
    """The text of `scripts/<name>.sh`, after that of what it calls."""
    folder = files("fleet.host").joinpath("scripts")
    return "".join(folder.joinpath(f"{part}.sh").read_text("utf-8") for part in (*_CALLS.get(name, ()), name))


@dataclass(frozen=True)
class Shell:
    """Runs fleet's scripts on one host."""

    alias: str
    transport: Transport

    def run(
        self,
        script: str,
        arguments: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes | Reader = b"",
        limit_bytes: int = 1 << 20,
    ) -> tuple[str, Completed]:
        """Run `scripts/<script>.sh NONCE ARGUMENTS…`; the nonce, and what it printed.

        Raises:
            HostError: as `Transport.run` does.
        """
        nonce = secrets.token_hex(8)
        argv = ["/bin/sh", "-c", read_script(script), "fleet", nonce, *arguments]
        return nonce, self.transport.run(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)

    def read(
        self, script: str, arguments: Sequence[str], *, stage: str, timeout_s: float, stdin: bytes | Reader = b""
    ) -> tuple[bytes, tuple[Section, ...]]:
        """As `run`; the bytes printed, and the sections in them.

        Raises:
            ContactLost: the script did not print a single section, so it did not run: a forced command, a broken shell.
        """
        nonce, completed = self.run(script, arguments, timeout_s=timeout_s, stdin=stdin)
        sections = split_sections(nonce, completed.stdout)
        if not sections:
            said = (completed.stderr or completed.stdout).decode(errors="replace").strip()[:200]
            raise ContactLost(
                self.alias,
                stage,
                "no_shell",
                f"the login shell did not run our script (exit status {completed.exit_status}): "
                f"{make_inert(said) or 'no output'}",
                "See that `ssh HOST echo ok` prints ok alone: a forced command or a missing shell prevents it.",
            )
        return completed.stdout, sections


def read_count(text: str | None) -> int | None:
    """The number, of a text of 1 to 18 decimal digits; None otherwise. `str.isdigit` alone also takes `²`."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def split_sections(nonce: str, output: bytes) -> tuple[Section, ...]:
    """Sections whose bodies are text. What comes before the first is not ours."""
    _, *chunks = (b"\n" + output).split(b"\n@@" + nonce.encode() + b" ")
    sections = []
    for chunk in chunks:
        head, _, body = chunk.partition(b"\n")
        name, *words = head.decode(errors="replace").split(" ")
        sections.append(Section(name, tuple(words), body))
    return tuple(sections)
