"""What a job says when there is nothing to do for it: all that the fan-out knows of jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pause:
    """Nothing to do for this host for a while."""

    seconds: float
    connecting: bool = False
    """No job was started there yet: what comes next may hang, and is to hang up new hosts only."""
