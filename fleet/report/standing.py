"""Which hosts are fast: each beside the best of every cell."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

from fleet.report.columns import build_columns
from fleet.report.details_model import Standing, Standings
from fleet.report.view_model import Matrix


def build_standings(matrix: Matrix) -> Standings | None:
    """Hosts, or sets of identical ones, by the geometric mean of their rates relative to the best of each cell.

    None where fewer than two hosts have a value: there is nobody to be compared with.
    """
    logs: dict[str, list[float]] = {}
    behind: Counter[str] = Counter()
    cells = 0
    for row in matrix.rows:
        # A stored figure may be any number; one that is not above zero has no logarithm.
        rates = {entry.alias: math.log(rate) for entry in row.entries if (rate := entry.images_per_s or 0) > 0}
        if len(rates) < 2:
            continue
        cells += 1
        best = max(rates.values())
        # Nobody is marked as the best where no host can be told from another.
        if any(entry.best for entry in row.entries):
            behind.update(entry.alias for entry in row.entries if entry.alias in rates and not entry.best)
        for alias, rate in rates.items():
            logs.setdefault(alias, []).append(rate - best)
    if not logs:
        return None
    by_host = {alias: math.exp(sum(values) / len(values)) for alias, values in logs.items()}
    lines = []
    for column in build_columns(matrix):
        known = {alias: by_host[alias] for alias in column.aliases if alias in by_host}
        if known:
            slowest = min(known, key=lambda alias: (known[alias], alias))
            most = max(len(logs[alias]) for alias in known)
            middle = median(known.values())
            lines.append(
                Standing(
                    label=column.label,
                    aliases=column.aliases,
                    relative=middle,
                    lowest=known[slowest],
                    slowest=slowest if len(known) > 1 else "",
                    cells=most,
                    behind=max(behind[alias] for alias in known),
                )
            )
    lines.sort(key=lambda line: -line.relative)
    return Standings(matrix.device, cells, tuple(lines), by_host)
