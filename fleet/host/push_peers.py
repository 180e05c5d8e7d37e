"""A push in which hosts that have the image send it on to those that have not."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import ClassVar

from fleet.errors import ContactLost, HostError, PreflightFailed
from fleet.host.framing import Shell
from fleet.host.image_stream import Stream
from fleet.host.pause import Pause
from fleet.host.peer_steps import PEER, end_transfer, fetch_part, make_key, start_server
from fleet.host.push import PART_BYTES, Push, Steps
from fleet.host.push_steps import Staging, find_gathered
from fleet.model.inventory import Host
from fleet.model.push import PushNotice
from fleet.transport.open import open_transport
from fleet.transport.passwords import NO_PASSWORDS, Passwords

WAIT_S = 0.5

MOST_VAIN = 3
"""After so many transfers from other hosts in vain, a host waits for the control node alone."""


@dataclass(frozen=True)
class Peer:
    """A host that has a stream, and where."""

    host: Host
    staging: Staging


class Peers:
    """Who is free to send: each host that has it all, and the control node, to one other at a time. For all threads.

    Args:
        hosts: how many take part.
        passwords: for whoever is connected to in order to send.
    """

    def __init__(self, hosts: int, passwords: Passwords = NO_PASSWORDS) -> None:
        self.passwords = passwords
        self._lock, self._digest_lock = threading.Lock(), threading.Lock()
        self._left = hosts
        self._free: dict[str, list[Peer]] = defaultdict(list)
        self._sending_here: set[str] = set()
        self._digests: dict[str, str] = {}

    @property
    def wanted(self) -> bool:
        """Some host may still need a sender."""
        return self._left > 0

    def leave(self) -> None:
        """One host needs none any more."""
        with self._lock:
            self._left -= 1

    def take(self, key: str) -> Peer | None:
        """A host that has the stream of this key and sends it to nobody; it is the caller's then."""
        with self._lock:
            return self._free[key].pop(0) if self._free[key] else None

    def give(self, key: str, peer: Peer) -> None:
        """A host is free to send."""
        with self._lock:
            self._free[key].append(peer)

    def take_here(self, key: str) -> bool:
        """Whether the control node sends this stream to nobody; it is the caller's then."""
        with self._lock:
            free = key not in self._sending_here
            self._sending_here.add(key)
            return free

    def give_here(self, key: str) -> None:
        """The control node is free to send."""
        with self._lock:
            self._sending_here.discard(key)

    def find_digest(self, stream: Stream) -> str:
        """sha256 of a stream, which is read once."""
        with self._digest_lock:
            if stream.key not in self._digests:
                self._digests[stream.key] = stream.digest(stream.size)
            return self._digests[stream.key]


@dataclass
class PeerPush(Push):
    """As `Push`, but whoever is free sends; the host keeps what it has got for others until all are done."""

    peers: Peers = field(kw_only=True)
    keep: ClassVar[bool] = True
    _used: Staging | None = None
    _peer: Peer | None = None
    _vain: int = 0

    def run(self) -> Steps[None]:
        try:
            yield from super().run()
        finally:
            self.peers.leave()
        if self._used is None:
            return
        while self._peer is not None and self.peers.wanted:
            yield Pause(WAIT_S)
        try:
            end_transfer(self._shell, self._used, self._used.word, drop=self._load_s is not None)
        except HostError as error:
            message = f"{self._used.path} may have been left on the host: {error.message}"
            yield PushNotice(alias=self._alias, message=message)
        finally:
            self.transport.close()

    def _send(self, stream: Stream, staging: Staging, offset: int) -> Steps[None]:
        self._used = staging
        yield from self._gather(stream, staging, offset)
        if self._fetched and not (yield from self._is_right(stream, staging)):
            yield PushNotice(alias=self._alias, message="what other hosts sent is not the image: sending it from here")
            self._fetched, self._vain = 0, MOST_VAIN
            yield from self._gather(stream, staging, 0)
        self._peer = Peer(self.host, staging)
        self.peers.give(stream.key, self._peer)

    def _is_right(self, stream: Stream, staging: Staging) -> Steps[bool]:
        """Whether all that was gathered is the image: one host is not to be trusted with what another runs."""
        yield self._enter("checking", stream.size, stream.size)
        _, digest = yield from self._insist(lambda: find_gathered(self._shell, staging, stream.size))
        return digest == self.peers.find_digest(stream)

    def _gather(self, stream: Stream, staging: Staging, offset: int) -> Steps[None]:
        """Until all is there, from whoever is free to send."""
        key = yield from self._make_key(staging)
        while offset < stream.size:
            peer = self.peers.take(stream.key) if key and self._vain < MOST_VAIN else None
            if peer is not None:
                offset = yield from self._fetch(peer, key, stream, staging, offset)
            elif self.peers.take_here(stream.key):
                try:
                    yield from super()._send(stream, staging, offset)
                finally:
                    self.peers.give_here(stream.key)
                return
            else:
                yield self._enter("waiting", stream.size, offset)
                yield Pause(WAIT_S, connecting=True)

    def _make_key(self, staging: Staging) -> Steps[str]:
        """Public half of the key that this host fetches with; empty: it cannot."""
        try:
            return (yield from self._insist(lambda: make_key(self._shell, staging)))
        except PreflightFailed as error:
            yield PushNotice(alias=self._alias, message=error.message)
            return ""

    def _fetch(self, peer: Peer, key: str, stream: Stream, staging: Staging, offset: int) -> Steps[int]:
        """As much as comes from another host; how much there is then."""
        alias, word = peer.host.alias, f"peer-{secrets.token_hex(6)}"
        transport = open_transport(peer.host, self.peers.passwords)
        try:
            server = start_server(Shell(alias, transport), peer.staging, word, key, stream.size)
            while offset < stream.size:
                yield self._enter("fetching", stream.size, offset)
                now = fetch_part(self._shell, staging, server, offset, min(PART_BYTES, stream.size - offset))
                self._fetched += now - offset
                offset = now
            self.peers.give(stream.key, peer)
            return offset
        except HostError as error:
            if error.host == self._alias and error.reason != PEER:
                # The other host is not at fault.
                self.peers.give(stream.key, peer)
                if not isinstance(error, ContactLost):
                    raise
            self._vain += 1
            yield PushNotice(alias=self._alias, message=f"not from {alias}: {error.message}")
        finally:
            with contextlib.suppress(HostError):
                end_transfer(Shell(alias, transport), peer.staging, word)
            transport.close()
        size, _ = yield from self._insist(lambda: find_gathered(self._shell, staging, stream.size))
        return size
