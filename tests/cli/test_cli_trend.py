"""`fleet trend`: nights of stored runs as curves, with what changed on the way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.model.result import HostStatus, Stage
from tests.conftest import ROOT, RunFleet
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

CELLS = make_cells(count=2)
NOISE = (0.1, -0.2, 0.2, 0.0, -0.1)


def night(day: int) -> str:
    return f"202601{day:02d}T023000Z-n{day:03d}"


def store_nights(root: Path, count: int, drop_from: int = 99, drop: float = 0.9) -> None:
    """cpu01 as ever; cpu02 by `drop` slower, with another kernel, from a night on."""
    for day in range(1, count + 1):
        rate = 100 + NOISE[day % len(NOISE)]
        late = day >= drop_from
        facts = make_facts().model_copy(update={"kernel": "6.1.0" if late else "5.10.0"})
        endings = {"cpu01": Ending(rate), "cpu02": Ending(rate * (drop if late else 1), facts=facts)}
        store_run(root, make_plan(dict.fromkeys(endings, CELLS), night(day)), endings)


def test_a_step_shows_with_its_change_its_level_and_what_changed(run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", 20, drop_from=15)
    shown = run_fleet("trend")

    assert shown.returncode == 0, shown.stderr
    assert "Suite quick, 20 runs" in shown.stdout
    flat, step = (re.search(rf"{host} .*", shown.stdout) for host in ("cpu01", "cpu02"))
    assert flat and step
    assert re.search(r"cpu01 +[▇█▆]{20} +66\.\d +[+−]0\.\d % ", flat[0]), flat[0]
    fallen = r"cpu02 +[▇█▆]{14}│▁{6} +60\.1 +▼ −9\.9 % .*−10\.0 % from 20260115 on"
    assert re.search(fallen, step[0]), step[0]
    assert f"│ {night(15)}  cpu02: kernel 5.10.0 → 6.1.0" in shown.stdout

    document = json.loads(run_fleet("trend", "--json", "--host", "cpu02", "--model", "resnet50").stdout)
    (line, _) = document["lines"]
    assert document["schema"] == "fleet.trend/1"
    assert {line["host"] for line in document["lines"]} == {"cpu02"}
    assert line["levels"][0]["run_id"] == night(15)
    assert line["levels"][0]["change"] == pytest.approx(-0.1, abs=0.003)
    assert line["detectable"] < -0.05
    assert document["marks"] == [{"run_id": night(15), "host": "cpu02", "changes": ["kernel 5.10.0 → 6.1.0"]}]


def test_what_is_an_open_incident_is_no_level_to_compare_with(run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", 28, drop_from=9)
    lines = json.loads(run_fleet("trend", "--json", "--host", "cpu02").stdout)["lines"]

    # The median of the last fourteen runs is the fallen level itself.
    assert [line["word"] for line in lines] == ["slower", "slower"]
    assert [line["change"] for line in lines] == pytest.approx([-0.1, -0.1], abs=0.005)


def test_one_run_is_learning_and_ascii_will_do(run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", 1)
    shown = run_fleet("trend", env={"PYTHONIOENCODING": "ascii"})

    assert shown.returncode == 0
    assert shown.stdout.isascii()
    assert "learning: 0 of 7" in shown.stdout


def test_what_there_is_not_is_a_sentence(run_fleet: RunFleet, workspace: Path) -> None:
    empty = run_fleet("trend")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "there are no runs yet" in empty.stderr

    gone = Ending(status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", facts=None)
    store_run(workspace / "reports", make_plan({"cpu01": CELLS}, night(1)), {"cpu01": gone}, exit_code=6)
    failed = run_fleet("trend")
    assert (failed.returncode, failed.stdout) == (6, "")
    assert "the runs of suite quick have measured nothing" in failed.stderr

    store_nights(workspace / "reports2", 2)
    (workspace / "reports2" / "runs" / night(1) / "plan.json").write_text("{")
    for arguments, says in (
        (("--host", "cpu09"), "have measured nothing on cpu09"),
        (("--suite", "full"), "no complete run is of suite full"),
    ):
        none = run_fleet("trend", "--reports", "reports2", *arguments)
        assert (none.returncode, none.stdout) == (6, "")
        assert says in none.stderr
    rest = run_fleet("trend", "--reports", "reports2")
    assert rest.returncode == 0
    assert "Suite quick, 1 run\n" in rest.stdout
    assert "plan.json cannot be read" in rest.stderr


def test_a_long_list_is_paged_on_a_terminal_only(workspace: Path, run_fleet: RunFleet) -> None:
    store_nights(workspace / "reports", 2)
    pager = {"PAGER": "sed s/^/paged:/", "TERM": "xterm", "LINES": "3", "COLUMNS": "120"}
    fleet = f"{sys.executable} -m fleet trend"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **pager}
    script = ["script", "--quiet", "--return", "--command", fleet, "/dev/null"]
    on_terminal = subprocess.run(script, cwd=workspace, env=environment, capture_output=True, text=True, timeout=60)

    assert on_terminal.returncode == 0
    assert re.search("paged:.*cpu01", on_terminal.stdout)
    assert "paged:" not in run_fleet("trend", env=pager).stdout


def test_a_page_of_it_lies_beside_the_runs_or_where_one_wants(run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", 20, drop_from=15)
    done = run_fleet("trend", "--html")
    assert (done.returncode, done.stdout) == (0, "reports/trend.html\n")
    assert "INCIDENT" in (workspace / "reports" / "trend.html").read_text()[:2000]
    other = run_fleet("trend", "--html", "--host", "cpu01", "-o", "cpu01.html", "--assets", "shared")
    assert (other.returncode, other.stdout) == (0, "cpu01.html\n")
    assert 'data-plotly="reports/assets/' in (workspace / "cpu01.html").read_text()
    assert len(run_fleet("runs").stdout.splitlines()) > 20  # and is in nobody's way there


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--html", "--json"], "Of --json and --html there can be one"),
        (["--open"], "are about an HTML file.*Add --html"),
        (["--html", "-o", "."], r"\. is a directory"),
        (["--html", "-o", "nowhere/x.html"], "no such file or directory.*another file with --output"),
    ],
)
def test_what_no_page_can_be_is_a_sentence(options: list[str], says: str, run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", 1)
    done = run_fleet("trend", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(says, done.stderr, re.DOTALL | re.IGNORECASE), done.stderr
    assert "Traceback" not in done.stderr
