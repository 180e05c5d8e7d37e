"""Says why an SSH connection did not come about."""

from __future__ import annotations

import paramiko

from fleet.errors import HostError
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, unreachable
from fleet.transport.proxy_command import ProxySocket
from fleet.transport.sockets import SshSocket

_BUSY_SIGNS = (b"Exceeded MaxStartups", b"Not allowed at this time")


class Dropped(Exception):
    """sshd hung up, and another try is worth it: it has too many connections under way, or wanted no more keys."""

    def __init__(self, error: HostError) -> None:
        super().__init__()
        self.error = error


def explain_handshake(
    place: Place, transport: paramiko.Transport | None, sock: SshSocket | None, error: Exception, deadline: Deadline
) -> Exception:
    """What to raise for a connection that failed: Unreachable, or Dropped when it is worth another try.

    Classified by how far the connection came, not by the library's words.
    """
    if transport is None:
        why = error.text.lower() if isinstance(error, paramiko.ChannelException) else "it does not answer"
        return unreachable(place, "jump", f"cannot be reached from the jump host: {why}")
    if transport.initial_kex_done:
        return unreachable(place, "key_exchange", f"broke off before a key was offered: {error or 'no reason given'}")
    if transport.remote_version:
        why = "did not finish in time" if deadline.passed else f"failed: {error or 'the host closed the connection'}"
        return unreachable(place, "key_exchange", f"speaks SSH, but the key exchange {why}")
    if deadline.passed:
        return unreachable(place, "banner", "accepted the connection, but SSH did not begin in time")
    if isinstance(sock, ProxySocket) and (status := sock.await_failure()):
        return unreachable(place, "proxy_command", f"has a ProxyCommand that ended with status {status}")
    said = sock.first_bytes if sock is not None else b""
    if said and not said.startswith(_BUSY_SIGNS):
        text = said.split(b"\n")[0][:80].decode("utf-8", "replace").strip()
        return unreachable(place, "banner", f"is not an SSH server; it says {text!r}")
    return Dropped(unreachable(place, "banner", "closed the connection before SSH began"))
