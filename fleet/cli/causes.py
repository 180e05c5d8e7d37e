"""Why incidents may be: what changed on their hosts between the last good run and the one that confirmed them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from fleet.analysis.fingerprint import Difference, Suspect, diff_fingerprints, find_suspects, read_environment
from fleet.analysis.record import IncidentGroup
from fleet.model.environment import Environment
from fleet.store.index import Index
from fleet.store.readings import list_complete, read_environments

_REACH = 10
"""Runs up to the one that confirmed an incident in which a host's environment is looked for."""

Environments = Mapping[tuple[str, str], Environment]
"""By run id and alias; equal ones are one object."""


def find_causes(
    index: Index, groups: Collection[IncidentGroup], cohorts: Mapping[str, frozenset[str]]
) -> dict[str, Suspect | None]:
    """By the id of each group, the first suspect; None: nothing of its hosts changed.

    Everything is read once, be there hundreds of incidents.

    Raises:
        StoreError: the index cannot be read.
    """
    if not groups:
        return {}
    opened = {group.head.opened for group in groups}
    suites = {run.run_id: run.suite for run in index.list_runs() if run.run_id in opened}
    runs = {suite: list_complete(index.database, suite) for suite in {suites.get(run_id) for run_id in opened}}
    windows = {run_id: _look_back(runs[suites.get(run_id)], run_id) for run_id in opened}
    known = read_environments(index.database, sorted({run for window in windows.values() for run in window}))
    aliases = sorted({alias for _, alias in known})
    changed = {run_id: _find_changed(known, aliases, window) for run_id, window in windows.items()}
    causes = {}
    for group in groups:
        subject = group.head.subject
        affected = cohorts.get(subject.name) or frozenset({subject.name})
        causes[group.id] = next(iter(find_suspects(changed[group.head.opened], affected)), None)
    return causes


def _look_back(runs: Sequence[str], run_id: str) -> Sequence[str]:
    end = bisect_right(runs, run_id)
    return runs[max(0, end - _REACH) : end]


def _find_changed(
    known: Environments, aliases: Collection[str], window: Sequence[str]
) -> dict[str, tuple[Difference, ...]]:
    """By host of the last run of the window, what of it is not as it was."""
    changed: dict[str, tuple[Difference, ...]] = {}
    for alias in aliases if window else ():
        now = known.get((window[-1], alias))
        # The run before the one that confirmed it was the first that suspected it.
        before = next((known[run, alias] for run in reversed(window[:-2]) if (run, alias) in known), None)
        if now is None or before is None:
            continue
        same = now is before
        changed[alias] = () if same else diff_fingerprints(read_environment(before), read_environment(now))
    return changed
