"""Identical hosts in one run: who of them is slow, in which cells."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from fleet.analysis.outlier import LEAST_HOSTS, Outliers, find_outliers, find_slow_hosts

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class SlowCell(Generic[Key]):
    key: Key
    change: float
    """Of the time, against the median of the cohort: 0.08 takes 8 % longer."""
    z: float
    """In spreads of the cohort."""


@dataclass(frozen=True)
class OddHost(Generic[Key]):
    """A host that is slow as a whole, or in some cells."""

    alias: str
    change: float | None
    """Median over its cells, as `SlowCell.change`; None: it is slow in some cells only."""
    z: float | None
    cells: tuple[SlowCell[Key], ...]
    """Slowest first."""
    count: int
    """Cells in which it could be held against the others."""


@dataclass(frozen=True)
class JudgedCohort(Generic[Key]):
    measured: int
    """Hosts with a value."""
    cells: int
    """Measured on enough hosts to be judged."""
    odd: tuple[OddHost[Key], ...]
    """Slow as a whole first, the slowest of them first."""


def find_odd(times: Mapping[str, Mapping[Key, float]]) -> JudgedCohort[Key]:
    """The odd ones of a cohort.

    Args:
        times: alias → key of a cell → median step.
    """
    keys = list(dict.fromkeys(key for of_host in times.values() for key in of_host))
    table = np.array([[of_host.get(key, np.nan) for key in keys] for of_host in times.values()], dtype=np.float64)
    table = table.reshape(len(times), len(keys))
    counts = np.count_nonzero(~np.isnan(table), axis=0)
    measured = sum(bool(of_host) for of_host in times.values())
    cells = int(np.count_nonzero(counts >= LEAST_HOSTS))
    if cells == 0:
        return JudgedCohort(measured, 0, ())
    of_cells, of_hosts = find_outliers(table), find_slow_hosts(table)
    odd = [_read_host(row, alias, keys, of_cells, of_hosts) for row, alias in enumerate(times)]
    found = [host for host in odd if host.cells or host.change is not None]
    return JudgedCohort(measured, cells, tuple(sorted(found, key=lambda host: -(host.change or 0))))


def _read_host(row: int, alias: str, keys: list[Key], of_cells: Outliers, of_hosts: Outliers) -> OddHost[Key]:
    slow = np.flatnonzero(of_cells.slow[row]).tolist()
    cells = [SlowCell(keys[place], float(of_cells.change[row, place]), float(of_cells.z[row, place])) for place in slow]
    whole = bool(of_hosts.slow[row, 0])
    return OddHost(
        alias=alias,
        change=float(of_hosts.change[row, 0]) if whole else None,
        z=float(of_hosts.z[row, 0]) if whole else None,
        cells=tuple(sorted(cells, key=lambda cell: -cell.change)),
        count=int(np.count_nonzero(~np.isnan(of_cells.change[row]))),
    )
