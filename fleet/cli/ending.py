"""How a command that looks after many hosts ends."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.errors import ExitCode
from fleet.model.result import HostStatus

GOOD = (HostStatus.OK, HostStatus.SKIPPED)


def choose_exit_code(statuses: Iterable[str]) -> ExitCode:
    """The exit code for hosts that ended so, each with one of the words of `HostStatus`."""
    bad = [HostStatus(status) for status in statuses if status not in GOOD]
    if not bad:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if all(status.out_of_reach for status in bad) else ExitCode.FAILED
