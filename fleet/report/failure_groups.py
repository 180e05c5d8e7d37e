"""Failures that are alike, told once."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.report.view_model import FailureLine

_HERE = "\0"
"""Stands in a hint where the host's own limit stood; no text of a view holds it."""


@dataclass(frozen=True)
class FailureGroup:
    """Hosts that failed in the same way, in the order of the plan."""

    aliases: tuple[str, ...]
    status: str
    stage: str
    reason: str
    cells: tuple[str, ...]
    """Canonical ids, the same on each of the hosts; empty: the hosts themselves failed."""
    messages: tuple[tuple[tuple[str, ...], str], ...]
    """What happened, each sentence with the hosts it is about."""
    hint: str
    """One for all of them."""


def group_failures(
    failures: Iterable[FailureLine], planned: Sequence[str], limit: str | None
) -> tuple[FailureGroup, ...]:
    """Failures with the same end, cells and remedy, in the order of each group's first.

    Args:
        planned: every alias of the run.
        limit: the run's own, which a hint for all of its hosts names again.
    """
    found: dict[tuple[object, ...], list[FailureLine]] = {}
    for line in failures:
        key = (line.status, line.stage, line.reason, line.cells, open_limit(line.hint, line.alias))
        found.setdefault(key, []).append(line)
    return tuple(_build_group(lines, planned, limit) for lines in found.values())


def open_limit(hint: str, alias: str) -> str:
    """The hint with a blank for `--limit ALIAS`: the same for all hosts that need the same."""
    return hint.replace(f" --limit {shlex.quote(alias)}", _HERE)


def _build_group(lines: Sequence[FailureLine], planned: Sequence[str], limit: str | None) -> FailureGroup:
    first, aliases = lines[0], tuple(line.alias for line in lines)
    said: dict[str, list[str]] = {}
    for line in lines:
        said.setdefault(line.message, []).append(line.alias)
    pattern = limit if set(planned) <= set(aliases) else ":".join(aliases)
    chosen = f" --limit {shlex.quote(pattern)}" if pattern else ""
    return FailureGroup(
        aliases=aliases,
        status=first.status,
        stage=first.stage,
        reason=first.reason,
        cells=first.cells,
        messages=tuple((tuple(names), message) for message, names in said.items()),
        hint=open_limit(first.hint, first.alias).replace(_HERE, chosen) if len(lines) > 1 else first.hint,
    )
