"""Hosts that a test cannot have for real: one that says whatever it likes, and one that says nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.errors import ContactLost
from fleet.transport.base import Completed, Reader, Route


class _Double:
    """What no test asks for."""

    warnings = ()
    route = Route("bench@192.0.2.1:22")

    def close(self) -> None:
        """There is no connection."""


class HostileHost(_Double):
    """A transport whose host answers every script with bytes of its own; `{nonce}` in them is the script's."""

    def __init__(self, *answers: bytes, exit_status: int = 0, stderr: bytes = b"", truncated: bool = False) -> None:
        self._answers = list(answers)
        self._completed = (exit_status, stderr, truncated)
        self.sent: list[bytes | Reader] = []
        """What every script was given on stdin."""

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        status, stderr, truncated = self._completed
        self.sent.append(stdin)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return Completed(status, answer.replace(b"{nonce}", argv[4].encode()), stderr, truncated)


class SilentHost(_Double):
    """A transport that has lost its host, until `answers` is called in its place."""

    def __init__(self, answers: Callable[..., Completed] | None = None) -> None:
        self._answers = answers

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        if self._answers is None:
            raise ContactLost("gpu01", "run", "timeout", "the connection broke")
        return self._answers(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
