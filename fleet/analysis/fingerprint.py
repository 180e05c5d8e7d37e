"""What of a host may explain a number, and what of it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.model.environment import RULES, SETTINGS, Environment, GpuKind, describe_environment
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import HostOutcome

FIELDS = (
    "gpus",
    "power limit",
    "mig",
    *(f"fleet_{name}" for name in SETTINGS),
    *RULES,
    "driver",
    "image digest",
    "tensorflow",
    "cuda",
    "cudnn",
    "nccl",
    "ecc",
    "max clock",
    "cpu",
    "processors",
    "memory",
    "memory limit",
    "governor",
    "microcode",
    "kernel",
    "runtime",
    "persistence",
    "vbios",
    "os",
    "product",
    "python",
    "virtualisation",
)
"""In the order in which one would suspect them; a variable of the environment comes after NCCL. Other hardware explains
itself; a power limit set at boot has cost 40 % and looked like software; settings, drivers and images are what people
change."""

_AFTER_NCCL = FIELDS.index("nccl")
_VARIABLE = "$"
UNSET = "unset"

Fingerprint = Mapping[str, str]
"""Field → value as words; what is not known is left out. `$TF_XLA_FLAGS` and the like are variables."""


@dataclass(frozen=True)
class Difference:
    field: str
    left: str
    right: str


@dataclass(frozen=True)
class Suspect:
    """A change that may be the reason for a regression."""

    difference: Difference
    affected: tuple[str, ...]
    """Hosts with the change and the regression."""
    spared: tuple[str, ...]
    """Hosts with the change and without it: they speak against it."""


def read_fingerprint(outcome: HostOutcome, plan: Plan, host: HostPlan) -> Fingerprint:
    """A host's fingerprint in one run. Volatile values (clocks now, load, free space, boot id) are no part of it."""
    environment = describe_environment(outcome, host.settings, plan.rules)
    return read_environment(environment) if environment else {}


def read_environment(environment: Environment) -> Fingerprint:
    """The fingerprint of an environment."""
    known = environment
    memory, limit, processors = known.memory_gib, known.memory_limit_bytes, _find_processors(known)
    found = {
        **_read_gpus(known.gpus),
        "driver": known.driver,
        "image digest": known.image,
        "tensorflow": _join(known.tensorflow, known.tensorflow_git),
        "cuda": known.cuda,
        "cudnn": known.cudnn,
        "nccl": known.nccl,
        "cpu": f"{known.cpu_sockets or '?'} × {known.cpu_model}" if known.cpu_model else None,
        "processors": f"{processors:.4g}" if processors else None,
        "memory": f"{memory} GiB" if memory else None,
        "memory limit": f"{limit / (1 << 30):.1f} GiB" if limit else None,
        "governor": known.cpu_governor,
        "microcode": known.cpu_microcode,
        "kernel": known.kernel,
        "runtime": _join(known.runtime, known.runtime_version),
        "os": known.os,
        "product": known.product,
        "python": known.python,
        "virtualisation": known.virtualisation,
    }
    variables = {f"{_VARIABLE}{name}": value for name, value in known.variables.items()}
    return {name: value for name, value in {**found, **variables, **known.settings}.items() if value}


def _find_processors(known: Environment) -> float | None:
    """What the payload could use; 0.5 where a quota allows half of one's time."""
    usable = known.cpus_usable or known.cpu_threads
    return usable if usable is None or known.cpu_quota is None else min(usable, known.cpu_quota)


def _read_gpus(gpus: Sequence[GpuKind]) -> dict[str, str | None]:
    """Values that are not the same on all GPUs are told side by side, in the order of the GPUs."""
    columns = {
        "gpus": [gpu.name or "" for gpu in gpus],
        "power limit": [f"{gpu.power_limit_w:g} W" if gpu.power_limit_w else "" for gpu in gpus],
        "mig": [gpu.mig or "" for gpu in gpus],
        "ecc": [gpu.ecc or "" for gpu in gpus],
        "max clock": [f"{gpu.clock_sm_max_mhz:g} MHz" if gpu.clock_sm_max_mhz else "" for gpu in gpus],
        "persistence": [gpu.persistence or "" for gpu in gpus],
        "vbios": [gpu.vbios or "" for gpu in gpus],
    }
    told = {name: " + ".join(dict.fromkeys(filter(None, values))) for name, values in columns.items()}
    if told["gpus"]:
        told["gpus"] = f"{len(gpus)} × {told['gpus']}"
    return {name: value or None for name, value in told.items()}


def _join(*words: str | None) -> str | None:
    return " ".join(filter(None, words)) or None


def diff_fingerprints(left: Fingerprint, right: Fingerprint) -> tuple[Difference, ...]:
    """What differs, first suspect first. A field that one side does not know is no difference; a variable that one side
    does not have is unset there, where that side knows its TensorFlow and so its environment."""
    found = []
    for field in sorted({*left, *right}, key=_rank):
        values = [_look_up(side, field) for side in (left, right)]
        if values[0] and values[1] and values[0] != values[1]:
            found.append(Difference(field, values[0], values[1]))
    return tuple(found)


def find_usual(fingerprints: Sequence[Fingerprint]) -> Fingerprint:
    """What more than half of the hosts that know a field have there; fields of which no value is so common are left
    out."""
    usual = {}
    for field in sorted({field for fingerprint in fingerprints for field in fingerprint}):
        values = Counter(value for fingerprint in fingerprints if (value := _look_up(fingerprint, field)))
        value, count = values.most_common(1)[0]
        if count > values.total() / 2:
            usual[field] = value
    return usual


def _look_up(fingerprint: Fingerprint, field: str) -> str | None:
    default = UNSET if field.startswith(_VARIABLE) and "tensorflow" in fingerprint else None
    return fingerprint.get(field, default)


def _rank(field: str) -> tuple[float, str]:
    place = FIELDS.index(field) if field in FIELDS else _AFTER_NCCL + 0.5
    return place, field


def find_suspects(changed: Mapping[str, Iterable[Difference]], affected: frozenset[str]) -> tuple[Suspect, ...]:
    """Changes that came with a regression, first suspect first.

    First comes what changed on most of the affected hosts and on fewest of the others; then the order of `FIELDS`.

    Args:
        changed: alias → what differs from the last good run, of every host that was compared.
        affected: the hosts with the regression.
    """
    hosts: dict[Difference, list[str]] = {}
    for alias, differences in changed.items():
        for difference in differences:
            hosts.setdefault(difference, []).append(alias)
    others = [alias for alias in changed if alias not in affected]
    suspects = []
    for difference, aliases in hosts.items():
        struck = tuple(alias for alias in aliases if alias in affected)
        spared = tuple(alias for alias in aliases if alias not in affected)
        if struck:
            weight = len(struck) / len(affected) - len(spared) / max(1, len(others))
            suspects.append((-weight, _rank(difference.field), Suspect(difference, struck, spared)))
    return tuple(suspect for *_, suspect in sorted(suspects, key=lambda entry: entry[:2]))
