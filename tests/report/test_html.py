"""The HTML report: what is in the page, and that it is of one piece, small, and inert."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fleet.model.facts import Cpu, Gpu, HostFacts
from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.report.details import build_details
from fleet.report.html import render_html
from fleet.report.html_page import PLOTLY, read_plotly
from fleet.report.view import build_view
from fleet.report.view_model import Found
from fleet.store.reader import StoredRun
from tests.report.rich_run import store_rich_run
from tests.run_builder import Ending, make_cells, make_plan, store_run

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<a href='javascript:document.title=1'>x</a>${1}%{x}{{7*7}}&amp;\u2028'\""
)
SECTIONS = ("standing", "matrix", "batch", "scaling", "precision", "devices", "steps", "energy", "host-list")


def render(run: StoredRun, plotly_href: str | None = None) -> str:
    view = build_view(run)
    return render_html(view, build_details(run, view), plotly_href=plotly_href)


class Outline(HTMLParser):
    """The elements of a page, each with its attributes, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._within = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in self.raw:
            self.raw[self._within][-1] += data


@pytest.fixture(scope="module")
def rich_run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    return store_rich_run(tmp_path_factory.mktemp("rich"), 12)


def test_every_view_is_there_when_there_is_something_to_show(rich_run: StoredRun) -> None:
    page = render(rich_run)
    assert [name for name in SECTIONS if f'<section id="{name}">' in page] == list(SECTIONS)
    assert 'id="omissions"' not in page
    assert page == render(rich_run)
    tables = {attrs["id"] for tag, attrs in Outline(page).elements if tag == "table"}
    assert {
        "matrix-gpu",
        "matrix-cpu",
        "batch-0",
        "scaling-0",
        "precision-gpu",
        "devices-table",
        "energy-gpu",
    } <= tables


def test_what_changed_comes_first(rich_run: StoredRun) -> None:
    view = build_view(rich_run, Found(changes=("gpu001 is <slower>.",)))
    page = render_html(view, build_details(rich_run, view))
    assert "<li>gpu001 is &lt;slower&gt;.</li>" in page
    assert page.index('<section id="changes">') < page.index('<section id="failures">')


def test_what_is_still_to_come_is_no_failure(tmp_path: Path) -> None:
    cells = make_cells()
    page = render(store_run(tmp_path, make_plan({"a": cells, "b": cells}), {"a": Ending()}))

    assert "Still to come: b (" in page
    assert 'id="failures"' not in page


def test_a_view_with_nothing_to_show_is_a_sentence(tmp_path: Path) -> None:
    page = render(store_run(tmp_path, make_plan({"a": make_cells()}), {"a": Ending()}))
    assert [name for name in SECTIONS if f'<section id="{name}">' in page] == ["matrix", "host-list"]
    said = re.findall(r"<li>([^<]*: [^<]*)\.</li>", page)
    assert len(said) == len(SECTIONS) - 2
    assert "Scaling over GPUs: no workload was measured on two numbers of GPUs of one host" in said
    assert len(page) < 100_000  # what draws is left out where nothing is drawn


def test_what_may_run_is_said_by_hash_and_nothing_is_loaded(rich_run: StoredRun) -> None:
    outline = Outline(render(rich_run))
    (policy,) = (attrs["content"] for tag, attrs in outline.elements if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    run = [text for text in outline.raw["script"] if not text.startswith("[")]
    assert len(run) == 2
    for text in [*run, *outline.raw["style"]]:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert not [attrs for _, attrs in outline.elements if "src" in attrs or "style" in attrs]
    assert not [name for _, attrs in outline.elements for name in attrs if name.startswith("on")]
    links = {attrs["href"] for tag, attrs in outline.elements if tag in {"a", "link"}}
    assert all(re.match(r"#|hosts/|data:,$", link or "") for link in links)


def test_one_library_serves_many_pages(rich_run: StoredRun) -> None:
    page = render(rich_run, "../../assets/plotly.js")
    outline = Outline(page)
    assert [attrs["data-plotly"] for tag, attrs in outline.elements if "data-plotly" in attrs] == [
        "../../assets/plotly.js"
    ]
    (policy,) = (attrs["content"] for tag, attrs in outline.elements if "http-equiv" in attrs)
    assert re.search(r"script-src 'sha256-[^ ]*' 'strict-dynamic';", policy or "")
    assert len(page) < 300_000


def test_the_library_is_the_one_that_was_looked_at() -> None:
    content = read_plotly()
    assert hashlib.sha256(content).hexdigest() == PLOTLY_SHA256
    text = content.decode()
    assert f"plotly.js (basic - minified) v{PLOTLY.removeprefix('plotly-basic-').removesuffix('.min.js')}" in text[:80]
    assert "Licensed under the MIT license" in text[:200]
    assert "</script" not in text.lower()
    assert "\r" not in text
    assert not re.search(r"\bnew Function\b|\beval\(", text)


PLOTLY_SHA256 = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"


@pytest.mark.parametrize("hosts", [3, 100, 300])
def test_a_page_is_small_enough(hosts: int, tmp_path: Path) -> None:
    run = store_rich_run(tmp_path, hosts)
    view = build_view(run)
    details = build_details(run, view)
    shared = len(render_html(view, details, plotly_href="../assets/x.js").encode())
    assert len(render_html(view, details).encode()) < 6_000_000
    assert shared < (600_000 if hosts <= 100 else 2_000_000)
    charts = json.loads(Outline(render_html(view, details, plotly_href="x.js")).raw["script"][0])
    assert max(len(chart["data"]) for chart in charts) <= 13  # not a line for each of hundreds


def store_hostile_run(root: Path) -> StoredRun:
    """A run in which every text that a host or an inventory gives is an attack."""
    facts = HostFacts(
        cpu=Cpu(model=HOSTILE, governor=HOSTILE),
        gpus=(Gpu(name=HOSTILE, ecc=HOSTILE),),
        driver=HOSTILE,
        runtime_version=HOSTILE,
        product=HOSTILE,
        os=HOSTILE,
        kernel=HOSTILE,
    )
    cells = tuple(cell.model_copy(update={"model": f"a{HOSTILE}"}) for cell in make_cells("cpu", 2))
    names = [f"host{place}" for place in range(20)]  # so many that charts name them by their hardware
    sizes = tuple(cells[0].model_copy(update={"batch_size": size}) for size in (8, 16))
    plan = make_plan(dict.fromkeys(names, (*cells, *sizes)))
    words = {1: (CellStatus.CRASH, HOSTILE)}
    evil = Ending(facts=facts, tensorflow=HOSTILE, digest=HOSTILE, words=words, status=HostStatus.PARTIAL)
    other = replace(evil, facts=facts.model_copy(update={"cpu": Cpu(model="quiet")}))
    down = Ending(status=HostStatus.FAILED, stage=Stage.RUN, reason=HOSTILE, message=HOSTILE, hint=HOSTILE)
    return store_run(root, plan, {**dict.fromkeys(names, evil), names[1]: other, names[2]: down}, exit_code=3)


def test_hostile_text_makes_no_element_and_ends_no_script(tmp_path: Path) -> None:
    page = render(store_hostile_run(tmp_path))
    outline = Outline(page)
    assert "owned" in page
    assert not [tag for tag, _ in outline.elements if tag in {"img", "iframe", "object", "form"}]
    assert len(outline.raw["script"]) == 3
    assert not [text for text in outline.raw["script"][1:] if "owned" in text]
    data = outline.raw["script"][0]
    assert not re.search("[<>&\u2028\u2029]", data)
    assert "owned" in data
    labels = [trace["name"] for chart in json.loads(data) for trace in chart["data"]]
    assert not [label for label in labels if "<" in label]  # plotly.js would make elements of tags
    assert html.unescape(labels[0]).startswith("1× </script>")
    links = [attrs["href"] for tag, attrs in outline.elements if tag == "a"]
    assert not [link for link in links if not re.match(r"#[a-z]|hosts/[\w%.~/-]+$", link or "")]


def test_any_stored_number_makes_a_page(tmp_path: Path) -> None:
    plan = make_plan(dict.fromkeys("ab", make_cells("cpu", 2)))
    run = store_run(tmp_path, plan, dict.fromkeys("ab", Ending()))
    for value in (1.79e308, -1.79e308, 5e-324, 0.0):
        cells = {
            alias: tuple(
                cell.model_copy(
                    update={
                        "throughput": cell.throughput.model_copy(
                            update={"images_per_s": value, "images_per_s_total": value}
                        )
                    }
                )
                for cell in outcome.cells
                if cell.throughput
            )
            for alias, outcome in run.outcomes.items()
        }
        odd = {"b": run.outcomes["b"].model_copy(update={"cells": cells["b"]})}
        assert "</html>" in render(StoredRun(run.path, run.plan, {**run.outcomes, **odd}, run.summary))


def test_tables_say_what_their_heads_are(rich_run: StoredRun) -> None:
    outline = Outline(render(rich_run))
    heads = [attrs for tag, attrs in outline.elements if tag == "th"]
    assert heads
    assert {attrs.get("scope") for attrs in heads} == {"row", "col"}
    tables = sum(tag == "table" for tag, _ in outline.elements)
    assert tables == sum(tag == "caption" for tag, _ in outline.elements)
    ids = [attrs["id"] for _, attrs in outline.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
