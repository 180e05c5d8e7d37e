"""Where the warm-up really ended, found in the step times themselves."""

from typing import List, Sequence

from payload.timing import find_median

_GROUP = 5
_LEAST_GROUPS = 4
_LEAST_EFFECT = 0.005


def count_dropped(steps_us: Sequence[int]) -> int:
    """How many of the first steps still belong to the warm-up: 0 to half of them.

    MSER-5 (White 1997, "An effective truncation heuristic for bias reduction in simulation output"): of all places to
    cut, the one that leaves the smallest standard error of the rest, in groups of five. Here a group stands for its
    median, so that a single hiccup is no trend, and nothing is dropped where what would be dropped is as fast as the
    rest. Below 20 steps nothing can be told.
    """
    groups = [find_median(steps_us[i : i + _GROUP]) for i in range(0, len(steps_us) - _GROUP + 1, _GROUP)]
    if len(groups) < _LEAST_GROUPS:
        return 0
    dropped = _GROUP * _find_cut(groups)
    if dropped == 0:
        return 0
    before, after = find_median(steps_us[:dropped]), find_median(steps_us[dropped:])
    return dropped if abs(before - after) > _LEAST_EFFECT * after else 0


def _find_cut(groups: List[float]) -> int:
    """The cut with the smallest squared standard error of what is behind it; the first of equals."""
    origin = groups[-1]
    cut, smallest = 0, float("inf")
    count, total, squares = 0, 0.0, 0.0
    for place in range(len(groups) - 1, -1, -1):
        # From the last group's value, which keeps the squares small and their difference exact.
        value = groups[place] - origin
        count, total, squares = count + 1, total + value, squares + value * value
        error = max(squares - total * total / count, 0.0) / count**2
        if place <= len(groups) // 2 and error <= smallest:
            cut, smallest = place, error
    return cut
