"""What fleet is given to find a lab's hosts: an inventory and a known_hosts file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.lab.hosts import LabHost
from tests.lab.images import build_tensorflow_image


def write_known_hosts(path: Path, hosts: Sequence[LabHost]) -> Path:
    """Write the hosts' lines as ssh does, for both of a host's addresses; returns the path."""
    lines = []
    for host in hosts:
        for address in filter(None, (host.address, host.address6)):
            name = address if host.port == 22 else f"[{address}]:{host.port}"
            lines.append(f"{name} {host.host_key}\n")
    path.write_text("".join(lines))
    return path


def write_inventory(
    path: Path,
    hosts: Sequence[LabHost],
    *,
    known_hosts: Path | None = None,
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    **variables: object,
) -> Path:
    """Write an Ansible inventory of the hosts, measured on the CPU in the stand-in image; returns the path.

    Args:
        known_hosts: the file of host keys; by default one beside the inventory, with every host's right key.
        overrides: alias → variables of that host alone.
        variables: for all hosts, over the lab's own; None leaves a variable of the lab out.
    """
    if known_hosts is None:
        known_hosts = write_known_hosts(path.with_name("known_hosts"), hosts)
    common: dict[str, object] = {
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={known_hosts} -o GlobalKnownHostsFile=/dev/null",
        "fleet_devices": "cpu",
        # An engine without CAP_SYS_RESOURCE may not raise a limit; the lab's is often one.
        "fleet_ulimits": {},
        "fleet_ipc": "private",
    }
    if "fleet_image" not in variables:
        common["fleet_image"] = build_tensorflow_image()
    common |= variables
    own = {host.alias: _describe_host(host) | dict((overrides or {}).get(host.alias, {})) for host in hosts}
    text = yaml.safe_dump(
        {"all": {"vars": {k: v for k, v in common.items() if v is not None}, "hosts": own}}, sort_keys=False
    )
    path.write_text(text)
    return path


def _describe_host(host: LabHost) -> dict[str, object]:
    return {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": str(host.private_key),
        "fleet_workdir": str(host.workdir),
    }
