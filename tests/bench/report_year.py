"""A year of nights in a synthetic lab, with faults planted: whoever looks for them can be told how many are found.

Noise from night to night: Student's t with 4 degrees, scaled to 0.8 % for a cell, of which 0.3 % is shared by all cells
of its host, and correlated by 0.3 with the night before. In 2 % of runs something disturbs a cell, 3 to 30 % slower,
in a re-run of the same night by a draw of its own. Each host is down in 1 % of nights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.robust import Floats

NOISE, HOST_NOISE, TAILS, CORRELATION = 0.008, 0.003, 4, 0.3
SPIKES, DOWN = 0.02, 0.01
SETTLED = 21
"""Nothing is planted, and nobody is counted, in the first nights: baselines are learned."""


class FaultKind(StrEnum):
    STEP = "step"
    """One cell on one host, from one night to the next."""
    DRIFT = "drift"
    """One cell on one host, over half a year; it stays."""
    HOST = "host"
    """All cells of a host, from one night to the next."""
    COHORT = "cohort"
    """One cell on all hosts of a cohort, from one night to the next."""
    SLOW = "slow host"
    """A host is slower than its likes from the first night on."""


@dataclass(frozen=True)
class Fault:
    kind: FaultKind
    rows: tuple[int, ...]
    """Its series."""
    first: int
    """Night."""
    end: int
    """The first night without it; the year's length: it stays."""
    size: float
    """Relative."""


@dataclass(frozen=True)
class Lab:
    """Hosts in cohorts, each with the same cells. Series are numbered host by host."""

    cohorts: tuple[int, ...] = (50, 8, 8, 8, 8, 8, 10)
    """How many hosts each has."""
    cells: int = 60
    nights: int = 365
    steps: int = 300
    drifts: int = 40

    @property
    def hosts(self) -> int:
        return sum(self.cohorts)

    @property
    def members(self) -> tuple[NDArray[np.intp], ...]:
        """The hosts of each cohort."""
        ends = np.cumsum(self.cohorts)
        return tuple(np.arange(end - size, end) for end, size in zip(ends, self.cohorts, strict=True))


@dataclass(frozen=True)
class Year:
    lab: Lab
    times_us: Floats
    """Shape (series, nights); NaN: not measured."""
    again_us: tuple[Floats, Floats]
    """What a second and a third run of the same night would measure."""
    faults: tuple[Fault, ...]


def make_year(lab: Lab, seed: int) -> Year:
    random = np.random.default_rng(seed)
    series = lab.hosts * lab.cells
    usual = np.tile(np.exp(random.uniform(math.log(5e3), math.log(5e5), lab.cells)), lab.hosts)
    usual *= np.repeat(np.exp(random.normal(0, 0.005, lab.hosts)), lab.cells)
    faults = (*_plant(lab, random),)
    level = np.log(usual)[:, None] + np.zeros(lab.nights)
    for fault in faults:
        level[list(fault.rows)] += _shape(fault, lab.nights)
    # What a re-run of the same night shares with the first: the host's condition, and what lasts from the night before.
    host, _ = _correlate(random, lab.hosts, lab.nights, HOST_NOISE)
    cell, lasting = _correlate(random, series, lab.nights, math.sqrt(NOISE**2 - HOST_NOISE**2))
    shared = level + np.repeat(host, lab.cells, axis=0)
    fresh = [cell, *(lasting + _draw(random, lasting.shape, NOISE * math.sqrt(1 - CORRELATION**2)) for _ in range(2))]
    first, second, third = (_disturb(np.exp(shared + noise), random) for noise in fresh)
    first[np.repeat(random.random((lab.hosts, lab.nights)) < DOWN, lab.cells, axis=0)] = np.nan
    return Year(lab, first, (second, third), faults)


def _plant(lab: Lab, random: np.random.Generator) -> Iterator[Fault]:
    """No series has two faults that change it, so that a finding has one reason."""
    half = lab.nights // 2
    big = lab.members[0]
    for host in big[:: max(2, len(big) // 8)]:
        first = int(random.integers(SETTLED, lab.nights - 30))
        yield Fault(FaultKind.HOST, tuple(range(host * lab.cells, (host + 1) * lab.cells)), first, lab.nights, 0.02)
    others = [host for host in range(lab.hosts) if host not in big[:: max(2, len(big) // 8)]]
    for cell in range(lab.cells // 6):
        rows = tuple(int(host) * lab.cells + cell for host in big)
        yield Fault(FaultKind.COHORT, rows, half, lab.nights, 0.01)
    for members in lab.members[1:]:
        if len(members) == 8:
            host = int(members[3])
            yield Fault(FaultKind.SLOW, tuple(range(host * lab.cells, (host + 1) * lab.cells)), 0, lab.nights, 0.08)
    free = [host * lab.cells + cell for host in others for cell in range(lab.cells // 6, lab.cells)]
    chosen = random.choice(free, lab.steps + lab.drifts, replace=False).tolist()
    for number, row in enumerate(chosen[: lab.steps]):
        first = int(random.integers(SETTLED, lab.nights - 30))
        end = lab.nights if number % 2 else min(lab.nights, first + int(random.integers(20, 40)))
        yield Fault(FaultKind.STEP, (row,), first, end, 0.05 if number % 4 < 2 else float(random.uniform(0.05, 0.2)))
    for row in chosen[lab.steps :]:
        yield Fault(
            FaultKind.DRIFT, (row,), int(random.integers(SETTLED, max(SETTLED + 1, half // 2))), lab.nights, 0.1
        )


def _shape(fault: Fault, nights: int) -> Floats:
    """What it adds to the logarithm, night by night."""
    night = np.arange(nights)
    if fault.kind is FaultKind.DRIFT:
        return np.log1p(fault.size * np.clip((night - fault.first) / (nights / 2), 0, 1))
    return np.where((night >= fault.first) & (night < fault.end), math.log1p(fault.size), 0)


def _draw(random: np.random.Generator, shape: tuple[int, ...], noise: float) -> Floats:
    drawn: Floats = noise / math.sqrt(TAILS / (TAILS - 2)) * random.standard_t(TAILS, shape)
    return drawn


def _correlate(random: np.random.Generator, series: int, nights: int, noise: float) -> tuple[Floats, Floats]:
    """Noise, and the part of it that lasts from the night before."""
    values = _draw(random, (series, nights), noise * math.sqrt(1 - CORRELATION**2))
    lasting = np.zeros_like(values)
    for night in range(1, nights):
        lasting[:, night] = CORRELATION * values[:, night - 1]
        values[:, night] += lasting[:, night]
    return values, lasting


def _disturb(times_us: Floats, random: np.random.Generator) -> Floats:
    struck = random.random(times_us.shape) < SPIKES
    return np.where(struck, times_us * (1 + random.uniform(0.03, 0.3, times_us.shape)), times_us)
