"""Chooses the transport of a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fleet.model.inventory import Connection
from fleet.transport.base import Route, Transport


class DescribedTransport(Transport, Protocol):
    """A transport that can say how it reaches its host."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about settings that matter and are not honoured."""
        ...

    @property
    def route(self) -> Route:
        """The way to the host; the key only once it is connected."""
        ...


def open_transport(
    alias: str, connection: Connection, *, known_hosts: Sequence[str] | None = None
) -> DescribedTransport:
    """The transport for one host. Connects to nothing yet.

    Args:
        alias: the host's name in the inventory.
        connection: how to reach it.
        known_hosts: files that replace those of ssh_config.
    """
    if connection.kind == "local":
        from fleet.transport.local import LocalTransport

        return LocalTransport(alias)
    # Fabric and paramiko take a fifth of a second to import: only those pay who connect.
    from fleet.transport.ssh import SshTransport

    return SshTransport(alias, connection, known_hosts=known_hosts)
