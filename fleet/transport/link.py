"""One authenticated SSH connection: Fabric and paramiko with every default that bites replaced.

Host keys are verified on each hop, each step has its time limit, nothing is read from `~/.fabric.*`; no agent
forwarding, nothing on stderr.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import fabric
import paramiko

from fleet.transport.authentication import Login
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, bad_host_key
from fleet.transport.handshake import Dropped, explain_handshake
from fleet.transport.keys import Offer
from fleet.transport.known_hosts import HostKeys, find_host_keys, fingerprint_of
from fleet.transport.logins import LOGINS
from fleet.transport.proxy_command import open_proxy
from fleet.transport.sockets import SshSocket, open_socket
from fleet.transport.ssh_config import Endpoint
from fleet.transport.watchdog import WATCHDOG

CONNECT_LIMIT_S = 30.0
"""For one hop, from the first packet to the accepted key, with all tries, unless ssh_config says ConnectTimeout."""

KEEPALIVE_S = 15

TCP_LIMIT_S = 15.0
"""For the TCP connection alone, over all addresses."""

_MOST_TRIES = 8
_JOIN_LIMIT_S = 2.0

# Paramiko logs tracebacks for what is translated here; without a handler they would go to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class CheckKey(Protocol):
    """Looks at the host key before anything is sent; raises to refuse it."""

    def __call__(self, place: Place, keys: HostKeys, key: paramiko.PKey) -> None: ...


class _Transport(paramiko.Transport):
    """Paramiko's transport with short key exchange and few wake-ups; reading is ended by closing the socket."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A thread for each handshake, and a look at it with each packet: the watchdog does it for all.
        self.packetizer.start_handshake = lambda timeout: None  # type: ignore[method-assign]

    def _parse_debug(self, m: paramiko.Message) -> None:
        """Leave it: sshd tells twice what a key may do, and paramiko looks at each letter of that."""

    _active_check_timeout = 2.0
    _preferred_ciphers = (
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "aes128-ctr",
        "aes192-ctr",
        "aes256-ctr",
    )

    @property
    def preferred_kex(self) -> Sequence[str]:
        # Post-quantum exchange costs three to four times the processor time; with hundreds of hosts that is the time.
        return sorted(super().preferred_kex, key=lambda k: not k.startswith("curve25519"))

    @property
    def preferred_keys(self) -> Sequence[str]:
        # Plain keys only: a certificate could not be verified.
        return tuple(k for k in super().preferred_keys if "-cert-" not in k)


class _Gate(paramiko.MissingHostKeyPolicy):
    """Paramiko knows no host key by itself, so that every key comes here."""

    def __init__(self, check: Callable[[paramiko.PKey], None]) -> None:
        self._check = check

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self._check(key)


def require_known_key(place: Place, keys: HostKeys, key: paramiko.PKey) -> None:
    """Raises HostKeyUnknown or HostKeyChanged, unless known_hosts holds this very key."""
    verdict = keys.judge(key.get_name(), key.get_base64())
    if verdict.known != "yes":
        shown = f"{key.get_name()} {fingerprint_of(key.get_base64())}"
        raise bad_host_key(place, keys, verdict, shown)


class Link:
    """A chain of connections, the last one to the host. Made by `open_link`."""

    def __init__(self) -> None:
        self._connections: list[fabric.Connection] = []
        self._sockets: list[SshSocket] = []
        self._logins: list[Login] = []

    @property
    def transport(self) -> paramiko.Transport:
        """The host's, for channels."""
        transport = self._connections[-1].transport
        assert isinstance(transport, paramiko.Transport)
        return transport

    @property
    def accepted(self) -> Offer | None:
        """The key that the host took."""
        return self._logins[-1].accepted if self._logins else None

    @property
    def by_password(self) -> bool:
        """The host took the password."""
        return bool(self._logins) and self._logins[-1].by_password

    @property
    def is_alive(self) -> bool:
        return bool(self._connections) and self.transport.is_active()

    def ends_within(self, seconds: float) -> bool:
        """Whether the host's connection is dead, or dies in this time."""
        self.transport.join(seconds)
        return not self.transport.is_alive()

    def abort(self) -> None:
        """End the connection from another thread, at once: whoever waits for it wakes up with an error."""
        for sock in self._sockets:
            sock.shut_down()

    def close(self) -> None:
        """Let go of everything: sockets, threads, agents. Never raises."""
        self.abort()
        for connection in reversed(self._connections):
            _close_client(connection.client, is_ended=True)
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.close()
        for login in self._logins:
            login.close()
        self._connections, self._sockets, self._logins = [], [], []

    def extend(
        self, place: Place, endpoint: Endpoint, check: CheckKey, deadline: Deadline, password: str | None = None
    ) -> None:
        """Connect one hop further, when there is room at its server, and again while a busy sshd drops us.

        Args:
            password: for this hop, if it takes no key.

        Raises:
            Unreachable, AuthFailed, or what `check` raises.
        """
        with LOGINS.enter(endpoint.server, place, deadline):
            deadline = deadline.within(endpoint.connect_timeout_s or CONNECT_LIMIT_S)
            self._knock(place, endpoint, check, Login(place, endpoint, deadline, password), deadline)

    def _knock(self, place: Place, endpoint: Endpoint, check: CheckKey, login: Login, deadline: Deadline) -> None:
        self._logins.append(login)
        for attempt in range(_MOST_TRIES):
            try:
                self._try_hop(place, endpoint, check, login, deadline)
                return
            except Dropped as dropped:
                pause = 0.2 * 2**attempt * random.uniform(0.5, 1.5)
                if attempt == _MOST_TRIES - 1 or pause >= deadline.left():
                    raise dropped.error from None
                time.sleep(pause)

    def _try_hop(self, place: Place, endpoint: Endpoint, check: CheckKey, login: Login, deadline: Deadline) -> None:
        gateway = self._connections[-1] if self._connections else None
        sock = None if gateway else _open_socket(place, endpoint, deadline)
        keys = find_host_keys(endpoint.known_hosts_files, endpoint.host, endpoint.port, endpoint.host_key_alias)

        def admit(key: paramiko.PKey) -> None:
            check(place, keys, key)
            if sock is not None:
                sock.trusted = True

        connection = _build_connection(endpoint, gateway, sock, _Terms(keys.offered_types(), login, deadline))
        connection.client.set_missing_host_key_policy(_Gate(admit))
        try:
            with WATCHDOG.watch(deadline.left(), self.abort if sock is None else sock.shut_down):
                connection.open()
        except (paramiko.SSHException, EOFError, OSError) as error:
            explained = explain_handshake(place, connection.client.get_transport(), sock, error, deadline)
            _discard(connection, sock)
            raise explained from None
        except BaseException:
            _discard(connection, sock)
            raise
        connection.transport.set_keepalive(int(endpoint.keepalive_s or KEEPALIVE_S))
        self._connections.append(connection)
        self._sockets += [sock] if sock else []


def open_link(alias: str, endpoint: Endpoint, deadline: Deadline, password: str | None = None) -> Link:
    """Connect to a host, through its jump hosts.

    Args:
        password: for the host itself. Jump hosts never get it: each would learn the password of all machines behind it.

    Raises:
        Unreachable, AuthFailed, HostKeyUnknown, HostKeyChanged: nothing is left open.
    """
    link = Link()
    try:
        for hop in (*endpoint.jumps, endpoint):
            place = Place(alias, hop.host, hop.port, is_jump=hop is not endpoint)
            link.extend(place, hop, require_known_key, deadline, None if place.is_jump else password)
    except BaseException:
        link.close()
        raise
    return link


def _open_socket(place: Place, endpoint: Endpoint, deadline: Deadline) -> SshSocket:
    if endpoint.proxy_command:
        return open_proxy(place, endpoint.proxy_command)
    limit = deadline.within(endpoint.connect_timeout_s or TCP_LIMIT_S)
    return open_socket(place, endpoint.family, endpoint.bind_address, limit)


@dataclass(frozen=True)
class _Terms:
    """What both ends of one handshake agree on."""

    key_types: Sequence[str]
    login: Login
    deadline: Deadline


def _build_connection(
    endpoint: Endpoint, gateway: fabric.Connection | None, sock: SshSocket | None, terms: _Terms
) -> fabric.Connection:
    left = max(0.1, terms.deadline.left())

    def make_transport(sock: SshSocket, **options: object) -> paramiko.Transport:
        transport = _Transport(sock, **options)
        rsa = ("rsa-sha2-512", "rsa-sha2-256")
        algorithms = [a for t in terms.key_types for a in (rsa if t == "ssh-rsa" else (t,))]
        transport.get_security_options().key_types = tuple(algorithms)
        return transport

    kwargs: dict[str, object] = {
        "timeout": left,
        "banner_timeout": left,
        "auth_timeout": left,
        "channel_timeout": left,
        "transport_factory": make_transport,
        "auth_strategy": terms.login,
    }
    if sock is not None:
        kwargs["sock"] = sock
    # A Config of its own for each connection (Fabric writes into it), lazy so that no file of Fabric's is read or run.
    config = fabric.Config(ssh_config=paramiko.SSHConfig(), lazy=True)
    return fabric.Connection(
        endpoint.host,
        user=endpoint.user,
        port=endpoint.port,
        config=config,
        gateway=gateway,
        forward_agent=False,
        connect_kwargs=kwargs,
    )


def _discard(connection: fabric.Connection, sock: SshSocket | None) -> None:
    if sock is not None:
        sock.shut_down()
    _close_client(connection.client, is_ended=sock is not None)
    if sock is not None:
        sock.close()


def _close_client(client: paramiko.SSHClient, *, is_ended: bool) -> None:
    """Fabric's close leaves paramiko's threads behind after a failure; this does not.

    Args:
        is_ended: its socket, or the first of the chain, was shut down, so that its thread ends by itself.
    """
    transport = client.get_transport()
    if transport is None:
        return
    if is_ended and transport.is_alive():
        # Before the socket is closed: when its number goes to a new connection at once, the thread waits for that one.
        transport.join(_JOIN_LIMIT_S)
    with contextlib.suppress(Exception):
        client.close()
    if transport.is_alive():
        transport.join(_JOIN_LIMIT_S)
