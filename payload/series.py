"""Values over time: what was sampled, cut to the window that was timed."""

from typing import List, Optional, Sequence, Tuple

from payload.timing import find_median

Point = Tuple[float, float]
"""(seconds of the monotonic clock, value)"""

_MOST = 4096


class Series:
    """Samples of one quantity in the order they were taken. Of very many, every other one is dropped."""

    def __init__(self) -> None:
        self._points: List[Point] = []

    def add(self, at_s: float, value: Optional[float]) -> None:
        """None is no sample."""
        if value is None:
            return
        self._points.append((at_s, value))
        if len(self._points) >= _MOST:
            # The oldest and the newest stay: they are what a counter's growth is made of.
            self._points = self._points[:-1:2] + self._points[-1:]

    def clip(self, begin_s: float, end_s: float) -> List[float]:
        """The values sampled from `begin_s` to `end_s`; of a window between two samples, the nearer one."""
        inside = [value for at_s, value in self._points if begin_s <= at_s <= end_s]
        if inside or not self._points:
            return inside
        middle_s = (begin_s + end_s) / 2.0
        at_s, value = min(self._points, key=lambda point: abs(point[0] - middle_s))
        return [value] if abs(at_s - middle_s) <= 1.0 else []

    def find_growth(self, begin_s: float, end_s: float) -> Optional[float]:
        """What a counter grew by, with straight lines between samples; None: fewer than two samples."""
        if len(self._points) < 2:
            return None
        return _interpolate(self._points, end_s) - _interpolate(self._points, begin_s)

    def integrate(self, begin_s: float, end_s: float) -> Optional[float]:
        """The area under the samples, with straight lines between them; None: none within the window."""
        inside = [point for point in self._points if begin_s < point[0] < end_s]
        if not inside:
            return None
        points = [(begin_s, _interpolate(self._points, begin_s))] + inside
        points.append((end_s, _interpolate(self._points, end_s)))
        area = 0.0
        for i in range(1, len(points)):
            area += (points[i][0] - points[i - 1][0]) * (points[i][1] + points[i - 1][1]) / 2.0
        return area


def _interpolate(points: Sequence[Point], at_s: float) -> float:
    """The value at a time; beyond the ends, that of the end."""
    before = points[0]
    for point in points:
        if point[0] >= at_s:
            if point[0] == before[0]:
                return point[1]
            share = max(0.0, at_s - before[0]) / (point[0] - before[0])
            return before[1] + share * (point[1] - before[1])
        before = point
    return before[1]


def find_middle(values: Sequence[float]) -> Optional[float]:
    """The median; None of nothing."""
    return find_median(values) if values else None
