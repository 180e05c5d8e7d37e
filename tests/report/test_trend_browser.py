"""The page of the trend in a real Chromium, opened as a file, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.report.html_page import PLOTLY
from tests.browser import Browser
from tests.report.test_html import HOSTILE
from tests.report.test_html_browser import read_column, show_charts
from tests.report.trend_pages import store_story, write_page

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("story")
    store_story(root, 4)
    return root


def test_it_opens_without_a_word_in_both_colours_and_any_width(browser: Browser, story: Path) -> None:
    page = write_page(story)
    browser.prefer("light")
    for width in (1440, 400):
        browser.resize(width)
        browser.open(page)
        there, drawn = show_charts(browser)
        assert 8 < there == drawn
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    shade = "getComputedStyle(document.querySelector('#moved .shapelayer path')).fill"
    assert browser.evaluate(shade) == "rgb(253, 234, 229)"  # an incident, in the light page's colour of faults
    browser.prefer("dark")
    browser.settle()
    browser.settle()
    assert browser.evaluate(shade) == "rgb(66, 25, 15)"
    assert browser.said == []
    assert [url for url in browser.asked if not url.startswith("data:")] == [page.as_uri()]


def test_the_library_lies_beside_the_runs(browser: Browser, story: Path) -> None:
    page = write_page(story, shared=True)
    browser.open(page)
    there, drawn = show_charts(browser)
    assert 8 < there == drawn
    assert browser.said == []
    library = story / "assets" / PLOTLY
    assert {url for url in browser.asked if not url.startswith("data:")} == {page.as_uri(), library.as_uri()}
    assert page.stat().st_size < 600_000


def test_its_tables_are_sorted_and_filtered(browser: Browser, story: Path) -> None:
    browser.open(write_page(story))
    browser.evaluate("document.querySelector('#series thead th:nth-child(5) button').click()")
    down = read_column(browser, "series", 1)
    browser.evaluate("document.querySelector('#series thead th:nth-child(5) button').click()")
    assert down[-3:] == read_column(browser, "series", 1)[:3] == ["gpu01", "gpu01", "gpu01"]
    browser.evaluate(
        """(() => { const field = document.querySelector("[data-filter=series]");
            field.value = "gpu02"; field.dispatchEvent(new Event("input")); })()"""
    )
    assert read_column(browser, "series", 1) == ["gpu02"] * 3
    assert browser.said == []


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, tmp_path: Path) -> None:
    store_story(tmp_path, 3, kernel=HOSTILE, suite=HOSTILE)
    browser.open(write_page(tmp_path))
    there, drawn = show_charts(browser)
    assert 0 < there == drawn
    assert browser.said == []
    assert browser.evaluate("document.title").startswith("INCIDENT")
    assert browser.evaluate("document.querySelectorAll('img, .chart a, [onerror]').length") == 0
    assert "</script>" in browser.evaluate("document.querySelector('#moved .chart').textContent")
