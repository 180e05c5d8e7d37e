"""What programs read of a report: CSV, Markdown, JUnit, Prometheus."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.report import markdown
from fleet.report.csv_table import render_csv
from fleet.report.junit import render_junit
from fleet.report.markdown import render_markdown
from fleet.report.prometheus import render_prometheus
from fleet.report.view import build_view
from fleet.report.view_model import View
from tests.conftest import ROOT
from tests.run_builder import Ending, make_cells, make_plan, store_run

GONE = Ending(
    status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", message="It refused.", hint="Start sshd."
)
EVIL = "=cmd|' /C calc'!A0 \x1b[31m<script>alert(1)</script> | [x](http://evil) @all\n\"quoted\" \\ \x00"
RENDERERS: list[Callable[[View], str]] = [render_csv, render_markdown, render_junit, render_prometheus]


def build(root: Path, endings: Mapping[str, Ending], exit_code: int = 0, count: int = 3) -> View:
    plan = make_plan(dict.fromkeys(endings, make_cells(count=count)))
    return build_view(store_run(root, plan, endings, exit_code=exit_code))


def test_csv_has_a_line_for_each_planned_cell_of_each_host(tmp_path: Path) -> None:
    words = {1: (CellStatus.OOM, "device")}
    rows = list(
        csv.DictReader(io.StringIO(render_csv(build(tmp_path, {"cpu01": Ending(90, words=words), "gone": GONE}))))
    )

    assert len(rows) == 6
    by_cell = {(row["host"], row["cell_id"]): row for row in rows}
    first, second, _ = (cell.id for cell in make_cells(count=3))
    assert by_cell["cpu01", first]["images_per_s"] == "90.0"
    assert by_cell["cpu01", first]["steady"] == "true"
    assert by_cell["cpu01", first]["batch_size"] == "32"
    assert (by_cell["cpu01", second]["status"], by_cell["cpu01", second]["images_per_s"]) == ("oom", "")
    assert by_cell["gone", first]["status"] == "unreachable"


def test_junit_tells_failures_errors_and_skips_apart(tmp_path: Path) -> None:
    words = {0: (CellStatus.CRASH, "signal"), 1: (CellStatus.UNSUPPORTED, "fp16"), 2: (CellStatus.LOST, "lost")}
    view = build(tmp_path, {"cpu01": Ending(words=words), "cpu02": Ending(), "gone": GONE}, exit_code=3)
    root = ElementTree.fromstring(render_junit(view))

    told = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert told == {"tests": "9", "failures": "1", "errors": "4", "skipped": "1"}
    suites = {suite.get("name"): suite for suite in root}
    assert [child.tag for case in suites["cpu01"] for child in case] == ["failure", "skipped", "error"]
    assert suites["cpu02"].get("time") == "83.4"
    (value,) = suites["cpu02"][0].iter("property")
    assert (value.get("name"), value.get("value")) == ("images_per_s", "100")
    assert "crash" in (suites["cpu01"][0][0].get("type") or "")


def test_prometheus_has_what_one_alerts_on(tmp_path: Path) -> None:
    text = render_prometheus(build(tmp_path, {"cpu01": Ending(90), "gone": GONE}, exit_code=4))

    assert 'fleet_run_exit_code{suite="quick"} 4' in text
    assert 'fleet_host_ok{suite="quick",host="gone",status="unreachable"} 0' in text
    assert re.search(
        r'^fleet_images_per_second\{suite="quick",host="cpu01",cell="resnet50/[^}]*\} 90$', text, re.MULTILINE
    )
    assert "fleet_last_success" not in text
    samples = [line for line in text.split("\n") if line and not line.startswith("#")]
    # A name, labels, a value; a third word would be a timestamp.
    assert all(re.fullmatch(r'fleet_\w+\{(?:\w+="(?:[^"\\]|\\.)*",?)+\} \S+', line) for line in samples)
    for name in {line.split("{")[0] for line in samples}:
        assert text.count(f"# TYPE {name} gauge\n") == 1


def test_the_last_success_outlives_failures(tmp_path: Path) -> None:
    good = render_prometheus(build(tmp_path / "a", {"cpu01": Ending()}))
    bad = render_prometheus(build(tmp_path / "b", {"cpu01": GONE}, exit_code=6), good)

    (line,) = re.findall(r"^fleet_last_success_timestamp_seconds\{.*", good, re.MULTILINE)
    assert line in bad.split("\n")


def test_markdown_has_the_verdict_the_table_and_the_failures(tmp_path: Path) -> None:
    text = render_markdown(build(tmp_path, {"cpu01": Ending(90), "gone": GONE}, exit_code=4))

    assert text.startswith("## ✖ UNREACHABLE: 1/2 hosts, 3/6 cells")
    assert "- **gone** unreachable at connect \\(refused\\): It refused. → Start sshd." in text
    assert "| cell | cpu01 | gone |" in text
    assert re.search(r"^\| resnet50/train/fp32/b32/cpu1/nhwc \| ★? ?90\S* .*\| unreachable \|$", text, re.MULTILINE)


def test_markdown_says_what_is_still_to_come(tmp_path: Path) -> None:
    plan = make_plan({"a": make_cells(), "b": make_cells()})
    text = render_markdown(build_view(store_run(tmp_path, plan, {"a": Ending()})))

    assert "▸ Still to come: b \\(still measuring" in text
    assert "### Failures" not in text


def test_markdown_that_would_be_too_long_is_cut_off_with_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown, "MOST_BYTES", 3000)
    text = markdown.render_markdown(build(tmp_path, {f"gpu{n:02d}": Ending() for n in range(9)}, count=18))

    assert 2000 < len(text.encode()) <= 3000
    (missing,) = re.findall(r"… and (\d+) more cells: see `fleet report`", text)
    assert int(missing) + text.count("/b32/") == 18


@pytest.mark.parametrize("render", RENDERERS)
def test_text_of_hosts_is_inert(tmp_path: Path, render: Callable[[View], str]) -> None:
    evil = Ending(status=HostStatus.FAILED, stage=Stage.RUN, reason=EVIL, message=EVIL, hint=EVIL, tensorflow=EVIL)
    words = {0: (CellStatus.CRASH, EVIL)}
    text = render(build(tmp_path, {"cpu01": Ending(words=words, tensorflow=EVIL), "cpu02": evil}, exit_code=3))

    assert "\x1b" not in text
    assert "\x00" not in text
    if render is render_csv:
        fields = [field for row in csv.reader(io.StringIO(text)) for field in row]
        assert not [field for field in fields if field.startswith(("=", "@"))]
    elif render is render_markdown:
        assert "<script>" not in text
        assert "](http" not in text
        assert "@all" not in text
    elif render is render_junit:
        ElementTree.fromstring(text)
        assert "<script>" not in text


@pytest.mark.parametrize("render", RENDERERS)
def test_a_run_in_which_nothing_was_measured_is_rendered(tmp_path: Path, render: Callable[[View], str]) -> None:
    assert render(build(tmp_path, {"gone": GONE}, exit_code=6)).endswith("\n")


def test_the_dashboard_asks_for_metrics_that_there_are(tmp_path: Path) -> None:
    board = (ROOT / "docs" / "grafana-dashboard.json").read_text()
    text = render_prometheus(build(tmp_path, {"cpu01": Ending(), "cpu02": Ending()}))

    asked = set(re.findall(r"fleet_\w+", " ".join(find_values(json.loads(board)))))
    assert asked
    assert asked <= set(re.findall(r"^(fleet_\w+)\{", text, re.MULTILINE))


def find_values(node: object) -> Iterator[str]:
    """The queries of a dashboard."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"expr", "query"} and isinstance(value, str):
                yield value
            yield from find_values(value)
    elif isinstance(node, list):
        for value in node:
            yield from find_values(value)
