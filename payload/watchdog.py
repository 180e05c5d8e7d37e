"""When a child is given up: its time is up, its first step does not end, or it takes no step any more."""

import collections
import time
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional

from payload.timing import find_median

SLOWER = 20.0
"""A step that takes so many times the median is no slow step any more."""

_LONGEST_PAUSE_S = 1.0
"""What may pass between two looks counts as silence up to this; whoever was frozen meanwhile was so with the child."""

_KEPT = 512

Limits = NamedTuple("Limits", [("cell_s", float), ("first_step_s", float), ("step_s", float)])
"""`step_s`: no step is given up before it, however short the median."""

Overdue = NamedTuple(
    "Overdue",
    [("reason", str), ("waited_s", float), ("median_s", Optional[float]), ("steps", int), ("state", Optional[str])],
)
"""Why a child is given up: `cell_timeout`, `first_step_hang` or `step_hang`; seconds; the steps it had taken; the
letter of its state in /proc/<pid>/stat, filled in by whoever knows the process."""


def choose_limits(cell_timeout_s: float) -> Limits:
    """How patient to be, from the one limit that people set.

    The first step traces, tunes and compiles, for minutes where a GPU's kernels are compiled anew: it may have half
    of the cell's time. Any other may have a tenth, between 10 s (a machine that swaps comes back) and 120 s.
    """
    return Limits(cell_timeout_s, 0.5 * cell_timeout_s, min(max(cell_timeout_s / 10.0, 10.0), 120.0))


class Watchdog:
    """Follows the stages and steps of one child by its events.

    Args:
        cell_timeout_s: what the child may take, start to end.
        clock: seconds; the one by which the child stamps its events.
    """

    def __init__(self, cell_timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = choose_limits(cell_timeout_s)
        self._clock = clock
        self._begin_s = self._seen_s = clock()
        self._silence_s = 0.0
        self._stepping = False
        self._steps = 0
        self._beat_s: Optional[float] = None
        self._step_times_s: Deque[float] = collections.deque(maxlen=_KEPT)

    def take(self, event: Dict[str, Any]) -> None:
        """An event of the child: a stage begins, or a beat says how many steps there were."""
        if event["event"] == "stage":
            self._stepping = event["stage"] in ("warmup", "measure")
            self._silence_s = 0.0
        elif event["event"] == "beat":
            if self._beat_s is not None and event["steps"] > self._steps:
                self._step_times_s.append((event["at_s"] - self._beat_s) / (event["steps"] - self._steps))
            self._steps, self._beat_s = event["steps"], event["at_s"]
            self._silence_s = 0.0
        elif event["event"] == "window":
            self._stepping = False

    def find_overdue(self) -> Optional[Overdue]:
        """Why to give the child up now; None: go on waiting. To be asked about every second, after reading events."""
        now_s = self._clock()
        self._silence_s += min(now_s - self._seen_s, _LONGEST_PAUSE_S)
        self._seen_s = now_s
        if now_s - self._begin_s >= self._limits.cell_s:
            return Overdue("cell_timeout", self._limits.cell_s, None, self._steps, None)
        if not self._stepping:
            return None
        if self._steps == 0:
            late = self._silence_s >= self._limits.first_step_s
            return Overdue("first_step_hang", self._silence_s, None, 0, None) if late else None
        if self._silence_s < self._limits.step_s:
            return None
        median_s = find_median(list(self._step_times_s)) if self._step_times_s else None
        if median_s is not None and self._silence_s < SLOWER * median_s:
            return None
        return Overdue("step_hang", self._silence_s, median_s, self._steps, None)
