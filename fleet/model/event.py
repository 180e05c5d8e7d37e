"""What happens during a run, as it happens."""

from __future__ import annotations

from typing import Literal

from fleet.model.base import Record
from fleet.model.result import HostOutcome, Stage


class HostStage(Record):
    """A host entered a stage."""

    kind: Literal["stage"] = "stage"
    alias: str
    stage: Stage


class HostProgress(Record):
    """A host's job, as the last poll saw it."""

    kind: Literal["progress"] = "progress"
    alias: str
    cells_done: int
    cells_total: int
    current_cell: str | None = None
    """Canonical id; None between cells."""
    elapsed_s: float
    """Since the job was started there."""
    detail: str = ""
    """E.g. `pulling the image`."""
    waiting: bool = False
    """Nothing is started there until others have let go of the machine; `detail` says what they do."""


class HostNotice(Record):
    """Something worth telling that is not an end, e.g. a connection lost and made again."""

    kind: Literal["notice"] = "notice"
    alias: str
    message: str


class HostFinished(Record):
    """A host's one outcome."""

    kind: Literal["finished"] = "finished"
    alias: str
    outcome: HostOutcome


Event = HostStage | HostProgress | HostNotice | HostFinished
