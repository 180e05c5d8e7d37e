"""What the inventory says: hosts, how to reach them, what to run in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from fleet.model.base import Noun

DEFAULT_IMAGE = "nvcr.io/nvidia/tensorflow:25.02-tf2-py3"
"""The last TensorFlow image NVIDIA published (February 2025): TensorFlow 2.17 for compute capability 7.5 to 12.0."""

DEFAULT_WORKDIR = "~/.fleet"

Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._:@%-]{0,252}$")]
"""A host's name in the inventory. The only name results are keyed by."""


class Connection(Noun):
    """How to reach a host. Ansible's names, less `ansible_`; None means: what ssh_config or the default says."""

    kind: Literal["ssh", "local"] = "ssh"
    host: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = None
    private_key_file: str | None = None
    ssh_args: tuple[str, ...] = ()
    """`ansible_ssh_common_args` and `ansible_ssh_extra_args`, split: options for `ssh -G`."""


def _read_devices(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be cpu, all, a number of GPUs, or a list of GPU indexes or UUIDs")
    if isinstance(value, list):
        return tuple(str(v) for v in value)
    return value


class Settings(Noun):
    """The `fleet_*` variables of a host, less `fleet_`. Every field can be set for all, a group or a host."""

    image: str = Field(default=DEFAULT_IMAGE, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$", max_length=512)
    """Container image; `name:tag` or `name@sha256:…`."""

    runtime: Literal["docker", "native"] = "docker"
    """What the payload runs in. `native`: the host's own python3, which must have TensorFlow."""

    runtime_args: tuple[str, ...] = ()
    """More arguments for `docker run`, e.g. `["--cpuset-cpus", "0-15"]`."""

    devices: Annotated[Literal["cpu", "all"] | int | tuple[str, ...], BeforeValidator(_read_devices)] = "all"
    """`cpu`: a CPU host. `all`, a number, a list of indexes or UUIDs: a GPU host, and which GPUs the payload may use.
    Said and not found out, so that a GPU host that has lost its GPU fails instead of passing for a CPU host."""

    become: bool = False
    """Everything on the host runs as root, by sudo: for an SSH user who may not use the engine."""

    workdir: str = Field(default=DEFAULT_WORKDIR, pattern=r"^(~|(~?/)[A-Za-z0-9._/@+~-]*)$", max_length=512)
    """Directory on the host, owned by the SSH user (root with `become`) and private to it. `~/` is the user's home."""

    ulimits: Mapping[str, str] = Field(default={"memlock": "-1", "stack": "67108864"})
    """`docker run --ulimit`; the defaults are what NVIDIA advises. `{}` for an engine that may not raise limits."""

    ipc: Literal["host", "private"] = "host"
    """`docker run --ipc`; NVIDIA advises `host`. `private` gives the container 64 MB of /dev/shm."""

    python: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._/+~-]+$")
    """Interpreter for `runtime: native`. Default: `python3`, or fleet's own interpreter on the control node."""

    @property
    def gpus_declared(self) -> int | None:
        """How many GPUs the benchmark may use, where `devices` says a number."""
        if isinstance(self.devices, tuple):
            return len(self.devices)
        return None if isinstance(self.devices, str) else self.devices

    @field_validator("image")
    @classmethod
    def _check_digest(cls, value: str) -> str:
        digest = value.partition("@")[2]
        if "@" in value and not re.fullmatch(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}", digest):
            raise ValueError("what follows the @ is no digest: sha256: and 64 digits of 0-9 and a-f")
        return value

    @field_validator("devices")
    @classmethod
    def _check_devices(cls, value: object) -> object:
        if isinstance(value, int) and not 1 <= value <= 1024:
            raise ValueError("a number of GPUs is from 1 to 1024; for a CPU host write cpu")
        if isinstance(value, tuple):
            if not value:
                raise ValueError("the list of GPUs is empty; for a CPU host write cpu")
            for item in value:
                if not re.fullmatch(r"\d{1,4}(:\d{1,3})?|(GPU|MIG)-[A-Za-z0-9/-]+", item):
                    raise ValueError(f"{item!r} is neither a GPU index nor a UUID")
                if value.count(item) > 1:
                    raise ValueError(f"{item} is in the list more than once")
        return value

    @field_validator("workdir")
    @classmethod
    def _check_workdir(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise ValueError("it may not go up with ..")
        return value

    @field_validator("ulimits", mode="after")
    @classmethod
    def _check_ulimits(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, limit in value.items():
            if not re.fullmatch(r"[a-z]{1,32}", name):
                raise ValueError(f"{name!r} is not the name of a limit; they are of lower-case letters, e.g. memlock")
            if not re.fullmatch(r"-?[0-9]{1,20}(:-?[0-9]{1,20})?", limit):
                raise ValueError(f"{name} is {limit!r}; it takes a whole number, or two with a colon: soft:hard")
        return value

    @field_validator("ulimits", mode="before")
    @classmethod
    def _read_ulimits(cls, value: object) -> object:
        if isinstance(value, dict):
            return {str(k): str(v) for k, v in value.items()}
        return value

    @property
    def device(self) -> Literal["cpu", "gpu"]:
        """The kind of device cells are planned for."""
        return "cpu" if self.devices == "cpu" else "gpu"


class Host(Noun):
    """One SSH target, its variables merged."""

    alias: Alias
    groups: tuple[str, ...] = ()
    """Every group the host is in, parents too, without `all`; sorted."""
    connection: Connection = Connection()
    settings: Settings = Settings()
    source: str = ""
    """`file:line` where the host is named."""


class Inventory(Noun):
    """All hosts, in the order of the file, and which of them each group holds (`all` and `ungrouped` included)."""

    path: str
    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[Alias, ...]]
    warnings: tuple[str, ...] = ()
    """What was understood but left out, e.g. a vault-encrypted group_vars file."""
