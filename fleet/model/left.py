"""What a controller that is gone left of a host's job, by the run's own records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class JobLeft:
    """How far one host's job had come. By default nothing was begun."""

    told: bool = False
    """The host may have been told to start the job, and may have heard it."""
    seen: bool = False
    """The job was seen there."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the host gave, by name: its `probe`; and all files of a job that had ended, `exit.json` among them."""

    @property
    def collected(self) -> bool:
        """Everything of the job is here already: `exit.json` is kept last."""
        return "exit.json" in self.files
