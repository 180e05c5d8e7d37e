"""The transport over SSH."""

from __future__ import annotations

import contextlib
import io
import secrets
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import paramiko

from fleet.errors import AuthFailed, ContactLost, HostError
from fleet.model.inventory import Connection
from fleet.transport.base import Completed, Reader, Route, quote_command
from fleet.transport.capture import Capture
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, contact_lost, unreachable
from fleet.transport.link import Link, open_link
from fleet.transport.password_login import REFUSED
from fleet.transport.spare import SpareChannel
from fleet.transport.ssh_config import Endpoint, resolve_endpoint
from fleet.transport.watchdog import WATCHDOG

DRAIN_LIMIT_S = 5.0
"""How long after its end a command's output may stay open (held by a child in the background) without a byte."""

_CHUNK_BYTES = 1 << 18
_PACKET_BYTES = (1 << 15) - 64
"""The most that paramiko puts into one."""

_WINDOW_POLL_S = 0.005
_STATUS_POLL_S = 1.0
_GRACE_S = 0.5
_END_LIMIT_S = 0.1


class SshTransport:
    """One host over SSH (see `fleet.transport.base.Transport`).

    Args:
        alias: the host's name in the inventory.
        connection: how to reach it.
        known_hosts: files that replace those of ssh_config, for jump hosts too.
        password: for the host, if it takes none of our keys.
    """

    def __init__(
        self,
        alias: str,
        connection: Connection,
        *,
        known_hosts: Sequence[str] | None = None,
        password: str | None = None,
    ) -> None:
        self._alias = alias
        self._connection = connection
        self._known_hosts = tuple(known_hosts) if known_hosts is not None else None
        self._password = password
        self._refused: AuthFailed | None = None
        self._endpoint: Endpoint | None = None
        self._link: Link | None = None
        self._spare: SpareChannel | None = None

    @property
    def endpoint(self) -> Endpoint:
        """What ssh_config and the inventory say; asked once. Raises Unreachable when they cannot be followed."""
        if self._endpoint is None:
            self._endpoint = choose_known_hosts(resolve_endpoint(self._alias, self._connection), self._known_hosts)
        return self._endpoint

    @property
    def warnings(self) -> tuple[str, ...]:
        """Directives of ssh_config that matter and are not honoured, a sentence each."""
        return self.endpoint.warnings

    @property
    def route(self) -> Route:
        """The way to the host; the key only once the connection is made."""
        end = self.endpoint
        accepted = self._link.accepted if self._link is not None else None
        by_password = self._link is not None and self._link.by_password
        return Route(
            address=f"{end.user}@{self._place.address}",
            key="password" if by_password else accepted.source if accepted else "",
            key_fingerprint=str(accepted.key.fingerprint) if accepted and not by_password else "",
            jumps=tuple(Place(self._alias, jump.host, jump.port).address for jump in end.jumps),
        )

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        """See `Transport.run`. Output of the login shell's start files is not part of the result."""
        deadline = Deadline(timeout_s)
        mark = secrets.token_hex(12)
        line = quote_command(argv, mark)
        is_first = self._link is None
        channel = self._open_channel(deadline)
        feed = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        work = _Command(channel, feed, Capture(limit_bytes, mark.encode()), Capture(limit_bytes, mark.encode()))
        with self._translated(deadline), self._watched(deadline):
            try:
                if is_first and self._link is not None:
                    self._spare = SpareChannel(self._link.transport)
                channel.exec_command(line)
                ended = work.follow(deadline)
            finally:
                channel.close()
        return self._conclude(work, ended, deadline, timeout_s)

    def close(self) -> None:
        link, self._link, self._spare = self._link, None, None
        if link is not None:
            link.close()

    @property
    def _place(self) -> Place:
        return Place(self._alias, self.endpoint.host, self.endpoint.port)

    def _open_channel(self, deadline: Deadline) -> paramiko.Channel:
        """A channel on the kept connection, or on a new one where that one has died in the meantime."""
        kept = self._link is not None
        try:
            return self._open_channel_once(deadline)
        except ContactLost as error:
            # Nothing was sent yet, so that connecting anew repeats nothing.
            if not kept or error.reason != "connection_lost":
                raise
            return self._open_channel_once(deadline)

    def _open_channel_once(self, deadline: Deadline) -> paramiko.Channel:
        if self._link is not None and not self._link.is_alive:
            self.close()
        if self._link is None:
            self._link = self._connect(deadline)
        with self._translated(deadline), self._watched(deadline):
            try:
                spare, self._spare = self._spare, None
                channel = spare.take() if spare else None
                return channel or self._link.transport.open_session(timeout=deadline.left())
            except paramiko.SSHException:
                # No channel in time, or none left: commands that outlived their time limit count for MaxSessions.
                self.close()
                raise

    def _connect(self, deadline: Deadline) -> Link:
        # Whoever polls comes again and again, and each wrong try brings the account nearer to its lock.
        if self._refused is not None:
            raise self._refused
        try:
            return open_link(self._alias, self.endpoint, deadline, self._password)
        except AuthFailed as error:
            self._refused = error if error.reason == REFUSED else None
            raise

    @contextlib.contextmanager
    def _watched(self, deadline: Deadline) -> Iterator[None]:
        """End the connection at the deadline: for some answers, and for room in the socket, paramiko waits for ever."""
        assert self._link is not None
        with WATCHDOG.watch(deadline.left() + _GRACE_S, self._link.abort):
            yield

    @contextlib.contextmanager
    def _translated(self, deadline: Deadline) -> Iterator[None]:
        try:
            yield
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._drop_dead_link()
            if deadline.passed:
                raise contact_lost(self._place, "timeout", f"{self._place} stopped answering.") from None
            why = f": {error}" if str(error) else ""
            raise contact_lost(self._place, "connection_lost", f"The connection to {self._place} broke{why}.") from None

    def _drop_dead_link(self) -> None:
        if self._link is not None and not self._link.is_alive:
            self.close()

    def _conclude(self, work: _Command, ended: bool, deadline: Deadline, timeout_s: float) -> Completed:
        alive = self._link is not None and self._link.is_alive
        if alive and work.channel.exit_status < 0 and self._link is not None:
            # A dying connection closes its channels a moment before it says that it is dead.
            alive = not self._link.ends_within(_END_LIMIT_S)
        self._drop_dead_link()
        if not ended:
            what = f"The command on {self._place} did not end within {timeout_s:g} s."
            raise contact_lost(self._place, "timeout", what)
        status = work.channel.exit_status
        if status < 0 and not alive:
            raise contact_lost(
                self._place, "connection_lost", f"The connection to {self._place} broke during a command."
            )
        if not work.stdout.marked:
            raise self._explain_foreign(work, status)
        if status < 0:
            raise contact_lost(
                self._place, "no_exit_status", f"A command on {self._place} ended without an exit status."
            )
        return Completed(status, work.stdout.data, work.stderr.data, work.stdout.truncated)

    def _explain_foreign(self, work: _Command, status: int) -> HostError:
        said = (work.stdout.noise or work.stderr.noise).decode("utf-8", "replace").strip()
        text = f"the login shell of {self.endpoint.user} did not run the command (exit status {status}): {said[:300]!r}"
        return unreachable(self._place, "shell", text)


@dataclass
class _Command:
    """One command on its channel: feeds it and gathers what it prints."""

    channel: paramiko.Channel
    stdin: Reader
    stdout: Capture
    stderr: Capture
    _chunk: memoryview = field(default_factory=lambda: memoryview(b""))
    """Read of stdin, and not taken yet."""
    _fed: bool = False
    """The command's standard input is closed."""

    def follow(self, deadline: Deadline) -> bool:
        """Until the command has ended and its output is read; False when the time ran out before."""
        channel = self.channel
        ready = select.poll()
        ready.register(channel.fileno(), select.POLLIN)
        channel.settimeout(deadline.left() + _GRACE_S)
        last_byte = time.monotonic()
        while not deadline.passed:
            self._feed()
            if self._drain():
                last_byte = time.monotonic()
                continue
            if channel.eof_received or channel.closed:
                return self._await_status(deadline)
            if channel.exit_status_ready() and time.monotonic() - last_byte > DRAIN_LIMIT_S:
                return True
            if not self._fed:
                self._await_window()
                continue
            # An exit status alone does not make the channel readable: look for it now and then.
            ready.poll(min(_STATUS_POLL_S, deadline.left()) * 1000)
        return False

    def _feed(self) -> None:
        channel = self.channel
        if self._fed or channel.closed:
            return
        if not self._chunk:
            self._chunk = memoryview(self.stdin.read(_CHUNK_BYTES))
        try:
            if self._chunk:
                while self._chunk and channel.send_ready():
                    self._chunk = self._chunk[channel.send(bytes(self._chunk[:_PACKET_BYTES])) :]
                return
            channel.shutdown_write()
        except OSError:
            # The command has closed its standard input, or has ended: what it did not want is not missed.
            pass
        self._fed = True

    def _await_window(self) -> None:
        """Until the command takes more, which nothing else tells; not for long, for it may print and wait for us."""
        with self.channel.lock:
            if self.channel.out_window_size == 0 and not self.channel.closed:
                self.channel.out_buffer_cv.wait(_WINDOW_POLL_S)

    def _drain(self) -> bool:
        """Read what is there; whether there was anything."""
        any_read = False
        if self.channel.recv_ready():
            self.stdout.add(self.channel.recv(_CHUNK_BYTES))
            any_read = True
        if self.channel.recv_stderr_ready():
            self.stderr.add(self.channel.recv_stderr(_CHUNK_BYTES))
            any_read = True
        return any_read

    def _await_status(self, deadline: Deadline) -> bool:
        if not self.channel.status_event.wait(deadline.left()):
            return False
        while self._drain():
            pass
        return True


def choose_known_hosts(endpoint: Endpoint, files: Sequence[str] | None) -> Endpoint:
    """The endpoint with other known_hosts files, for its jump hosts too; unchanged when `files` is None."""
    if files is None:
        return endpoint
    jumps = tuple(replace(j, known_hosts_files=tuple(files)) for j in endpoint.jumps)
    return replace(endpoint, known_hosts_files=tuple(files), jumps=jumps)
