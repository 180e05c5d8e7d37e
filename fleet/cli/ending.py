"""How a command that looks after many hosts ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import ExitCode
from fleet.model.result import HostStatus

GOOD = (HostStatus.OK, HostStatus.SKIPPED)


@dataclass(frozen=True)
class Answer:
    """How it ended for one host."""

    alias: str
    status: str
    """`ok` or a `HostStatus`."""
    reason: str | None = None
    message: str = ""
    """A sentence for people; empty when ok."""
    hint: str = ""
    """What to do next."""


def choose_exit_code(statuses: Iterable[str]) -> ExitCode:
    """The exit code for hosts that ended so, each with one of the words of `HostStatus`."""
    bad = [HostStatus(status) for status in statuses if status not in GOOD]
    if not bad:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if all(status.out_of_reach for status in bad) else ExitCode.FAILED
