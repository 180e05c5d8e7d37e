"""The odd ones among identical hosts of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.result import HostStatus, Stage
from fleet.report.json_form import write_document
from fleet.report.outlier_view import OutlierView, build_outliers
from fleet.report.terminal_outliers import render_outliers
from tests.conftest import RunFleet
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

CELLS = make_cells(count=3)
GONE = Ending(status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", facts=None)
SLOW = Ending(100 / 1.1, facts=make_facts().model_copy(update={"kernel": "6.1.0"}))
USUAL = Ending(100, facts=make_facts().model_copy(update={"kernel": "5.10.0"}))
SIX = {f"cpu{place:02d}": replace(USUAL, rate=rate) for place, rate in enumerate((100, 100.2, 99.9, 100.1, 99.8), 1)}


def build(root: Path, endings: Mapping[str, Ending]) -> OutlierView:
    return build_outliers(store_run(root, make_plan(dict.fromkeys(endings, CELLS)), endings))


def show(view: OutlierView) -> str:
    out = StringIO()
    render_outliers(view, Console(file=out, width=120, color_system=None, legacy_windows=False))
    return out.getvalue()


def test_a_slow_host_is_named_with_what_differs(tmp_path: Path) -> None:
    view = build(tmp_path, {**SIX, "cpu06": SLOW})

    (cohort,) = view.cohorts
    (line,) = cohort.odd
    odd = line.host
    # Medians of 100.2, 100.1, 100, 99.9, 99.8 and 90.9: times of 1.1 ÷ 1/99.95.
    assert odd.alias == "cpu06"
    assert odd.change == pytest.approx(1.1 * 0.9995 - 1, abs=1e-4)
    assert (len(odd.cells), odd.count, cohort.measured, cohort.cells) == (3, 3, 6, 3)
    assert line.differences == ("kernel 5.10.0 → 6.1.0",)
    said = show(view)
    assert "1 slow host among 6 hosts, each held against its like in 3 cells." in said
    assert "▼ cpu06  −9.0 % in all cells (z 19.0), slow in 3 of 3 cells" in said
    assert "not as on most of the others: kernel 5.10.0 → 6.1.0" in said
    document = json.loads(write_document(view))
    assert document["schema"] == "fleet.outliers/1"
    assert document["cohorts"][0]["odd"][0]["host"]["alias"] == "cpu06"


def test_a_difference_that_others_have_without_harm_comes_last(tmp_path: Path) -> None:
    newer = replace(USUAL, tensorflow="2.18.0")
    view = build(tmp_path, {**SIX, "cpu06": replace(SLOW, tensorflow="2.18.0"), "cpu07": newer})

    assert view.cohorts[0].odd[0].differences == (
        "kernel 5.10.0 → 6.1.0",
        "tensorflow 2.17.0 → 2.18.0 (so on cpu07, too)",
    )


def test_no_odd_one_is_said_with_how_many_were_held_against_each_other(tmp_path: Path) -> None:
    view = build(tmp_path, SIX)

    assert (view.odd, view.judged) == (0, True)
    assert view.sentence == "No odd one among 5 hosts, each held against its like in 3 cells."


@pytest.mark.parametrize(
    ("endings", "says"),
    [
        (dict(list(SIX.items())[:3]), "3 hosts of this kind: of fewer than 4 nobody can say who is the odd one out"),
        (
            {**dict(list(SIX.items())[:3]), "cpu04": replace(USUAL, status=HostStatus.FAILED)},
            "4 hosts of this kind, 3 of them measured: of fewer than 4",
        ),
        (
            {**dict(list(SIX.items())[:3]), "gone": GONE},
            "gone (hardware not known): nothing is known of their hardware",
        ),
    ],
)
def test_fewer_than_four_are_not_judged_and_never_none(
    endings: Mapping[str, Ending], says: str, tmp_path: Path
) -> None:
    view = build(tmp_path, endings)

    assert not view.judged
    assert view.sentence == "Nobody can be judged: there are no 4 hosts of one kind with a cell in common."
    assert says in show(view)


def test_the_command_ends_with_what_there_was(run_fleet: RunFleet, workspace: Path) -> None:
    empty = run_fleet("outliers")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "there are no runs yet" in empty.stderr

    build(workspace / "reports", {**SIX, "cpu06": SLOW})
    found = run_fleet("outliers")
    assert found.returncode == 0
    assert "cpu06" in found.stdout
    assert json.loads(run_fleet("outliers", "--json").stdout)["run_id"].startswith("2026")

    plan = make_plan({"gone": CELLS}, "20260102T023000Z-k3x9")
    store_run(workspace / "reports", plan, {"gone": GONE}, exit_code=6)
    nothing = run_fleet("outliers")
    assert nothing.returncode == 6
    assert nothing.stdout.startswith("Nothing was measured in this run.")
    (workspace / "reports" / "runs" / plan.run_id / "plan.json").write_text("{")
    damaged = run_fleet("outliers")
    assert (damaged.returncode, damaged.stdout) == (2, "")
    assert "plan.json cannot be read" in damaged.stderr
