"""The single steps of sending an image from one host to another: each is one round trip.

The receiver makes a key, the server a host key and an sshd of its own that takes the one and shows the other; we carry
the public halves between them. Nothing of the user's is used for it: no key, no agent, no file that sshd or ssh reads.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from fleet.errors import HostError, PreflightFailed
from fleet.host.framing import Section, Shell, read_count
from fleet.host.push_steps import SLOWEST_BYTES_PER_S, STEP_TIMEOUT_S, Staging, refuse
from fleet.model.result import Stage
from fleet.model.text import make_inert

SERVE_BYTES_PER_S = 5_000_000
"""A transfer between hosts that is slower is cut off, so that an sshd that nobody ends any more ends soon."""

PEER = "peer"
"""Reason of what is wrong with a transfer between hosts, and with nothing else."""

_PORTS = range(20_000, 30_000)
"""Below those that kernels give to connections."""

_TRIES = 3
_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{40,200}")
_SERVER = re.compile(
    r"[0-9A-Fa-f][0-9A-Za-f.:%_-]{1,64} [0-9]{1,5} [A-Za-z0-9_][A-Za-z0-9._@\\$-]{0,63} " + _KEY.pattern
)


@dataclass(frozen=True)
class Server:
    """An sshd that serves one file for one transfer."""

    text: str
    """`address port user key-type host-key`."""
    word: str


def make_key(shell: Shell, staging: Staging) -> str:
    """Make the receiver's key, which stays there; its public half.

    Raises:
        PreflightFailed: the host lacks what it takes.
        HostError: as the transport's.
    """
    arguments = [staging.workdir, staging.word]
    _, sections = shell.read("peer_key", arguments, stage=Stage.PUSH, timeout_s=STEP_TIMEOUT_S)
    words = " ".join(sections[-1].words)
    if sections[-1].name != "key" or not _KEY.fullmatch(words):
        raise _explain(shell.alias, sections[-1], "cannot fetch from other hosts")
    return words


def start_server(shell: Shell, staging: Staging, word: str, key: str, size: int) -> Server:
    """Serve the file to whoever has the key.

    Raises:
        PreflightFailed: the host lacks what it takes, or no port is free.
        HostError: as the transport's.
    """
    limit_s = STEP_TIMEOUT_S + size / SERVE_BYTES_PER_S
    ports = [str(port) for port in random.sample(_PORTS, _TRIES)]
    arguments = [staging.workdir, staging.name, word, f"{limit_s:.0f}", key, *ports]
    _, sections = shell.read("peer_serve", arguments, stage=Stage.PUSH, timeout_s=STEP_TIMEOUT_S)
    words = " ".join(sections[-1].words)
    if sections[-1].name != "serving" or not _SERVER.fullmatch(words):
        raise _explain(shell.alias, sections[-1], "cannot serve other hosts")
    return Server(words, word)


def fetch_part(shell: Shell, staging: Staging, server: Server, offset: int, length: int) -> int:
    """Append a part from a server to the file, which should have `offset` bytes; how many it has now.

    Raises:
        Busy: something is measured there, or somebody else pushes an image.
        PreflightFailed: nothing came.
        HostError: as the transport's.
    """
    arguments = [staging.workdir, staging.name, str(offset), staging.word, staging.who, str(length), server.text]
    timeout_s = STEP_TIMEOUT_S + length / SLOWEST_BYTES_PER_S
    _, sections = shell.read("peer_fetch", arguments, stage=Stage.PUSH, timeout_s=timeout_s)
    answer = sections[-1]
    if answer.name in {"busy", "lock_unreadable", "not_writable"}:
        raise refuse(shell.alias, answer, staging)
    size = read_count(" ".join(answer.words)) or 0
    if answer.name != "received" or size <= offset:
        raise _explain(shell.alias, answer, "nothing came")
    return size


def end_transfer(shell: Shell, staging: Staging, word: str, *, drop: bool = False) -> None:
    """End what a transfer has left on a host: its sshd or ssh, its keys, and with `drop` the file.

    Raises:
        HostError: as the transport's.
    """
    arguments = [staging.workdir, word, staging.name if drop else ""]
    shell.read("peer_end", arguments, stage=Stage.PUSH, timeout_s=STEP_TIMEOUT_S)


def _explain(alias: str, answer: Section, what: str) -> HostError:
    why = make_inert(" ".join((answer.name, *answer.words)), 300).replace("_", " ")
    return PreflightFailed(alias, Stage.PUSH, PEER, f"{what}: {why}", "It gets the image from here.")
