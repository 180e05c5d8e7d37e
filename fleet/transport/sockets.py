"""One connected TCP socket, by a deadline, with low latency and a quick end when the peer is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import selectors
import socket
import struct
import threading
from collections.abc import Sequence

from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, unreachable, unreachable_by

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""Address family, and what `connect` takes."""

UNACKNOWLEDGED_LIMIT_MS = 30_000
"""The kernel gives the connection up when sent bytes stay unacknowledged for this long."""

_NEXT_ADDRESS_AFTER_S = 0.5
_HANDSHAKE_LIMIT_BYTES = 1 << 20
_FIRST_BYTES = 200
_READ_BYTES = 1 << 16


class SshSocket(socket.socket):
    """A stream socket that acknowledges at once, waits as few times as it can, and bounds what a stranger may send.

    Delayed acknowledgements cost 40 ms a round trip against a peer with Nagle's algorithm on, and the kernel turns them
    on again by itself: TCP_QUICKACK is set again before each read. With hundreds of threads every wait gives the
    interpreter away and has to get it back: so what is there is read ahead, where paramiko asks for each packet twice,
    and time limits are the kernel's, where Python would wait for the socket before it reads.
    """

    def __init__(
        self, family: int, sock_type: int = socket.SOCK_STREAM, proto: int = 0, fileno: int | None = None
    ) -> None:
        super().__init__(family, sock_type, proto, fileno)
        self.trusted = False
        """Set once the host key is verified: from then on the size limit is lifted."""
        self.first_bytes = b""
        """The beginning of what the peer sent."""
        self._strange_bytes = 0
        self._ahead = b""
        """Read, and not asked for yet."""
        self._quick = hasattr(socket, "TCP_QUICKACK") and family != socket.AF_UNIX

    def shut_down(self) -> None:
        """From another thread: whoever waits for the peer wakes up at its end."""
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def settimeout(self, value: float | None, /) -> None:
        super().settimeout(None)
        timeval = struct.pack("ll", int(value or 0), int((value or 0) % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.setsockopt(socket.SOL_SOCKET, option, timeval)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = self._ahead or self._read(max(bufsize, _READ_BYTES), flags)
        self._ahead = data[bufsize:]
        return data[:bufsize]

    def _read(self, most: int, flags: int) -> bytes:
        if self._quick:
            with contextlib.suppress(OSError):
                self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        try:
            data = super().recv(most, flags)
        except BlockingIOError:
            raise TimeoutError from None
        if not self.trusted:
            self.first_bytes += data[: _FIRST_BYTES - len(self.first_bytes)]
            self._strange_bytes += len(data)
            if self._strange_bytes > _HANDSHAKE_LIMIT_BYTES:
                return b""
        return data


def open_socket(place: Place, family: str, bind_address: str | None, deadline: Deadline) -> SshSocket:
    """Connect to the first address that answers; the next one is tried half a second later, or at once on a refusal.

    Raises:
        Unreachable: dns, refused, no_route or timeout.
    """
    addresses = resolve_addresses(place, family, deadline)
    sock = _connect_first(place, addresses, bind_address, deadline)
    sock.setblocking(True)
    _tune(sock)
    return sock


def resolve_addresses(place: Place, family: str, deadline: Deadline) -> list[Address]:
    """Ask the resolver, which knows no time limit, in a thread of its own."""
    answers: queue.SimpleQueue[list[Address] | OSError | UnicodeError] = queue.SimpleQueue()
    wanted = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(family, socket.AF_UNSPEC)

    def look_up(flags: int) -> list[Address]:
        found = socket.getaddrinfo(place.host, place.port, wanted, socket.SOCK_STREAM, flags=flags)
        return [(int(f), address) for f, _, _, _, address in found]  # type: ignore[misc]

    def ask() -> None:
        try:
            answers.put(look_up(0))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    with contextlib.suppress(OSError, UnicodeError):
        return look_up(socket.AI_NUMERICHOST)
    threading.Thread(target=ask, name="fleet-resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.left())
    except queue.Empty:
        raise unreachable(place, "dns", "could not be looked up in time: the resolver does not answer") from None
    if isinstance(answer, UnicodeError):
        raise unreachable(place, "dns", "is not a possible host name")
    if isinstance(answer, OSError):
        raise unreachable(place, "dns", f"could not be looked up: {answer.strerror or answer}")
    return answer


def _connect_first(
    place: Place, addresses: Sequence[Address], bind_address: str | None, deadline: Deadline
) -> SshSocket:
    waiting = list(addresses)
    errors: list[OSError] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or selector.get_map():
                if waiting:
                    _start(waiting.pop(0), bind_address, selector, errors)
                for key, _ in selector.select(min(deadline.left(), _NEXT_ADDRESS_AFTER_S)):
                    sock = key.fileobj
                    assert isinstance(sock, SshSocket)
                    selector.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code == 0:
                        return sock
                    sock.close()
                    errors.append(OSError(code, os.strerror(code)))
                if deadline.passed:
                    errors.append(TimeoutError())
                    break
        finally:
            for key in selector.get_map().values():
                assert isinstance(key.fileobj, SshSocket)
                key.fileobj.close()
    # A refusal tells more than silence from another address.
    errors.sort(key=lambda e: isinstance(e, TimeoutError))
    raise unreachable_by(place, errors[0])


def _start(address: Address, bind_address: str | None, selector: selectors.BaseSelector, errors: list[OSError]) -> None:
    try:
        sock = SshSocket(address[0])
    except OSError as error:
        errors.append(error)
        return
    try:
        sock.setblocking(False)
        if bind_address:
            sock.bind((bind_address, 0))
        code = sock.connect_ex(address[1])
        if code not in {0, errno.EINPROGRESS}:
            raise OSError(code, os.strerror(code))
        selector.register(sock, selectors.EVENT_WRITE)
    except OSError as error:
        errors.append(error)
        sock.close()


def _tune(sock: SshSocket) -> None:
    """No waiting to fill packets; a dead peer is noticed within a minute. What a platform lacks is left out."""
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNACKNOWLEDGED_LIMIT_MS),
    ]
    for level, name, value in options:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(level, getattr(socket, name), value)
