"""Hosts with identical hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.model.facts import HostFacts, nominal_memory_gib


@dataclass(frozen=True)
class Cohort:
    """Hosts that should be equally fast, in the order they were given."""

    aliases: tuple[str, ...]
    facts: HostFacts | None
    """Of one of them; None: of these hosts nothing is known."""


def group_by_hardware(facts: Mapping[str, HostFacts | None]) -> tuple[Cohort, ...]:
    """Hosts whose GPUs, CPU and memory are the same, largest cohort first; hosts without facts come last."""
    members: dict[tuple[object, ...], list[str]] = {}
    for alias, known in facts.items():
        members.setdefault(_identify(known) if known else (), []).append(alias)
    cohorts = [Cohort(tuple(aliases), facts[aliases[0]]) for aliases in members.values()]
    return tuple(sorted(cohorts, key=lambda cohort: (cohort.facts is None, -len(cohort.aliases))))


def _identify(facts: HostFacts) -> tuple[object, ...]:
    gpus = tuple(sorted((gpu.name or "", gpu.memory_bytes or 0) for gpu in facts.gpus))
    memory = nominal_memory_gib(facts.memory_bytes) if facts.memory_bytes else None
    return (gpus, facts.cpu.model, facts.cpu.sockets, facts.cpu.cores, facts.cpu.threads, memory)
