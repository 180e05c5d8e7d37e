"""Every error of the transport, made in one place: class, reason, sentence, next step."""

from __future__ import annotations

import errno
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.errors import AuthFailed, ContactLost, HostKeyChanged, HostKeyUnknown, Unreachable
from fleet.model.result import Stage
from fleet.model.text import make_inert

if TYPE_CHECKING:
    from fleet.transport.known_hosts import HostKeys, Verdict


@dataclass(frozen=True)
class Place:
    """Whom an error is about: the host itself, or a jump host on the way to it."""

    alias: str
    host: str
    port: int
    is_jump: bool = False

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"jump host {self.address}" if self.is_jump else self.address


_NEXT_STEP = {
    "dns": "Correct ansible_host or HostName, or the resolver; `getent hosts {host}` must answer.",
    "refused": "Is sshd running there, and is {port} its port (ansible_port)?",
    "timeout": "Is the machine on, and does a firewall let port {port} through?",
    "no_route": "Is the network or VPN up that leads there?",
    "banner": "Is {port} the port of sshd (ansible_port)? A busy sshd drops connections: raise its MaxStartups.",
    "key_exchange": "Try `ssh -v -p {port} {host}`; an sshd too old for today's algorithms has to be updated.",
    "jump": "Try `ssh` to the jump host by hand.",
    "shell": "Give the user a login shell such as /bin/sh; a ForceCommand has to go.",
    "proxy_command": "Run the ProxyCommand of ssh_config by hand.",
}


def unreachable(place: Place, reason: str, what: str) -> Unreachable:
    """No connection. `what` completes the sentence that begins with the address."""
    step = _NEXT_STEP.get(reason, "").format(host=place.host, port=place.port)
    if place.is_jump:
        reason = "jump"
    return Unreachable(place.alias, Stage.CONNECT, reason, make_inert(f"{place} {what}."), step)


def unreachable_by(place: Place, error: OSError) -> Unreachable:
    """The same, from what the operating system said."""
    if isinstance(error, ConnectionRefusedError):
        return unreachable(place, "refused", "refused the connection")
    if isinstance(error, TimeoutError):
        return unreachable(place, "timeout", "did not answer in time")
    if error.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL}:
        return unreachable(place, "no_route", f"cannot be reached: {error.strerror}")
    if isinstance(error, ConnectionError):
        return unreachable(place, "banner", "closed the connection before SSH began")
    return unreachable(place, "no_route", f"cannot be reached: {error.strerror or error}")


def unusable_config(alias: str, reason: str, what: str, step: str) -> Unreachable:
    """ssh_config or the inventory says something that cannot be done."""
    return Unreachable(alias, Stage.CONNECT, reason, make_inert(what), step)


def auth_failed(place: Place, reason: str, what: str, step: str) -> AuthFailed:
    return AuthFailed(place.alias, Stage.CONNECT, reason, make_inert(what), step)


def contact_lost(place: Place, reason: str, what: str) -> ContactLost:
    """The connection was there. `reason`: connection_lost, timeout or no_exit_status."""
    step = {
        "connection_lost": "What was running there may still run; fleet connects again.",
        "timeout": "The machine may be overloaded or hung; try `ssh` by hand.",
        "no_exit_status": "It was killed by a signal; look for the out-of-memory killer in the host's kernel log.",
    }[reason]
    return ContactLost(place.alias, Stage.RUN, reason, make_inert(what), step)


def bad_host_key(place: Place, keys: HostKeys, verdict: Verdict, shown: str) -> HostKeyUnknown | HostKeyChanged:
    """The host's key is not the one we know. `shown`: `type SHA256:…` of the key it showed."""
    name = keys.name
    lines = ", ".join(f"{k.place} ({k.key_type} {k.fingerprint})" for k in verdict.because[:4])
    trust = f"`fleet hosts trust -i INVENTORY --limit {shlex.quote(place.alias)}`"
    if verdict.known == "no":
        what = f"{place} showed a host key that no known_hosts file holds: {shown}, as {name}."
        if keys.unreadable:
            what += f" Lines that cannot be read: {', '.join(keys.unreadable[:5])}."
        step = f"Compare the fingerprint with the machine's own, then {trust}."
        return HostKeyUnknown(place.alias, Stage.CONNECT, "unknown", make_inert(what), step)
    if verdict.known == "authority_only":
        what = f"{place} showed the host key {shown}; for {name} there is only a certificate authority: {lines}."
        step = f"Host certificates are not supported. Compare the fingerprint, then {trust} remembers the plain key."
        return HostKeyUnknown(place.alias, Stage.CONNECT, "authority_only", make_inert(what), step)
    if verdict.known == "revoked":
        what = f"{place} showed a host key that is revoked: {shown}, by {lines}."
        return HostKeyChanged(
            place.alias, Stage.CONNECT, "revoked", make_inert(what), "Do not connect; ask who revoked the key, and why."
        )
    file = shlex.quote(verdict.because[0].file)
    what = f"{place} showed the host key {shown}, but {name} is known by another: {lines}."
    step = (
        "Reinstalled, or somebody in between? Only when the change is explained: "
        f"`ssh-keygen -R {shlex.quote(name)} -f {file}`, then {trust}."
    )
    return HostKeyChanged(place.alias, Stage.CONNECT, "changed", make_inert(what), step)
