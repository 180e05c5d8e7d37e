"""Ansible's host patterns: which hosts of an inventory are meant."""

from __future__ import annotations

import difflib
import fnmatch
import ipaddress
import re
from pathlib import Path

from fleet.errors import ConfigError, SelectionError
from fleet.inventory.ranges import expand_ranges
from fleet.model.inventory import Host, Inventory

_NAMED = 8
"""So many hosts are named where none has the name that was given."""

_SUBSCRIPT = re.compile(r"(?P<base>.+)\[(?:(?P<index>-?[0-9]{1,9})|(?P<start>[0-9]{1,9}):(?P<end>[0-9]{0,9}))\]")


def select_hosts(inventory: Inventory, pattern: str | None) -> tuple[Host, ...]:
    """The hosts a pattern selects, in the order of the inventory file. None selects all.

    A pattern is `all`, `*`, a host, a group, a wildcard (`gpu0?`), `~regex`, or one of these with a subscript
    (`gpu[0]`, `gpu[-1]`, `gpu[0:2]`, both ends included); several of them with `:` or `,` between. `&x` keeps only
    hosts that are also in x, `!x` takes those of x away; they are applied last, whatever the order. `@file` stands for
    the patterns in a file, one a line. With IPv6 addresses use commas.

    Raises:
        SelectionError: a part matches nothing, or all together select nothing.
        ConfigError: a regular expression or an `@file` cannot be read.
    """
    if not inventory.hosts:
        raise SelectionError(f"{inventory.path} names no host", "add one under `hosts:`")
    if pattern is None:
        return inventory.hosts
    parts = [line for part in split_pattern(inventory, pattern) for line in _read_file(part)]
    if not parts:
        raise SelectionError("the pattern is empty", "leave it out to select every host")
    plain = [part for part in parts if part[0] not in "&!"]
    selected = {alias for part in plain or ["all"] for alias in _match(inventory, part)}
    for part in parts:
        if part[0] == "&":
            selected &= set(_match(inventory, part[1:]))
    for part in parts:
        if part[0] == "!":
            selected -= set(_match(inventory, part[1:]))
    if not selected:
        hint = "another part of it takes every host away" if len(parts) > len(plain) else "the group has no hosts"
        raise SelectionError(f"the pattern `{pattern}` selects no host", hint)
    return tuple(host for host in inventory.hosts if host.alias in selected)


def split_pattern(inventory: Inventory, pattern: str) -> list[str]:
    """The parts of a pattern. A `:` inside brackets or of an IPv6 address parts nothing, and none does beside a `,`."""
    if "," in pattern:
        parts = pattern.split(",")
    elif _is_one_name(inventory, pattern.strip().lstrip("&!")):
        parts = [pattern]
    else:
        parts = re.findall(r"(?:[^\s:\[\]]|\[[^\]]*\])+", pattern)
    return [part.strip() for part in parts if part.strip()]


def _is_one_name(inventory: Inventory, text: str) -> bool:
    if text in inventory.groups or any(host.alias == text for host in inventory.hosts):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _read_file(part: str) -> list[str]:
    if not part.startswith("@"):
        return [part]
    file = Path(part[1:])
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"the patterns cannot be read: {reason}", file=file, hint="@ stands before a file") from None
    return [line.strip() for line in lines if line.strip()]


def _match(inventory: Inventory, part: str) -> list[str]:
    """The aliases one part means, without its `&` or `!`."""
    aliases = [host.alias for host in inventory.hosts]
    if part in aliases:
        return [part]
    subscript = None if part.startswith("~") else _SUBSCRIPT.fullmatch(part)
    matched = _match_names(inventory, aliases, subscript["base"] if subscript else part)
    if matched is None:
        raise _unmatched(inventory, aliases, part, subscript["base"] if subscript else part)
    if subscript is None:
        return matched
    chosen = _choose(matched, subscript)
    if not chosen:
        raise SelectionError(
            f"`{part}` selects nothing: `{subscript['base']}` has {len(matched)} hosts, counted from 0"
        )
    return chosen


def _match_names(inventory: Inventory, aliases: list[str], expression: str) -> list[str] | None:
    """The hosts of the groups whose names match; and where that is none, or a wildcard, the hosts whose names do.

    None: nothing has such a name. A group without hosts is something.
    """
    matches = _compile(expression)
    groups = [name for name in inventory.groups if matches.match(name)]
    found = [alias for name in groups for alias in inventory.groups[name]]
    if not groups or expression[:1] == "~" or any(c in expression for c in ".?*["):
        found += [alias for alias in aliases if matches.match(alias)]
    return list(dict.fromkeys(found)) if groups or found else None


def _compile(expression: str) -> re.Pattern[str]:
    if not expression.startswith("~"):
        return re.compile(fnmatch.translate(expression))
    try:
        return re.compile(expression[1:])
    except (re.error, OverflowError, RecursionError) as error:
        message = f"`{expression}` is not a regular expression: {error}"
        raise ConfigError(
            message, hint="`:` outside brackets and `,` part patterns, in a regular expression too"
        ) from None


def _choose(matched: list[str], subscript: re.Match[str]) -> list[str]:
    if subscript["index"] is not None:
        index = int(subscript["index"])
        return [matched[index]] if -len(matched) <= index < len(matched) else []
    end = int(subscript["end"]) + 1 if subscript["end"] else None
    return matched[int(subscript["start"]) : end]


def _unmatched(inventory: Inventory, aliases: list[str], part: str, base: str) -> SelectionError:
    message = f"`{part}` matches no host or group"
    dashed = re.fullmatch(r"(.+)\[([0-9]+)-([0-9]+)\]", part)
    if dashed and (dashed[1] in inventory.groups or dashed[1] in aliases):
        return SelectionError(message, f"write {dashed[1]}[{dashed[2]}:{dashed[3]}]")
    if part != base:
        near = difflib.get_close_matches(base, inventory.groups, n=1)
        meant = _expand(part, aliases)
        if meant or not near:
            return SelectionError(message, _explain_subscript(part, base, meant or [f"{base}*"]))
    else:
        near = difflib.get_close_matches(base, [*inventory.groups, *aliases], n=1)
    there = f"the groups are {', '.join(sorted(inventory.groups))}; the hosts are {_name_some(aliases)}"
    hint = f"did you mean {near[0]}?" if near else there
    return SelectionError(f"{message} of {inventory.path}", hint)


def _name_some(aliases: list[str]) -> str:
    more = len(aliases) - _NAMED
    return ", ".join(aliases[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _expand(part: str, aliases: list[str]) -> list[str]:
    """The hosts that a part stands for when it is read as a range of the inventory file."""
    try:
        return [name for name in expand_ranges(part) if name in aliases]
    except ValueError:
        return []


def _explain_subscript(part: str, base: str, meant: list[str]) -> str:
    subscript = part[len(base) :]
    names = ",".join(meant) if len(meant) <= 8 else f"{base}*"
    return f"in a pattern {subscript} counts the hosts of a group, and {base} is none; by name it is {names}"
