"""The transport to the control node itself: the same contract by subprocess."""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from fleet.errors import ContactLost
from fleet.transport.base import Completed, Reader, Route
from fleet.transport.capture import Capture
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, contact_lost
from fleet.transport.ssh_tokens import home_directory

DRAIN_LIMIT_S = 5.0
"""How long after its end a command's output may stay open (held by a child in the background) without a byte."""

_KILL_LIMIT_S = 2.0
_CHUNK_BYTES = 1 << 16


class LocalTransport:
    """This machine (see `fleet.transport.base.Transport`). Commands start in the home directory, without a shell."""

    def __init__(self, alias: str) -> None:
        self._place = Place(alias, "localhost", 0)

    @property
    def route(self) -> Route:
        return Route("this machine")

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        """See `Transport.run`. A program that cannot be started ends with 127 or 126, as in a shell."""
        deadline = Deadline(timeout_s)
        try:
            process = _start(argv)
        except (OSError, ValueError) as error:
            status = 126 if isinstance(error, PermissionError) else 127
            return Completed(status, b"", f"{argv[0]}: {error}\n".encode("utf-8", "replace")[:limit_bytes])
        stdout, stderr = Capture(limit_bytes), Capture(limit_bytes)
        try:
            feed = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
            if not _follow(process, feed, (stdout, stderr), deadline):
                raise self._lost("timeout", f"The command on this machine did not end within {timeout_s:g} s.")
        finally:
            _end(process)
        if process.returncode < 0:
            what = f"A command on this machine was ended by signal {-process.returncode}."
            raise self._lost("no_exit_status", what)
        return Completed(process.returncode, stdout.data, stderr.data, stdout.truncated)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _lost(self, reason: str, what: str) -> ContactLost:
        return contact_lost(self._place, reason, what)


def _start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    home = Path(os.environ.get("HOME") or home_directory())
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=home if home.is_dir() else "/",
    )


def _follow(
    process: subprocess.Popen[bytes], feed: Reader, captures: tuple[Capture, Capture], deadline: Deadline
) -> bool:
    """Feed the process and gather its output, until both have ended; False when the time ran out before."""
    assert process.stdin and process.stdout and process.stderr
    chunk = b""
    last_byte = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for stream, capture in zip((process.stdout, process.stderr), captures, strict=True):
            selector.register(stream, selectors.EVENT_READ, capture)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            if deadline.passed:
                return False
            ended = process.poll() is not None
            if ended and time.monotonic() - last_byte > DRAIN_LIMIT_S:
                return True
            wait = 1.0 if ended else min(1.0, deadline.left())
            for key, events in selector.select(wait):
                last_byte = time.monotonic()
                if events & selectors.EVENT_WRITE:
                    chunk = _write(process.stdin, chunk or feed.read(_CHUNK_BYTES), selector)
                else:
                    _read(key, selector)
    return _wait(process, deadline)


def _write(stream: IO[bytes], chunk: bytes, selector: selectors.BaseSelector) -> bytes:
    """Write what fits of the chunk, and return the rest; an empty one is the end."""
    try:
        if chunk:
            return chunk[os.write(stream.fileno(), chunk) :]
    except BlockingIOError:
        return chunk
    except BrokenPipeError:
        pass
    selector.unregister(stream)
    stream.close()
    return b""


def _read(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    chunk = os.read(key.fd, _CHUNK_BYTES)
    if chunk:
        key.data.add(chunk)
    else:
        selector.unregister(key.fileobj)


def _wait(process: subprocess.Popen[bytes], deadline: Deadline) -> bool:
    try:
        process.wait(timeout=deadline.left())
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs, with its children; a command that ended leaves its detached children alone."""
    ended = process.poll() is not None
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if not ended:
        # What sudo has started is root's and not ours to kill: it ends by itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_LIMIT_S)
