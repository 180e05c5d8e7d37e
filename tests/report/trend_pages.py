"""Nights with a story, and the page of their trend as `fleet trend --html` writes it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from fleet.cli.options import PageOptions
from fleet.cli.trend import Asked, write_trend
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

NOISE = (0.1, -0.2, 0.2, 0.0, -0.1)
FALLS = 25
"""From this night on gpu01 is slower, and its kernel another."""


def name_night(night: int) -> str:
    return f"{date(2026, 1, 1) + timedelta(night):%Y%m%d}T023000Z-n{night:03d}"


def store_story(root: Path, hosts: int, nights: int = 40, kernel: str = "6.1.0", suite: str = "quick") -> None:
    """gpu01 by a tenth slower, with another kernel; gpu02 for ten nights; the others as ever."""
    cells = make_cells("gpu", 3)
    for night in range(nights):
        endings = {}
        for host in range(hosts):
            rate = 1000 * (1 + NOISE[(night + host) % 5] / 100)
            if (host == 1 and night >= FALLS) or (host == 2 and 12 <= night < 22):
                rate *= 0.9
            facts = make_facts("NVIDIA A100-SXM4-80GB")
            new = host == 1 and night >= FALLS
            facts = facts.model_copy(update={"kernel": kernel if new else "5.10.0"})
            endings[f"gpu{host:02d}"] = Ending(rate, facts=facts)
        plan = make_plan(dict.fromkeys(endings, cells), name_night(night)).model_copy(update={"suite": suite})
        store_run(root, plan, endings)


def write_page(root: Path, *, shared: bool = False, host: str | None = None) -> Path:
    page = root / "trend.html"
    write_trend(root, Asked(None, host, None), PageOptions(page, shared, show=False))
    return page
