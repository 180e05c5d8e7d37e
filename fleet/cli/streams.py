"""The standard streams: a reader who leaves is no fault, a full disk is a sentence, a closed stream is seen at once."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Any, TextIO

from fleet.errors import FleetError


class _Outlet(io.FileIO):
    """A descriptor whose first failed write is its last: what comes after it goes nowhere.

    So a run goes on when nobody looks any more, and Python does not complain again when it flushes at its end.
    """

    def __init__(self, descriptor: int, *, must_arrive: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._must_arrive = must_arrive
        self._shut = False

    def write(self, data: Any, /) -> int:
        size = memoryview(data).nbytes
        if self._shut:
            return size
        try:
            return super().write(data) or 0
        except OSError as error:
            self._shut = True
            if self._must_arrive and not self._was_left(error):
                raise FleetError(
                    f"standard output cannot be written: {(error.strerror or str(error)).lower()}.",
                    "Nothing is lost of a run: `fleet report` prints it again.",
                ) from error
            return size

    def _was_left(self, error: OSError) -> bool:
        """Nobody looks any more: a pipe without a reader, a terminal that was closed. A disk can say EIO, too."""
        terminal = stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
        return error.errno == errno.EPIPE or (error.errno == errno.EIO and terminal)


def open_streams() -> None:
    """Make the standard streams safe to write to. Once, before anything is printed.

    What cannot be written to stdout raises FleetError where it is written or flushed; stderr never fails.

    Raises:
        FleetError: stdout is closed.
    """
    closed = [descriptor for descriptor in range(3) if not _is_open(descriptor)]
    for _ in closed:
        # The lowest free descriptor is this one; the next file that fleet opens would get it, and be written to.
        os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stderr = _wrap(2, sys.stderr, must_arrive=False)
    sys.stdout = _wrap(1, sys.stdout, must_arrive=True)
    if 1 in closed:
        raise FleetError("standard output is closed.", "Give it a file, a pipe, or /dev/null.")


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _wrap(descriptor: int, old: TextIO | None, *, must_arrive: bool) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_Outlet(descriptor, must_arrive=must_arrive)),
        encoding=old.encoding if old else "utf-8",
        errors=old.errors if old else "backslashreplace",
        line_buffering=not must_arrive or os.isatty(descriptor),
    )
