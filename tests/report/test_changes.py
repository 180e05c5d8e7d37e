"""What a run changed against those before it, in words."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.journal import JudgedRun, Suspicion
from fleet.model.result import HostStatus
from fleet.report.csv_table import render_csv
from fleet.report.details import build_details
from fleet.report.html import render_html
from fleet.report.incident_view import say_changes
from fleet.report.junit import render_junit
from fleet.report.markdown import render_markdown
from fleet.report.prometheus import render_prometheus
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.report.view_model import Found
from tests.run_builder import RUN_ID, Ending, make_cells, make_plan, store_run

CELLS = make_cells()


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
        (judge(4, 4, nights=3), ("learning: 3 of 7 runs; until then nothing can be judged",)),
        (judge(4, 0), ("nothing is slower than in the runs before, of 4 values judged",)),
        (
            judge(4, 3),
            (
                "nothing is slower than in the runs before, of 1 value judged",
                "learning: 3 values with fewer than 7 runs before",
            ),
        ),
        (judge(4, 0, suspicions=1), ("suspicion: gpu00 −9.1 %, for the next run to confirm",)),
    ],
)
def test_that_nothing_is_slower_is_said_only_of_what_was_judged(judged: JudgedRun, says: tuple[str, ...]) -> None:
    assert say_changes(judged, ()) == says


def test_many_are_counted(tmp_path: Path) -> None:
    run = store_run(tmp_path, make_plan({"gpu01": make_cells()}), {"gpu01": Ending()})
    view = build_view(run, Found(changes=say_changes(judge(60, 0, suspicions=23), ())))
    out = StringIO()
    render_terminal(view, Console(file=out, width=120, color_system=None, legacy_windows=False))

    assert len(view.changes) == 23
    assert out.getvalue().count("suspicion: ") == 20
    assert "· and 3 more, in fleet report --json" in out.getvalue()


FOUND = Found(
    changes=("incident 1a2b3c4d: gpu01 −9.1 % in all cells, confirmed by run X",),
    regressions=("gpu01 −9.1 % in all cells (incident 1a2b3c4d)", "gpu02 −5.0 % (incident ffffffff)"),
    slower=frozenset({("gpu01", ""), ("gpu02", CELLS[1].id)}),
)


def test_a_regression_heads_the_report_in_every_form(tmp_path: Path) -> None:
    run = store_run(
        tmp_path, make_plan(dict.fromkeys(["gpu01", "gpu02"], CELLS)), {"gpu01": Ending(), "gpu02": Ending()}
    )
    view = build_view(run, FOUND)
    out = StringIO()
    render_terminal(view, Console(file=out, width=160, color_system=None, legacy_windows=False))
    said = "slower than before: gpu01 −9.1 % in all cells (incident 1a2b3c4d) and 1 more incident"

    assert (view.verdict.word, view.verdict.exit_code, view.verdict.regressions) == ("REGRESSION", 5, 2)
    assert out.getvalue().startswith(f"✖ REGRESSION  2/2 hosts, 6/6 cells · {said}\n")
    assert "↓ slower than before: an incident is open" in out.getvalue()
    assert [entry.slower for row in view.matrices[0].rows for entry in row.entries] == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    assert render_markdown(view).startswith(
        "## ✖ REGRESSION: 2/2 hosts, 6/6 cells · slower than before: gpu01 −9.1 % in"
    )
    page = render_html(view, build_details(run, view))
    assert "<title>REGRESSION · " in page
    assert '<div class="failure verdict">' in page and said in page
    assert page.count("100↓") == 2  # in the matrix, and with its host
    assert render_junit(view).count('type="regression"') == 4
    metrics = render_prometheus(view)
    assert 'fleet_incidents_open{suite="quick"} 2\n' in metrics and 'fleet_run_exit_code{suite="quick"} 5\n' in metrics
    assert "fleet_last_success_timestamp_seconds{" in metrics  # it measured all it was to
    assert [line.split(",")[24] for line in render_csv(view).splitlines()] == [
        "slower",
        "true",
        "false",
        *["true"] * 3,
        "false",
    ]


def test_what_failed_comes_before_what_is_slower(tmp_path: Path) -> None:
    endings = {"gpu01": Ending(), "gpu02": Ending(status=HostStatus.UNREACHABLE, facts=None)}
    view = build_view(store_run(tmp_path, make_plan(dict.fromkeys(endings, CELLS)), endings, exit_code=4), FOUND)

    assert (view.verdict.word, view.verdict.exit_code) == ("UNREACHABLE", 4)
    assert view.verdict.remarks[0].startswith("slower than before: gpu01")
