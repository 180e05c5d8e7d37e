"""`fleet report --html`: where the page is written, and what is said about it."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from fleet.report.html_page import PLOTLY
from fleet.store.reader import StoredRun
from tests.conftest import RunFleet
from tests.report.rich_run import store_rich_run


@pytest.fixture
def stored(workspace: Path) -> StoredRun:
    return store_rich_run(workspace / "reports", 3)


def test_the_page_lies_in_the_runs_directory(stored: StoredRun, workspace: Path, run_fleet: RunFleet) -> None:
    page = stored.path / "report.html"
    page.write_text("an older one")
    done = run_fleet("report", "--html")
    assert (done.returncode, done.stderr) == (0, "")
    assert workspace / done.stdout.strip() == page
    assert page.read_text().endswith("</html>")
    assert stat.S_IMODE(page.stat().st_mode) & 0o600 == 0o600
    assert 'href="hosts/gpu000/host.json"' in page.read_text()
    assert not list(stored.path.glob(".report.html*"))


def test_a_page_elsewhere_leads_back_to_the_run(stored: StoredRun, workspace: Path, run_fleet: RunFleet) -> None:
    (workspace / "out dir").mkdir()
    done = run_fleet("report", stored.plan.run_id, "--html", "--output", "out dir/all.html")
    assert (done.returncode, done.stdout) == (0, "out dir/all.html\n")
    (link,) = set(re.findall(r'href="([^"]*gpu000/host.json)"', (workspace / "out dir/all.html").read_text()))
    assert (workspace / "out dir" / link).resolve() == (stored.path / "hosts/gpu000/host.json").resolve()
    assert not (stored.path / "report.html").exists()


def test_the_library_is_kept_once_for_all_pages(stored: StoredRun, workspace: Path, run_fleet: RunFleet) -> None:
    library = workspace / "reports/assets" / PLOTLY
    assert run_fleet("report", "--html", "--assets", "shared").returncode == 0
    first = library.stat()
    assert run_fleet("report", "--html", "--assets", "shared").returncode == 0
    assert (library.stat().st_ino, library.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert f'data-plotly="../../assets/{PLOTLY}"' in (stored.path / "report.html").read_text()
    library.write_text("damaged")
    assert run_fleet("report", "--html", "--assets", "shared").returncode == 0
    assert library.stat().st_size == first.st_size
    assert len(run_fleet("runs", "--json").stdout.split(stored.plan.run_id)) > 1


def test_it_is_opened_when_asked(stored: StoredRun, workspace: Path, run_fleet: RunFleet) -> None:
    browser = workspace / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{workspace}/opened\n')
    browser.chmod(0o755)
    done = run_fleet("report", "--html", "--open", env={"BROWSER": f"{browser} %s"})
    assert done.returncode == 0, done.stderr
    assert (workspace / "opened").read_text().strip() == (stored.path / "report.html").resolve().as_uri()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--html", "--json"], "Of --json, --csv, --markdown and --html there can be one"),
        (["--open"], "are about an HTML file.*Add --html"),
        (["--output", "x.html"], "are about an HTML file"),
        (["--html", "-o", "nowhere/x.html"], "nowhere/x.html: no such file or directory.*another file with --output"),
        (["--html", "-o", "."], r"\. is a directory.*Name a file in it"),
        (["--html", "--assets", "elsewhere"], "'standalone', 'shared'"),
    ],
)
def test_what_cannot_be_is_said(options: list[str], says: str, stored: StoredRun, run_fleet: RunFleet) -> None:
    done = run_fleet("report", *options)
    assert done.returncode == 2
    assert re.search(says, done.stderr, re.DOTALL | re.IGNORECASE), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
