"""What a run will do, fixed before the first connection."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from fleet.model.base import Noun, Record
from fleet.model.inventory import Alias, Connection, Settings
from fleet.model.suite import Cell, Rules


class HostPlan(Noun):
    """One host's job."""

    alias: Alias
    job_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,62}$")
    """`<run-id>-<number of the host in the plan>`: also the container's name on the host, after `fleet-`."""
    groups: tuple[str, ...]
    connection: Connection
    settings: Settings
    cells: tuple[Cell, ...]
    estimate_s: float
    """What the cells are expected to take, start-up of the container included."""
    deadline_s: float
    """When the host itself ends the job, counted from its start there."""


class Plan(Record):
    """One run, frozen."""

    schema_: Literal["fleet.plan/1"] = Field(default="fleet.plan/1", alias="schema")
    run_id: str = Field(pattern=r"^[0-9]{8}T[0-9]{6}Z-[a-z0-9]{4}$")
    """`20261201T023000Z-k3x9`: sorts by time, unique."""
    created: str
    """ISO 8601, UTC."""
    fleet_version: str
    inventory: str
    """Path of the inventory, as given."""
    limit: str | None
    suite: str
    rules: Rules
    payload_sha256: str
    forks: int
    hosts: tuple[HostPlan, ...]

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)
