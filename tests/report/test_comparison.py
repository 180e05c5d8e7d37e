"""Two runs, two hosts, and a run beside published figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.result import CellStatus, HostStatus
from fleet.model.suite import Cell
from fleet.reference import find_reference, list_references
from fleet.report.comparison_view import ComparisonView, build_comparison
from fleet.report.json_form import write_document
from fleet.report.reference_view import Place, ReferenceView, build_reference_view
from fleet.report.terminal_comparison import render_comparison
from fleet.report.terminal_reference import render_reference
from fleet.store.reader import StoredRun
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

FIRST, SECOND = "20260101T023000Z-aaaa", "20260102T023000Z-bbbb"
CELLS = make_cells(count=4)


def store(root: Path, run_id: str, endings: Mapping[str, Ending], cells: tuple[Cell, ...] = CELLS) -> StoredRun:
    return store_run(root, make_plan(dict.fromkeys(endings, cells), run_id), endings)


def compare(root: Path, before: Mapping[str, Ending], after: Mapping[str, Ending]) -> ComparisonView:
    return build_comparison(store(root, FIRST, before), store(root, SECOND, after))


def show(view: ComparisonView | ReferenceView, width: int = 120) -> str:
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, legacy_windows=False)
    if isinstance(view, ComparisonView):
        render_comparison(view, console)
    else:
        render_reference(view, console)
    return out.getvalue()


def test_each_host_and_cell_is_compared_with_itself(tmp_path: Path) -> None:
    before = {"cpu01": Ending(100), "cpu02": Ending(80)}
    view = compare(tmp_path, before, {"cpu01": Ending(90), "cpu02": Ending(80)})

    # √(0.9 × 1.0), the geometric mean of four cells each.
    assert [(line.host, line.count, line.total) for line in view.hosts] == [("cpu01", 4, 4), ("cpu02", 4, 4)]
    assert [round(line.speed or 0, 6) for line in view.hosts] == [0.9, 1.0]
    assert view.sentence.startswith(f"{math.sqrt(0.9):.3g} times as fast")
    assert {(line.host, line.word, round(line.change, 6)) for line in view.cells} == {
        ("cpu01", "slower", -0.1),
        ("cpu02", "same", 0.0),
    }
    assert (view.left.run_id, view.right.run_id) == (FIRST, SECOND)
    assert view.differences == view.left_out == ()


def test_one_cell_is_judged_by_itself(tmp_path: Path) -> None:
    plans = [make_plan({"cpu01": CELLS[:1]}, run_id) for run_id in (FIRST, SECOND)]
    left, right = (
        store_run(tmp_path, plan, {"cpu01": Ending(rate)}) for plan, rate in zip(plans, (346, 41.7), strict=True)
    )
    view = build_comparison(left, right)

    assert (view.verdict, view.hosts[0].low, view.cells[0].word) == ("worse", None, "slower")
    assert show(view).startswith("WORSE  0.121 times as fast, from 1 of 1 cells\n")
    assert build_comparison(left, left).verdict == "same"


def test_values_bear_the_marks_that_the_report_gives_them(tmp_path: Path) -> None:
    view = compare(tmp_path, {"cpu01": Ending(unsteady=[0])}, {"cpu01": Ending(others={0: 0.4, 1: 0.4})})

    assert [(line.left_marks, line.right_marks) for line in view.cells[:3]] == [("~", "!"), ("", "!"), ("", "")]
    said = show(view)
    assert re.search(r"100~ +100! ", said)
    assert "~ not steady: " in said and "! others used the host meanwhile: " in said
    assert "meanwhile" not in show(compare(tmp_path / "quiet", {"cpu01": Ending()}, {"cpu01": Ending()}))


def test_what_changed_on_the_hosts_is_named(tmp_path: Path) -> None:
    view = compare(tmp_path, {"cpu01": Ending()}, {"cpu01": Ending(tensorflow="2.18.0", digest="sha256:" + "9" * 64)})

    assert view.differences[0].startswith("image digest sha256:0123456789ab")
    assert "tensorflow 2.17.0 → 2.18.0, in 4 values" in view.differences


def test_a_changed_setting_is_named(tmp_path: Path) -> None:
    left = store(tmp_path, FIRST, {"cpu01": Ending()})
    plan = make_plan({"cpu01": CELLS}, SECOND)
    settings = plan.hosts[0].settings.model_copy(update={"runtime_args": ("--cpus", "0.08")})
    host = plan.hosts[0].model_copy(update={"settings": settings})
    rules = plan.rules.model_copy(update={"intra_threads": 4})
    changed = plan.model_copy(update={"hosts": (host,), "rules": rules})
    view = build_comparison(left, store_run(tmp_path, changed, {"cpu01": Ending(12)}))

    assert view.differences == (
        "fleet_runtime_args none → --cpus 0.08, in 4 values",
        "intra_threads 0 → 4, in 4 values",
    )


def test_what_is_not_of_both_is_left_out_by_name(tmp_path: Path) -> None:
    oom = {0: (CellStatus.OOM, "device")}
    before = {"cpu01": Ending(), "cpu02": Ending(), "gone": Ending()}
    gone = Ending(status=HostStatus.UNREACHABLE, facts=None)
    view = compare(tmp_path, before, {"cpu01": Ending(words=oom), "cpu02": Ending(words=oom), "gone": gone})

    assert f"cpu01, cpu02, gone: {CELLS[0].id}: measured on the left only" in view.left_out
    assert f"gone: {CELLS[1].id}: measured on the left only" in view.left_out
    assert [(line.host, line.count, line.total) for line in view.hosts][-1] == ("gone", 0, 4)


def test_another_payload_is_not_comparable(tmp_path: Path) -> None:
    plan = make_plan({"cpu01": CELLS}, SECOND).model_copy(update={"payload_sha256": "cd" * 32})
    view = build_comparison(store(tmp_path, FIRST, {"cpu01": Ending()}), store_run(tmp_path, plan, {"cpu01": Ending()}))

    assert (view.verdict, view.cells) == ("incomparable", ())
    assert view.sentence == "0 of 4 cells can be compared"
    assert "not comparable: payload abababababab and cdcdcdcdcdcd" in view.left_out[0]
    assert "INCOMPARABLE" in show(view)


def test_one_host_with_another(tmp_path: Path) -> None:
    run = store(
        tmp_path, FIRST, {"old": Ending(50), "new": Ending(100, facts=make_facts(cpu="EPYC")), "other": Ending()}
    )
    view = build_comparison(run, run, ("old", "new"))

    assert view.verdict == "better"
    (line,) = view.hosts
    assert line.host == "old → new"
    assert line.speed == pytest.approx(2.0)
    assert any(line.startswith("cpu 2 × Intel") for line in view.differences)
    said = show(view)
    assert "left   old · " in said and "▲ +100.0 %" in said


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    names = [f"a-host-with-a-long-name-{n:02d}.example.org" for n in range(3)]
    view = compare(tmp_path, {n: Ending() for n in names}, {n: Ending(50, tensorflow="2.18.0") for n in names})

    assert max(map(len, show(view, width).split("\n"))) <= width


def test_text_of_hosts_is_inert(tmp_path: Path) -> None:
    evil = "\x1b[31m[red]<script>"
    before = {"cpu01": Ending(tensorflow="1")}
    view = compare(tmp_path, before, {"cpu01": Ending(tensorflow=evil)})

    assert "\x1b" not in show(view) and "[red]<script>" in show(view)
    assert "\x1b" not in json.loads(write_document(view))["differences"][0]


def make_published(tmp_path: Path, rates: Mapping[str, float]) -> StoredRun:
    cells = tuple(
        Cell(model=model, batch_size=size, device="cpu") for model in ("alexnet", "resnet50") for size in (32, 64)
    )
    return store(tmp_path, FIRST, {alias: Ending(rate) for alias, rate in rates.items()}, cells)


def test_a_cpu_run_is_laid_beside_the_cpu_rows(tmp_path: Path) -> None:
    view = build_reference_view(make_published(tmp_path, {"cpu01": 238.1}), find_reference("rtx3090-ngc-20.10"))

    assert [(line.machine, line.model) for line in view.lines] == [
        ("CPU 90 cores", "resnet50"),
        ("cpu01", "resnet50"),
        ("CPU 90 cores", "alexnet"),
        ("cpu01", "alexnet"),
    ]
    ours = view.lines[3]
    # 238.1 ÷ 119.05, and the second cell is two thirds of the first.
    assert ours.places[0].images_per_s == 238.1
    assert ours.places[0].ratio == pytest.approx(2.0)
    assert ours.places[1].ratio == pytest.approx(238.1 / 1.5 / 142.02)
    assert ours.places[2:] == (Place(), Place(), Place())
    assert view.count == 4
    said = " ".join(view.unlike)
    for words in ("CPU 90 cores, RTX 3090 there, Intel Xeon Gold 6338 with 128 processors here", "20.10", "TF32"):
        assert words in said
    assert "10 rows of GPUs have no counterpart" in said
    assert "3 rows of processors have no counterpart" in said
    assert "×2.00" in show(view)
    assert json.loads(write_document(view))["count"] == 4


def test_what_did_not_fit_is_said(tmp_path: Path) -> None:
    cell = Cell(model="resnet50", batch_size=512, device="gpu", data_format="NCHW")
    ending = Ending(words={0: (CellStatus.OOM, "device")}, facts=make_facts("NVIDIA GeForce RTX 3090"))
    view = build_reference_view(store(tmp_path, FIRST, {"gpu01": ending}, (cell,)), list_references()[0])

    assert [line.machine for line in view.lines] == ["RTX 3090", "gpu01"]
    assert view.lines[1].places[-1] == Place(word="OOM")
    assert view.count == 0


def test_a_run_of_other_things_has_no_counterpart(tmp_path: Path) -> None:
    run = store(tmp_path, FIRST, {"cpu01": Ending()}, make_cells(count=9)[1:3])
    view = build_reference_view(run, list_references()[0])

    assert (view.lines, view.count) == ((), 0)
    assert "measured nothing that was published" in show(view)
