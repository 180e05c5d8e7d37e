"""Chooses the transport of a host."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.model.inventory import Connection
from fleet.transport.base import Transport


def open_transport(alias: str, connection: Connection, *, known_hosts: Sequence[str] | None = None) -> Transport:
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
