"""The exception tree and the exit codes.

FleetError                      fleet cannot go on                                  exit 1
├── ConfigError                 the user's files or options are wrong               exit 2
├── SelectionError              nothing was selected                                exit 6
├── StoreError                  a run directory is missing or unreadable            exit 2
├── LockedError                 another run holds the lock                          exit 75
└── HostError                   one host failed; becomes an outcome, never aborts a run
    ├── Unreachable             no SSH connection: dns, refused, timeout, banner, kex, jump
    ├── AuthFailed              the host refused every key and the password, or a key could not be used
    ├── HostKeyUnknown          no line in known_hosts
    ├── HostKeyChanged          known_hosts says another key
    ├── ContactLost             the connection broke after it had been made
    ├── PreflightFailed         the host cannot do the job as it is
    ├── Busy                    somebody else measures there
    └── ResultInvalid           what the host sent cannot be read
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What `fleet` returns to the shell. Where several apply, `PRIORITY` decides."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    FAILED = 3
    UNREACHABLE = 4
    REGRESSION = 5
    NOTHING = 6
    LOCKED = 75
    INTERRUPTED = 130


class FleetError(Exception):
    """Base of all errors fleet raises on purpose.

    Args:
        message: one sentence: what happened.
        hint: what to do next; empty when the message already says it.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(FleetError):
    """A file or an option the user wrote is wrong. Says where: `file:line: message`."""

    exit_code = ExitCode.USAGE

    def __init__(
        self, message: str, *, file: Path | str | None = None, line: int | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.file = str(file) if file is not None else None
        self.line = line

    def __str__(self) -> str:
        where = "".join([self.file or "", f":{self.line}" if self.line is not None else ""])
        return f"{where}: {self.message}" if where else self.message


class SelectionError(FleetError):
    """A limit or a suite selects nothing."""

    exit_code = ExitCode.NOTHING


class StoreError(FleetError):
    """A run directory is missing, incomplete or cannot be read."""

    exit_code = ExitCode.USAGE


class LockedError(FleetError):
    """Another fleet process holds the lock; the message names it."""

    exit_code = ExitCode.LOCKED


class HostError(FleetError):
    """One host failed.

    Args:
        host: the alias.
        stage: where in the work it happened (`fleet.model.result.Stage`).
        reason: a short fixed code, e.g. `refused`.
        message: one sentence: what happened.
        hint: what to do next.
    """

    status = "failed"

    def __init__(self, host: str, stage: str, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.host = host
        self.stage = stage
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.host}: {self.message}"


class Unreachable(HostError):
    status = "unreachable"


class AuthFailed(HostError):
    status = "auth_failed"


class HostKeyUnknown(HostError):
    status = "host_key_unknown"


class HostKeyChanged(HostError):
    status = "host_key_changed"


class ContactLost(HostError):
    status = "contact_lost"


class PreflightFailed(HostError):
    status = "preflight_failed"


class Busy(HostError):
    status = "busy"


class ResultInvalid(HostError):
    status = "result_invalid"
