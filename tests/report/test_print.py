"""The pages on paper: printed by a real Chromium, in landscape, whole, and in light colours."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.report import test_html_browser, trend_pages
from tests.report.rich_run import store_rich_run

pytestmark = pytest.mark.needs("chromium")

SHEET = 1047
"""A4 in landscape without its margins, in pixels of CSS."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        opened.resize(1440)
        yield opened


@pytest.fixture(scope="module", params=["report", "trend"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(request.param)
    if request.param == "report":
        return test_html_browser.write_page(store_rich_run(root, 12))
    trend_pages.store_story(root, 4)
    return trend_pages.write_page(root)


def count_sheets(browser: Browser) -> int:
    printed = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert printed.startswith(b"%PDF")
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed + b"".join(_unpack(printed)))
    assert boxes
    assert all(float(width) > float(height) for width, height in boxes)
    return len(boxes)


def _unpack(printed: bytes) -> Iterator[bytes]:
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", printed, re.DOTALL):
        try:
            yield zlib.decompress(stream)
        except zlib.error:
            continue


def test_every_chart_is_drawn_in_light_colours_and_the_page_is_as_before_after_it(browser: Browser, page: Path) -> None:
    browser.prefer("dark")
    browser.open(page)
    browser.evaluate("document.querySelector('.chart').scrollIntoView()")
    browser.settle()
    browser.settle()
    texts = "[...document.querySelectorAll('.chart .xtick text')]"
    fills = f"[...new Set({texts}.map((text) => getComputedStyle(text).fill))]"
    widths = "[...document.querySelectorAll('.chart .main-svg:first-child')].map((svg) => svg.clientWidth)"
    before = browser.evaluate(widths)
    browser.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = [{fills}, {widths}]; }})")
    assert count_sheets(browser) > 2
    colours, wide = browser.evaluate("window.printed")
    assert colours == ["rgb(27, 31, 36)"]
    assert len(wide) == browser.evaluate("document.querySelectorAll('.chart').length")
    assert max(wide) <= SHEET
    browser.settle()
    assert browser.evaluate(fills) == ["rgb(228, 232, 237)"]
    assert browser.evaluate(widths)[0] == before[0]
    assert browser.said == []


def test_no_table_is_wider_than_the_sheet(browser: Browser, page: Path) -> None:
    browser.prefer("light")
    browser.resize(SHEET)
    browser.open(page)
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.settle()
    edges = "[...document.querySelectorAll('table')].map((table) => table.getBoundingClientRect().right)"
    wide = browser.evaluate(edges)
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.resize(1440)
    assert max(wide) <= SHEET + 1


def test_hundreds_of_hosts_are_printed_as_they_are_unfolded(browser: Browser, tmp_path: Path) -> None:
    browser.open(test_html_browser.write_page(store_rich_run(tmp_path, 40)))
    seen = "[...document.querySelectorAll('details.host dl')].filter((each) => each.checkVisibility()).length"
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate(seen) == 0
    browser.evaluate("document.querySelector('details.host').open = true")
    assert browser.evaluate(seen) == 1
    browser.call("Emulation.setEmulatedMedia", media="")
