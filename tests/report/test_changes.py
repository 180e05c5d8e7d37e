"""What a run changed against those before it, in words."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.journal import JudgedRun, Suspicion
from fleet.report.incident_view import say_changes
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from tests.run_builder import RUN_ID, Ending, make_cells, make_plan, store_run


def judge(measured: int, learning: int, nights: int = 7, suspicions: int = 0) -> JudgedRun:
    found = [
        Suspicion(level="cell", name=f"gpu{place:02d}", kind="step", change=0.1, sentence=f"gpu{place:02d} −9.1 %")
        for place in range(suspicions)
    ]
    return JudgedRun(
        time="t", run_id=RUN_ID, measured=measured, learning=learning, nights=nights, suspicions=tuple(found)
    )


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (judge(0, 0), ("nothing was measured, so nothing was judged",)),
        (judge(4, 4, nights=3), ("learning: 3 of 7 nights; until then nothing can be judged",)),
        (judge(4, 0), ("nothing is slower than in the runs before, of 4 values judged",)),
        (
            judge(4, 3),
            (
                "nothing is slower than in the runs before, of 1 value judged",
                "learning: 3 values with fewer than 7 nights before",
            ),
        ),
        (judge(4, 0, suspicions=1), ("suspicion: gpu00 −9.1 %, not confirmed: there was no second run",)),
    ],
)
def test_that_nothing_is_slower_is_said_only_of_what_was_judged(judged: JudgedRun, says: tuple[str, ...]) -> None:
    assert say_changes(judged, ()) == says


def test_many_are_counted(tmp_path: Path) -> None:
    run = store_run(tmp_path, make_plan({"gpu01": make_cells()}), {"gpu01": Ending()})
    view = build_view(run, say_changes(judge(60, 0, suspicions=23), ()))
    out = StringIO()
    render_terminal(view, Console(file=out, width=120, color_system=None, legacy_windows=False))

    assert len(view.changes) == 23
    assert out.getvalue().count("suspicion: ") == 20
    assert "· and 3 more, in fleet report --json" in out.getvalue()
