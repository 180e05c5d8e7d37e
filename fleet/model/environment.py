"""What a host measured with, as far as it must be the same for two results to be comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic import Field

from fleet.model.base import Noun
from fleet.model.facts import Gpu, HostFacts, Software, nominal_memory_gib
from fleet.model.inventory import Settings
from fleet.model.result import HostOutcome
from fleet.model.suite import Rules
from fleet.model.text import make_inert

_MOST = 256
"""GPUs, variables."""

_LONGEST = 500

SETTINGS = ("runtime_args", "devices", "ipc", "ulimits", "python")
"""Of the inventory, what may move a number and is not seen in what ran."""

RULES = tuple(name for name in Rules.model_fields if name != "cell_timeout_s")


class GpuKind(Noun):
    """A GPU without what tells it from others of its kind."""

    name: str | None = None
    vbios: str | None = None
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    clock_sm_max_mhz: float | None = None
    clock_mem_max_mhz: float | None = None
    ecc: str | None = None
    mig: str | None = None
    persistence: str | None = None


class Environment(Noun):
    """The fingerprint's fields. None: not known.

    Nothing volatile (free space, the frequency of the moment), or every night would be another environment; and nothing
    that only names one machine (serial numbers), or no two hosts would ever share one. A field more or less changes
    every fingerprint: the migration that comes with it must empty the index.
    """

    product: str | None = None
    kernel: str | None = None
    os: str | None = None
    architecture: str | None = None
    virtualisation: str | None = None
    cpu_model: str | None = None
    cpu_sockets: int | None = None
    cpu_cores: int | None = None
    cpu_threads: int | None = None
    cpu_governor: str | None = None
    cpu_microcode: str | None = None
    memory_gib: int | None = None
    """As built in."""
    numa_nodes: int | None = None
    gpus: tuple[GpuKind, ...] = ()
    """In the order of their indexes."""
    driver: str | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    image: str | None = None
    """The digest of what ran, or the name where none is known."""
    tensorflow: str | None = None
    tensorflow_git: str | None = None
    python: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    cpus_usable: int | None = None
    cpu_quota: float | None = None
    memory_limit_bytes: int | None = None
    variables: Mapping[str, str] = Field(default_factory=dict)
    """Of the process, those that change what TensorFlow does; sorted."""
    settings: Mapping[str, str] = Field(default_factory=dict)
    """What the plan asked for: `fleet_runtime_args` and the like, and the suite's rules, as words."""

    @property
    def fingerprint(self) -> str:
        """sha256 of the fields: equal exactly when all of them are."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def describe_environment(outcome: HostOutcome, settings: Settings, rules: Rules) -> Environment | None:
    """The environment of a host in a run; None when neither its probe nor its payload said anything.

    Args:
        settings: what the plan has for the host.
    """
    if outcome.facts is None and outcome.software is None:
        return None
    facts, software = outcome.facts or HostFacts(), outcome.software or Software()
    environment = Environment(
        product=facts.product,
        kernel=facts.kernel,
        os=facts.os,
        architecture=facts.architecture,
        virtualisation=facts.virtualisation,
        cpu_model=facts.cpu.model,
        cpu_sockets=facts.cpu.sockets,
        cpu_cores=facts.cpu.cores,
        cpu_threads=facts.cpu.threads,
        cpu_governor=facts.cpu.governor,
        cpu_microcode=facts.cpu.microcode,
        memory_gib=None if facts.memory_bytes is None else nominal_memory_gib(facts.memory_bytes),
        numa_nodes=facts.numa_nodes,
        gpus=tuple(_describe_gpu(gpu) for gpu in facts.gpus[:_MOST]),
        driver=facts.driver,
        runtime=software.runtime,
        runtime_version=facts.runtime_version,
        image=software.image_digest or software.image,
        tensorflow=software.tensorflow,
        tensorflow_git=software.tensorflow_git,
        python=software.python,
        cuda=software.cuda,
        cudnn=software.cudnn,
        nccl=software.nccl,
        cpus_usable=outcome.cpus_usable,
        cpu_quota=outcome.cpu_quota,
        memory_limit_bytes=outcome.memory_limit_bytes,
        variables=dict(sorted(software.environment.items())[:_MOST]),
        settings={
            **{f"fleet_{name}": _say(getattr(settings, name)) for name in SETTINGS},
            **{name: _say(getattr(rules, name)) for name in RULES},
        },
    )
    return Environment.model_validate(_cut(environment.model_dump()))


def _say(value: object) -> str:
    """A setting as somebody would write it; `none` for what is empty."""
    if isinstance(value, Mapping):
        value = tuple(f"{name}={part}" for name, part in sorted(value.items()))
    if isinstance(value, tuple):
        value = " ".join(value)
    return "none" if value is None or value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def _cut(value: object) -> object:
    """What a host says is as long as it likes."""
    if isinstance(value, str):
        return make_inert(value, _LONGEST)
    if isinstance(value, Mapping):
        return {make_inert(str(name), _LONGEST): _cut(part) for name, part in value.items()}
    return tuple(_cut(part) for part in value) if isinstance(value, tuple) else value


def _describe_gpu(gpu: Gpu) -> GpuKind:
    return GpuKind(**{name: getattr(gpu, name) for name in GpuKind.model_fields})
