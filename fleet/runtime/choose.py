"""The table of runtimes."""

from __future__ import annotations

from fleet.model.inventory import Settings
from fleet.runtime.base import Runtime
from fleet.runtime.docker import DockerRuntime
from fleet.runtime.native import NativeRuntime

RUNTIMES: dict[str, Runtime] = {runtime.name: runtime for runtime in (DockerRuntime(), NativeRuntime())}


def choose_runtime(settings: Settings) -> Runtime:
    """The runtime a host's settings name."""
    return RUNTIMES[settings.runtime]
