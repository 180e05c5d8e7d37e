"""What may be an alias, and what a host can be reached by."""

from __future__ import annotations

import ipaddress
import re

_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@%-]{0,252}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def check_alias(alias: str) -> None:
    """An alias names files and results.

    Raises:
        ValueError: with a sentence that begins after the alias.
    """
    if alias.startswith("-"):
        raise ValueError("begins with `-`")
    if ".." in alias:
        raise ValueError("has `..` in it")
    if not _ALIAS.fullmatch(alias):
        raise ValueError(
            "is not a name: up to 253 of A-Z a-z 0-9 . _ : @ % -, the first one a letter, digit or _;"
            " give the host such a name and set ansible_host"
        )


def check_address(address: str) -> None:
    """A host name, an IPv4 address or an IPv6 address (a zone allowed).

    Raises:
        ValueError: with a sentence that begins after the address.
    """
    if not address:
        raise ValueError("is empty")
    if address.startswith("-"):
        raise ValueError("begins with `-`")
    if _is_ip_address(address):
        return
    if re.fullmatch(r"\[.*\](:\d+)?|[^:]+:\d+", address):
        raise ValueError("must be the bare address; set the port with ansible_port")
    if "@" in address:
        raise ValueError("must not name a user; set ansible_user")
    if ":" in address:
        raise ValueError("is not an IPv6 address")
    if re.fullmatch(r"[0-9.]+", address):
        raise ValueError("is not an IPv4 address")
    if not address.isascii():
        raise ValueError("is not ASCII; write an international name in its xn-- form")
    _check_hostname(address)


def _is_ip_address(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    zone = getattr(parsed, "scope_id", None)
    if zone is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,32}", zone):
        raise ValueError("has a zone that is no name of an interface")
    return True


def _check_hostname(name: str) -> None:
    if len(name) > 253:
        raise ValueError("is longer than 253 characters, the most a host name may have")
    for label in name.removesuffix(".").split("."):
        if len(label) > 63:
            raise ValueError(f"is not a host name: `{label[:20]}…` is longer than 63 characters")
        if not _LABEL.fullmatch(label):
            raise ValueError(f"is not a host name: `{label}` is not letters, digits, - and _")
