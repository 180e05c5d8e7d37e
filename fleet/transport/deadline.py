"""A point in time that several steps share."""

from __future__ import annotations

import time


class Deadline:
    """`seconds` from now, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then; 0 when it has passed."""
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.left() == 0.0

    def within(self, seconds: float) -> Deadline:
        """The sooner of this one and `seconds` from now."""
        return Deadline(min(self.left(), seconds))
