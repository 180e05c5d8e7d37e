"""Hosts as checks look at them: each with what its cards did, and with what others like it have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.model.facts import Gpu, HostFacts
from fleet.model.result import HostOutcome
from fleet.model.telemetry import GpuTelemetry

LEAST_HOSTS = 3
"""Of fewer with the same card none can be unlike the others."""


@dataclass(frozen=True)
class Examined:
    """A host, and what others like it have."""

    outcome: HostOutcome
    facts: HostFacts
    usual: Mapping[tuple[str | None, str], str]
    """Name of a card and a field → what most hosts with such cards have there."""
    seen: Mapping[str, list[tuple[float, GpuTelemetry]]]
    """UUID of a card → what it did in each cell that was timed on it, with the seconds that took."""

    def watch(self, card: Gpu) -> list[tuple[float, GpuTelemetry]]:
        return self.seen.get(card.uuid or "", [])


def examine(outcomes: Mapping[str, HostOutcome]) -> dict[str, Examined]:
    """By alias, all hosts of one run."""
    usual = _find_usual(outcomes.values())
    return {alias: Examined(o, o.facts or HostFacts(), usual, _collect(o)) for alias, o in outcomes.items()}


def _find_usual(outcomes: Iterable[HostOutcome]) -> dict[tuple[str | None, str], str]:
    """By the card's name alone: ECC takes memory from some cards, so that hosts which differ in it look like hosts with
    other hardware."""
    seen: dict[tuple[str | None, str], list[set[str]]] = {}
    for outcome in outcomes:
        here: dict[tuple[str | None, str], set[str]] = {}
        for card in outcome.facts.gpus if outcome.facts else ():
            for field in ("ecc", "mig", "persistence"):
                if value := getattr(card, field):
                    here.setdefault((card.name, field), set()).add(value)
        for key, values in here.items():
            seen.setdefault(key, []).append(values)
    usual = {}
    for key, hosts in seen.items():
        votes = Counter(next(iter(values)) for values in hosts if len(values) == 1)
        value, count = votes.most_common(1)[0] if votes else ("", 0)
        if len(hosts) >= LEAST_HOSTS and count > len(hosts) / 2:
            usual[key] = value
    return usual


def _collect(outcome: HostOutcome) -> dict[str, list[tuple[float, GpuTelemetry]]]:
    seen: dict[str, list[tuple[float, GpuTelemetry]]] = {}
    for telemetry in (cell.telemetry for cell in outcome.cells if cell.telemetry):
        for gpu in telemetry.gpus:
            seen.setdefault(gpu.uuid, []).append((telemetry.window_s, gpu))
    return seen
