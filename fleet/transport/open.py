"""Chooses the transport of a host."""

from __future__ import annotations

from typing import Protocol

from fleet.model.inventory import Connection, Settings
from fleet.transport.base import Transport
from fleet.transport.become import BecomeTransport
from fleet.transport.passwords import NO_PASSWORDS, Passwords


class Target(Protocol):
    """A host of an inventory or of a plan: all that says how to get a shell on it."""

    @property
    def alias(self) -> str: ...

    @property
    def connection(self) -> Connection: ...

    @property
    def settings(self) -> Settings: ...


def open_transport(host: Target, passwords: Passwords = NO_PASSWORDS) -> Transport:
    """The transport for one host. Connects to nothing yet."""
    transport = _open(host, passwords)
    return BecomeTransport(host.alias, transport, passwords.sudo) if host.settings.become else transport


def _open(host: Target, passwords: Passwords) -> Transport:
    if host.connection.kind == "local":
        from fleet.transport.local import LocalTransport

        return LocalTransport(host.alias)
    # Fabric and paramiko take a fifth of a second to import: only those pay who connect.
    from fleet.transport.ssh import SshTransport

    return SshTransport(host.alias, host.connection, password=passwords.login)
