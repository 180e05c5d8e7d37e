"""The trend as HTML: what the page says of the runs, and that it is of one piece, small, and inert."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from fleet.model.suite import Cell
from fleet.report.html_trend import MOST_MOVED, MOST_OF_HOST, render_trend_html
from fleet.report.trend_view import LevelChange, Mark, Span, TrendLine, TrendView
from tests.report.test_html import HOSTILE, Outline
from tests.report.trend_pages import FALLS, name_night, store_story, write_page


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("story")
    store_story(root, 4)
    return root


def read_charts(page: str) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = json.loads(Outline(page).raw["script"][0])
    return charts


def list_sections(page: str) -> list[str]:
    return re.findall('<section id="([a-z]+)">', page)


def test_the_head_answers_and_the_sections_say_why(story: Path) -> None:
    page = write_page(story).read_text()
    assert "<title>INCIDENT · quick · fleet</title>" in page
    assert re.search(r"<b>1</b> incident open <b>3</b> of 12 judged values slower", page)
    assert list_sections(page) == ["incidents", "moved", "changes", "cells", "all"]
    assert re.search(r"kernel 5\.10\.0 → 6\.1\.0: gpu01 \S+ −9\.\d % and 2 more cells<", page)
    states = re.findall(r"[▼✔] (open|resolved)<", page)
    assert states[0] == "open"
    assert set(states[1:]) == {"resolved"}


def test_a_series_is_drawn_with_its_incident_its_level_and_what_changed(story: Path) -> None:
    charts = read_charts(write_page(story).read_text())
    first = charts[0]
    assert len(first["x"]) == 40
    assert first["data"][0]["name"] == "gpu01"
    levels = first["data"][1]["y"]
    assert (len(levels), len(set(levels))) == (40, 2)
    assert levels.index(levels[-1]) == FALLS
    assert levels[-1] / levels[0] == pytest.approx(0.9, abs=0.003)
    incident, mark = first["layout"]["shapes"]
    assert incident["name"] == "incident"
    assert incident["x0"] == first["x"][FALLS + 1]  # the run that confirmed it
    assert incident["x1"] == first["x"][-1]
    assert (mark["x0"], mark["label"]["text"]) == (first["x"][FALLS], "kernel 5.10.0 → 6.1.0")
    resolved = next(chart for chart in charts if chart["data"][0]["name"] == "gpu02")
    assert resolved["layout"]["shapes"][0]["x1"] == first["x"][22]
    cells = charts[-3:]
    assert [len(chart["data"]) for chart in cells] == [4, 4, 4]
    assert max(cells[0]["data"][0]["y"]) == pytest.approx(100, abs=0.5)
    assert "kernel 5.10.0 → 6.1.0, 1 host" in cells[0]["layout"]["shapes"][0]["label"]["text"]


def test_one_host_has_its_own_page(story: Path) -> None:
    page = write_page(story, host="gpu03").read_text()
    assert "<title>AS BEFORE · quick · fleet</title>" in page
    assert list_sections(page) == ["cells", "all"]
    assert "gpu01" not in page


def test_too_few_runs_are_never_as_before(tmp_path: Path) -> None:
    store_story(tmp_path, 2, nights=1)
    page = write_page(tmp_path).read_text()
    assert "<title>LEARNING · quick · fleet</title>" in page
    assert "6 learning: fewer than 7 runs before, so that nothing can be said" in page
    assert list_sections(page) == ["all"]
    assert len(page) < 30_000


def test_hostile_text_makes_no_element(tmp_path: Path) -> None:
    store_story(tmp_path, 3, kernel=HOSTILE, suite=HOSTILE)
    page = write_page(tmp_path).read_text()
    outline = Outline(page)
    assert "owned" in page
    assert not [tag for tag, _ in outline.elements if tag in {"img", "iframe", "object", "form"}]
    assert len(outline.raw["script"]) == 3
    assert not re.search("[<>&\u2028\u2029]", outline.raw["script"][0])
    charts = read_charts(page)
    labels = [shape["label"]["text"] for chart in charts for shape in chart["layout"]["shapes"]]
    assert any("/script" in label for label in labels)
    assert not [label for label in labels if "<" in label]
    assert {attrs["href"] for tag, attrs in outline.elements if tag == "a"} <= {
        "#main",
        *(f"#{name}" for name in list_sections(page)),
    }


def make_year(hosts: int, cells: int, nights: int) -> TrendView:
    """A view as of a whole year of nights, every fiftieth series with a level of its own."""
    run_ids = tuple(name_night(night) for night in range(nights))
    lines = []
    for place in range(hosts * cells):
        cell = Cell(model=f"model{place % cells:02d}", batch_size=64, device="gpu", data_format="NCHW")
        rates = tuple(1000.0 + (place * 31 + night * 17) % 97 / 7 for night in range(nights))
        moved = place % 50 == 0
        lines.append(
            TrendLine(
                host=f"gpu{place // cells:03d}",
                cell=cell,
                rates=rates,
                latest=rates[-1],
                latest_run=run_ids[-1],
                count=14,
                change=-0.06 if moved else 0.001,
                word="slower" if moved else "same",
                detectable=-0.05,
                levels=(LevelChange(run_ids[nights // 2], -0.06),) if moved else (),
                incidents=(Span(run_ids[nights // 2], None),) if moved else (),
            )
        )
    marks = tuple(Mark(run_ids[nights // 3], f"gpu{host:03d}", ("driver 550 → 555",)) for host in range(hosts))
    return TrendView("nightly", run_ids, tuple(lines), marks, 7)


def test_a_year_of_a_hundred_hosts_is_one_small_file() -> None:
    view = make_year(100, 60, 365)
    begun = time.process_time()
    page = render_trend_html(view, ())
    took_s = time.process_time() - begun
    assert len(page.encode()) < 6_000_000
    assert took_s < 6  # three by itself on an idle machine
    charts = read_charts(page)
    assert len(charts) == MOST_MOVED + 60
    assert max(len(chart["data"]) for chart in charts) <= 12
    hosts = [chart["data"][0]["name"] for chart in charts[:MOST_MOVED]]
    assert max(hosts.count(host) for host in hosts) <= MOST_OF_HOST
    assert page.count("<tr>") > 6000
