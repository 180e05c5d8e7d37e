"""The HTML report in a real Chromium, opened as a file, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.report.details import build_details
from fleet.report.html import render_html
from fleet.report.html_page import PLOTLY, read_plotly
from fleet.report.view import build_view
from fleet.store.reader import StoredRun
from tests.browser import Browser
from tests.report.rich_run import store_rich_run
from tests.report.test_html import store_hostile_run

pytestmark = pytest.mark.needs("chromium")


def write_page(run: StoredRun, plotly_href: str | None = None) -> Path:
    view = build_view(run)
    page = run.path / "report.html"
    page.write_text(render_html(view, build_details(run, view), plotly_href=plotly_href), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def shown(browser: Browser) -> Browser:
    """The browser as if new: wide, light, with scripts."""
    browser.resize(1440)
    browser.prefer("light")
    browser.allow_scripts(True)
    return browser


@pytest.fixture(scope="module")
def rich_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(store_rich_run(tmp_path_factory.mktemp("rich"), 12))


def show_charts(browser: Browser) -> list[int]:
    """Scroll through the whole page; how many charts there are, and how many are drawn."""
    browser.evaluate(
        """(async () => { for (const chart of document.querySelectorAll(".chart")) {
             chart.scrollIntoView(); await new Promise((done) => setTimeout(done, 60)); } })()"""
    )
    browser.settle()
    counts: list[int] = browser.evaluate(
        "[document.querySelectorAll('.chart').length, document.querySelectorAll('.chart .main-svg:first-child').length]"
    )
    return counts


def read_column(browser: Browser, table: str, place: int) -> list[str]:
    """The first line of each row that is shown."""
    texts: list[str] = browser.evaluate(
        f"""[...document.getElementById("{table}").tBodies[0].rows].filter((row) => !row.hidden)
            .map((row) => row.cells[{place}].firstChild.textContent)"""
    )
    return texts


def test_it_opens_without_a_word_and_asks_for_nothing(shown: Browser, rich_page: Path) -> None:
    shown.open(rich_page)
    there, drawn = show_charts(shown)
    assert (there, drawn) == (there, there)
    assert there > 15
    shown.prefer("dark")
    shown.settle()
    assert shown.said == []
    assert [url for url in shown.asked if not url.startswith("data:")] == [rich_page.as_uri()]


def test_charts_follow_the_colours_of_the_page(shown: Browser, rich_page: Path) -> None:
    shown.open(rich_page)
    shown.evaluate("document.querySelector('.chart').scrollIntoView()")
    shown.settle()
    shown.settle()
    find = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    light = shown.evaluate(find)
    shown.prefer("dark")
    shown.settle()
    shown.settle()
    assert (light, shown.evaluate(find)) == ("rgb(27, 31, 36)", "rgb(228, 232, 237)")


def test_hostile_text_is_shown_and_does_nothing(shown: Browser, tmp_path: Path) -> None:
    shown.open(write_page(store_hostile_run(tmp_path)))
    there, drawn = show_charts(shown)
    assert 0 < there == drawn
    shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    shown.settle()
    assert shown.said == []
    assert "owned" not in shown.evaluate("document.title")
    assert shown.evaluate("document.querySelectorAll('img, .chart a, [onerror]').length") == 0
    assert "</script><script>document" in shown.evaluate("document.querySelector('.chart').textContent")


def test_tables_are_sorted_from_the_keyboard(shown: Browser, rich_page: Path) -> None:
    shown.open(rich_page)
    before = read_column(shown, "matrix-gpu", 1)
    shown.evaluate("document.querySelector('#matrix-gpu thead th:nth-child(2) a').focus()")
    shown.press("Tab")
    shown.press("Enter", "\r")
    down = read_column(shown, "matrix-gpu", 1)
    shown.press("Enter", "\r")
    up = read_column(shown, "matrix-gpu", 1)
    shown.press("Enter", "\r")

    def read(texts: list[str]) -> list[float]:
        return [float(text.strip("★ ~!").replace(",", "")) for text in texts if "OOM" not in text]

    assert read(down) == sorted(read(before), reverse=True)
    assert read(up) == sorted(read(before))
    assert [("OOM" in text) for text in down] == [("OOM" in text) for text in up]  # last, whichever way
    assert read_column(shown, "matrix-gpu", 1) == before
    assert shown.evaluate("document.querySelector('#matrix-gpu thead th:nth-child(2)').ariaSort") == "none"


def test_tables_are_filtered_and_the_hosts_below_with_them(shown: Browser, rich_page: Path) -> None:
    shown.open(rich_page)
    type_words = """(table, words) => { const field = document.querySelector(`[data-filter=${table}]`);
        field.value = words; field.dispatchEvent(new Event("input")); return field.closest("p").innerText; }"""
    assert "1 of 28" in shown.evaluate(f"({type_words})('matrix-gpu', 'VGG16 fp32 64')")
    assert read_column(shown, "matrix-gpu", 0) == ["vgg16"]
    shown.evaluate(f"({type_words})('hosts', 'cpu epyc')")
    assert read_column(shown, "hosts", 0) == ["cpu003", "cpu007", "cpu011"]
    count = "[...document.querySelectorAll('details.host')].filter((each) => !each.hidden).length"
    assert shown.evaluate(count) == 3
    shown.evaluate(f"({type_words})('hosts', '')")
    assert shown.evaluate(count) == 12


def test_a_link_to_a_host_opens_its_section(shown: Browser, rich_page: Path) -> None:
    shown.open(rich_page, "#host-5")
    assert shown.evaluate("document.getElementById('host-5').open")
    assert "crash" in shown.evaluate("document.getElementById('host-5').innerText")
    shown.evaluate("document.querySelector('#matrix-gpu thead a').click()")
    shown.settle()
    assert shown.evaluate("[...document.querySelectorAll('details.host')].map((each) => each.open)")[:2] == [
        True,
        False,
    ]
    links: list[str] = shown.evaluate("[...document.querySelectorAll('#host-0 a')].map((each) => each.pathname)")
    assert [Path(link).name for link in links] == ["000.json", "host.json", "log"]
    assert all(Path(link).is_file() for link in links)


def test_without_scripts_every_table_is_there(shown: Browser, rich_page: Path) -> None:
    shown.allow_scripts(False)
    shown.open(rich_page)
    assert read_column(shown, "matrix-cpu", 1)
    sizes = "[...document.querySelectorAll('table')].map((table) => table.tBodies[0].rows.length)"
    assert min(shown.evaluate(sizes)) > 0
    seen = "[...document.querySelectorAll('{}')].filter((each) => each.checkVisibility()).length"
    assert shown.evaluate(seen.format("figure, .filter, thead button")) == 0
    # What a chart would have drawn is not folded away.
    assert shown.evaluate(seen.format("#batch table")) == shown.evaluate(
        "document.querySelectorAll('#batch table').length"
    )
    assert shown.said == []


@pytest.mark.parametrize("width", [1440, 400])
def test_it_fits_the_window(width: int, shown: Browser, rich_page: Path) -> None:
    shown.resize(width)
    shown.open(rich_page)
    show_charts(shown)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_one_library_beside_many_pages(shown: Browser, tmp_path: Path) -> None:
    run = store_rich_run(tmp_path, 3)
    (tmp_path / "assets").mkdir()
    library = tmp_path / "assets" / PLOTLY
    library.write_bytes(read_plotly())
    page = write_page(run, f"../../assets/{PLOTLY}")
    shown.open(page)
    there, drawn = show_charts(shown)
    assert 0 < there == drawn
    assert shown.said == []
    assert {url for url in shown.asked if not url.startswith("data:")} == {page.as_uri(), library.as_uri()}

    library.unlink()
    shown.open(page)
    assert shown.evaluate("[...document.querySelectorAll('figure')].some((each) => each.checkVisibility())") is False
    assert shown.evaluate("document.querySelector('#batch table').checkVisibility()")
