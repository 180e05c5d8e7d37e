"""What a runtime is told, and what it answers: the words of one command. Pure; nothing here runs anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fleet.model.inventory import Settings


@dataclass(frozen=True)
class HostJob:
    """One job's names on its host."""

    job_id: str
    run_id: str
    workdir: str
    """Absolute, on the host."""
    payload_sha256: str
    uid: int
    gid: int
    rootless: bool = False
    """The engine runs as the SSH user: root in the container is that user."""

    @property
    def directory(self) -> str:
        """The job's private directory."""
        return f"{self.workdir}/jobs/{self.job_id}"

    @property
    def payload(self) -> str:
        """Path of the payload, shared by all jobs that run the same one."""
        return f"{self.workdir}/payload-{self.payload_sha256}.pyz"

    @property
    def container(self) -> str:
        """Name of the container: unique, so that it is a claim."""
        return f"fleet-{self.job_id}"


class Runtime(Protocol):
    """One way to run the payload on a host."""

    name: str
    """What the supervisor calls it; for an engine, its program."""

    def build_arguments(self, settings: Settings, job: HostJob) -> tuple[str, ...]:
        """What follows the engine's `run -d --name NAME`, or the whole command where there is no engine."""
        ...
