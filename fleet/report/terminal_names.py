"""Host names short enough for a table: what all of them end in is said once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from fleet.report.view_model import GroupEntry, Matrix, Row, View


def find_domain(names: Sequence[str]) -> str:
    """The domain that all of several names end in, `.lab.example.org`; empty when there is none.

    Whole labels only, at least one of each name is left, and the end of an address is no domain.
    """
    if len(names) < 2:
        return ""
    tails = [name.split(".")[1:] for name in names]
    common: list[str] = []
    for labels in zip(*(reversed(tail) for tail in tails), strict=False):
        if len(set(labels)) > 1:
            break
        common.insert(0, labels[0])
    return f".{'.'.join(common)}" if common and re.match(r"[A-Za-z]", common[-1]) else ""


def shorten_hosts(view: View) -> tuple[View, str]:
    """The view with the common domain cut off in its tables, and that domain; failures and notes keep whole names."""
    domain = find_domain([host.alias for host in view.hosts])
    if not domain:
        return view, ""

    def cut(alias: str) -> str:
        return alias.removesuffix(domain)

    hosts = tuple(replace(host, alias=cut(host.alias)) for host in view.hosts)
    return replace(view, hosts=hosts, matrices=tuple(_shorten(matrix, cut) for matrix in view.matrices)), domain


def _shorten(matrix: Matrix, cut: Callable[[str], str]) -> Matrix:
    return replace(
        matrix,
        hosts=tuple(cut(alias) for alias in matrix.hosts),
        groups=tuple(replace(group, aliases=tuple(map(cut, group.aliases))) for group in matrix.groups),
        rows=tuple(_shorten_row(row, cut) for row in matrix.rows),
    )


def _shorten_row(row: Row, cut: Callable[[str], str]) -> Row:
    entries = tuple(replace(entry, alias=cut(entry.alias)) for entry in row.entries)
    groups: tuple[GroupEntry, ...] = tuple(replace(group, slowest=cut(group.slowest)) for group in row.groups)
    return replace(row, entries=entries, groups=groups)
