"""An Ansible YAML inventory, with the variables beside it → `Inventory`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fleet.errors import ConfigError
from fleet.inventory.addresses import check_address
from fleet.inventory.connection import find_slips, read_connection
from fleet.inventory.documents import read_document
from fleet.inventory.hosts import NamedHost, Tree, read_tree
from fleet.inventory.settings import check_settings, read_settings
from fleet.inventory.values import Variable
from fleet.inventory.variables import VariableFiles, Variables, merge_variables
from fleet.model.inventory import Host, Inventory


def load_inventory(path: Path) -> Inventory:
    """Read an inventory file and group_vars/ and host_vars/ beside it; nothing else, and nothing is run.

    Variables are merged by Ansible's precedence (see `fleet.inventory.variables`). Those that are neither `fleet_*` nor
    one of Ansible's connection variables are left alone, whatever they hold.

    Raises:
        ConfigError: a file cannot be read, or something in it is not right. Says the file, the line, the host or group
            and the variable.
    """
    try:
        return _build_inventory(path)
    except RecursionError:  # by aliases or groups, for what a file can nest in itself has been counted before
        raise ConfigError("is nested too deeply to be an inventory", file=path) from None


def _build_inventory(path: Path) -> Inventory:
    document = read_document(path)
    if document.encrypted:
        raise ConfigError("is encrypted with Ansible Vault", file=path, hint=f"ansible-vault view {path} shows it")
    tree = read_tree(document)
    files = VariableFiles(path.parent)
    written = list(_list_variables(tree, files))
    check_settings(written)
    merged = merge_variables(tree, files)
    in_groups = tree.groups_of_hosts()
    hosts = tuple(_build_host(host, merged[host.alias], in_groups[host.alias], path) for host in tree.hosts.values())
    warnings = dict.fromkeys([*files.warnings, *_find_double_names(tree, path), *find_slips(written)])
    return Inventory(
        path=str(path),
        hosts=hosts,
        groups={name: tree.members(name) for name in tree.groups},
        warnings=tuple(warnings),
    )


def _list_variables(tree: Tree, files: VariableFiles) -> Iterator[Variable]:
    """Every variable wherever it is written, whether or not it comes into force."""
    for group in tree.groups.values():
        yield from (*group.variables.values(), *files.group(group.name).values())
    for host in tree.hosts.values():
        yield from (*host.variables.values(), *files.host(host.alias).values())


def _build_host(named: NamedHost, variables: Variables, groups: set[str], path: Path) -> Host:
    connection = read_connection(variables, path.parent)
    if connection.kind == "ssh" and connection.host is None:
        try:
            check_address(named.alias)
        except ValueError as error:
            message = f"host {named.alias}: its name is what it would be reached by, and {error}"
            raise ConfigError(message, file=path, line=named.line, hint="set ansible_host") from None
    return Host(
        alias=named.alias,
        groups=tuple(sorted(groups - {"all"})),
        connection=connection,
        settings=read_settings(variables),
        source=f"{path}:{named.line}",
    )


def _find_double_names(tree: Tree, path: Path) -> list[str]:
    both = [name for name in tree.hosts if name in tree.groups]
    return [f"{path}:{tree.hosts[n].line}: {n} is a host and a group; a pattern means the host" for n in both]
