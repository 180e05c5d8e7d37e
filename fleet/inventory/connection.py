"""Ansible's connection variables → how to reach a host."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from fleet.inventory.addresses import check_address
from fleet.inventory.values import Variable
from fleet.inventory.variables import Variables
from fleet.model.inventory import Connection

# Of several names for one thing the last that is set counts, as in Ansible.
_HOST = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
_SSH_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")

READ = frozenset({"ansible_connection", *_HOST, *_PORT, *_USER, *_KEY, *_SSH_ARGS})
"""Ansible's variables that say how to reach a host. Its others are left alone."""

_PASSWORDS = frozenset({"ansible_password", "ansible_ssh_pass", "ansible_ssh_password"})
_SUDO_PASSWORDS = frozenset({"ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"})
_BECOME = frozenset({"ansible_become", "ansible_sudo"})
_NO = frozenset({"false", "no", "off", "n", "0"})
_NEIGHBOURS = ("ansible_scp_extra_args", "ansible_sftp_extra_args", "ansible_ssh_pass")
"""Variables of Ansible that look like one of ours and are none."""

T = TypeVar("T")

_KINDS: dict[str, Literal["ssh", "local"]] = {
    "ssh": "ssh",
    "smart": "ssh",
    "paramiko": "ssh",
    "paramiko_ssh": "ssh",
    "local": "local",
}


def read_connection(variables: Variables, directory: Path) -> Connection:
    """How to reach a host.

    Args:
        variables: what holds for the host.
        directory: of the inventory file; a relative path of a key is relative to it.

    Raises:
        ConfigError: one of the variables is not right.
    """
    kind = _read(variables, ("ansible_connection",), _read_kind) or "ssh"
    address = _read(variables, _HOST, _read_address)
    port = _read(variables, _PORT, _read_port)
    user = _read(variables, _USER, _read_user)
    key = _read(variables, _KEY, lambda variable: _read_key(variable, directory))
    args = [arg for name in _SSH_ARGS if name in variables for arg in _split_args(variables[name])]
    return Connection(kind=kind, host=address, port=port, user=user, private_key_file=key, ssh_args=tuple(args))


def find_slips(variables: Iterable[Variable]) -> Iterator[str]:
    """A sentence for each variable that its writer counts on and fleet does not read: a password, a misspelt name."""
    # Of a range of hosts or several places that read one file there are as many variables as hosts, all from one line.
    first: dict[int, Variable] = {}
    for variable in variables:
        first.setdefault(id(variable.key_node), variable)
    aware = any(variable.key == "fleet_become" for variable in first.values())
    for key, variable in ((variable.key, variable) for variable in first.values()):
        if key in _PASSWORDS:
            yield str(variable.error("is not used: fleet asks for a password, with --ask-pass"))
        elif key in _SUDO_PASSWORDS:
            yield str(variable.error("is not used: fleet asks for a password, with --ask-become-pass"))
        elif key in _BECOME and not aware and str(variable.node.value).lower() not in _NO:
            yield str(variable.error("is not used: what makes fleet work as root on a host is fleet_become: true"))
        elif key.startswith("ansible_") and key not in READ:
            near = difflib.get_close_matches(key, [*READ, *_NEIGHBOURS], n=1, cutoff=0.9)
            if near and near[0] in READ:
                yield str(variable.error(f"is left alone; did you mean {near[0]}?"))


def _read(variables: Variables, names: tuple[str, ...], read: Callable[[Variable], T]) -> T | None:
    found = [variables[name] for name in names if name in variables]
    return read(found[-1]) if found else None


def _read_kind(variable: Variable) -> Literal["ssh", "local"]:
    text = variable.read_text()
    name = re.sub(r"^ansible\.(builtin|legacy)\.", "", text)
    if name not in _KINDS:
        near = difflib.get_close_matches(name, _KINDS, n=1)
        raise variable.error(f"must be ssh or local, not `{text}`", f"did you mean {near[0]}?" if near else "")
    return _KINDS[name]


def _read_address(variable: Variable) -> str:
    address = variable.read_text()
    try:
        check_address(address)
    except ValueError as error:
        raise variable.error(f"`{address}` {error}") from None
    return address


def _read_port(variable: Variable) -> int:
    text = variable.read_text()
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= 65535:
        raise variable.error(f"must be a number from 1 to 65535, not `{text}`")
    return int(text)


def _read_user(variable: Variable) -> str:
    user = variable.read_text()
    if not re.fullmatch(r"\w[\w.@\\+-]{0,127}", user):
        raise variable.error(f"`{user}` is not the name of a user", "letters, digits, _ . - @ + \\, no blanks")
    return user


def _read_key(variable: Variable, directory: Path) -> str:
    text = variable.read_text()
    if not text or "$" in text:
        message = f"`{text}` is not a path: shell variables are not expanded" if text else "is empty"
        raise variable.error(
            message, "write the path itself; `~` is your home, a relative path is relative to this file"
        )
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise variable.error(f"`{text}` begins with the home of a user who is not known here") from None
    found = str(directory.absolute() / path)
    if not found.isprintable():
        raise variable.error("stands in a directory whose name is not UTF-8 or holds a control character", "rename it")
    return found


def _split_args(variable: Variable) -> list[str]:
    try:
        return shlex.split(variable.read_text())
    except ValueError as error:
        raise variable.error(f"cannot be split into arguments: {error}", "close every quote") from None
