"""A small curve of one series, a sign a run, for a line of text."""

from __future__ import annotations

from collections.abc import Sequence, Set

from fleet.report.trend_view import TrendLine

NIGHTS = 30
"""So many of the last runs are drawn; all of them are in the JSON."""

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-~=+*#"
"""For an output without Unicode."""

_HEIGHT = 0.1
"""A curve's height is at least this part of its largest value, so that noise looks like noise."""


def draw_curve(line: TrendLine, run_ids: Sequence[str], marks: Set[tuple[str, str]], signs: str = BLOCKS) -> str:
    """The last runs of a series, a bar before those from which on something of its host was another.

    Args:
        marks: run and host.
        signs: eight, lowest first.
    """
    bar = "│" if signs == BLOCKS else "|"
    shown = list(zip(run_ids, line.rates, strict=True))[-NIGHTS:]
    known = [rate for _, rate in shown if rate is not None]
    high = max(known, default=1.0)
    low = min(min(known, default=1.0), high * (1 - _HEIGHT))
    drawn = []
    for run_id, rate in shown:
        drawn.append(bar if (run_id, line.host) in marks else "")
        drawn.append(" " if rate is None else signs[min(7, int((rate - low) / (high - low) * 8))])
    return "".join(drawn).rstrip()
