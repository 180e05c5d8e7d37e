"""`fleet report` and `fleet runs`: what is there, said the same way every time."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleet.model.result import HostStatus, Stage
from tests.conftest import ROOT, RunFleet
from tests.run_builder import Ending, make_cells, make_plan, store_run

RunShell = Callable[[str], subprocess.CompletedProcess[str]]

OLD, NEW = "20260101T023000Z-k3x9", "20260102T023000Z-a1b2"
REFERENCE = "reference:rtx3090-ngc-20.10"


@pytest.fixture
def stored(workspace: Path) -> Path:
    """Two complete runs, of which the newer one has a failed host."""
    failed = Ending(
        status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", message="It refused.", hint="Start sshd."
    )
    hosts = {"cpu01": make_cells(), "cpu02": make_cells()}
    store_run(workspace / "reports", make_plan(hosts, OLD), {"cpu01": Ending(), "cpu02": Ending(rate=90)})
    store_run(workspace / "reports", make_plan(hosts, NEW), {"cpu01": Ending(), "cpu02": failed}, exit_code=4)
    return workspace


def test_without_runs_there_is_a_next_step(run_fleet: RunFleet) -> None:
    report, runs = run_fleet("report"), run_fleet("runs")

    assert report.returncode == 2
    assert "reports: there are no runs yet in the current directory, " in report.stderr
    assert re.search("fleet run -i INVENTORY.*--reports", report.stderr)
    assert runs.returncode == 0
    assert "fleet run -i INVENTORY" in runs.stdout
    assert json.loads(run_fleet("runs", "--json").stdout)["runs"] == []


def test_the_last_run_is_shown_or_any_other(stored: Path, run_fleet: RunFleet) -> None:
    last, other = run_fleet("report"), run_fleet("report", OLD[:8])

    assert (last.returncode, other.returncode) == (0, 0)
    assert f"run {NEW}" in last.stdout
    assert "1/2 hosts, 3/6 cells" in last.stdout
    assert "Start sshd." in last.stdout
    assert f"run {OLD}" in other.stdout
    assert last.stderr == other.stderr == ""


@pytest.mark.parametrize(
    ("run_id", "says"),
    [
        ("20250101T000000Z-aaaa", "there is no run '20250101T000000Z-aaaa'.*fleet runs"),
        ("2026", f"2 runs begin with '2026': {NEW}, {OLD}.*Write more"),
        ("../reports", r"there is no run '\.\./reports'"),
        ("", "argument 2 is empty"),
    ],
)
def test_a_run_that_is_not_there(run_id: str, says: str, stored: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("report", run_id)

    assert done.returncode == 2
    assert re.search(says, done.stderr, re.DOTALL), done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_damaged_run_is_listed_and_said_so(stored: Path, run_fleet: RunFleet) -> None:
    (stored / "reports" / "runs" / OLD / "plan.json").write_text("{")
    report, runs = run_fleet("report", OLD), run_fleet("runs")

    assert report.returncode == 2
    assert re.search(r"plan\.json cannot be read: Invalid JSON", report.stderr)
    assert "Traceback" not in report.stderr
    assert runs.returncode == 0
    assert re.search(f"{NEW}.*\n.*{OLD}.*damaged", runs.stdout)


def test_json_is_the_same_bytes_every_time_and_for_every_program(stored: Path, run_fleet: RunFleet) -> None:
    for arguments in (["report", "--json"], ["report", OLD, "--json"], ["runs", "--json"]):
        first = run_fleet(*arguments)
        again = run_fleet(*arguments, env={"PYTHONHASHSEED": "7", "LC_ALL": "C", "COLUMNS": "20", "TZ": "Asia/Tokyo"})
        assert first.returncode == 0, first.stderr
        assert first.stdout == again.stdout
        assert first.stdout.isascii()
        piped = subprocess.run([sys.executable, "-m", "json.tool"], input=first.stdout, capture_output=True, text=True)
        assert piped.returncode == 0, piped.stderr


def test_runs_are_listed_newest_first(stored: Path, run_fleet: RunFleet) -> None:
    listed = run_fleet("runs", env={"COLUMNS": "80"}).stdout

    assert re.search(rf"{NEW} .*quick .*1/2 .*3/6 .*exit 4\s*\n{OLD} .*2/2 .*6/6 .*exit 0", listed), listed
    assert [run["run_id"] for run in json.loads(run_fleet("runs", "--json").stdout)["runs"]] == [NEW, OLD]


def test_a_pipe_gets_no_escape_codes(stored: Path, run_fleet: RunFleet) -> None:
    assert "\x1b" not in run_fleet("report", env={"TERM": "xterm-256color"}).stdout
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[" in run_fleet("report", env=forced).stdout
    colours = re.findall(r"\x1b\[([0-9;]*)m", run_fleet("report", env={**forced, "NO_COLOR": "1"}).stdout)
    assert not [code for part in colours for code in part.split(";") if code not in {"", "0", "1", "2"}]


COMMANDS = ["report", "report --json", "runs", "runs --json", "--help"]


@pytest.fixture(params=["buffered", "unbuffered"])
def run_shell(request: pytest.FixtureRequest, stored: Path, isolated_home: Path) -> RunShell:
    """A line of bash in which $FLEET is fleet; Python flushes stdout at its end or at every write."""

    def run(line: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLEET": f"{sys.executable} -m fleet"}
        environment["PYTHONUNBUFFERED"] = "1" if request.param == "unbuffered" else ""
        argv = ["bash", "-o", "pipefail", "-c", line]
        return subprocess.run(argv, cwd=stored, env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_leaves_is_no_fault(command: str, run_shell: RunShell) -> None:
    gone = run_shell(f"$FLEET {command} | true")  # true has left long before fleet has something to say
    early = run_shell(f"$FLEET {command} | head -1")

    assert (gone.returncode, gone.stderr) == (0, "")
    assert (early.returncode, early.stderr) == (0, "")
    assert early.stdout.count("\n") == 1


def test_a_terminal_that_is_closed_is_no_fault(isolated_home: Path) -> None:
    master, terminal = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(isolated_home), "PYTHONPATH": str(ROOT)}
    # A shell waits until nobody looks any more, and a terminal's hanging up must not end it before.
    waits = ["sh", "-c", 'trap "" HUP; read line; exec "$@"', "sh", sys.executable, "-m", "fleet", "models"]
    process = subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=terminal, stderr=subprocess.PIPE, env=env)
    os.close(terminal)
    os.close(master)
    _, err = process.communicate(b"\n", timeout=60)

    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("command", ["report", "runs --json", "--help"])
@pytest.mark.parametrize(("where", "says"), [("/dev/full", "no space left on device"), ("&-", "is closed")])
def test_a_stdout_that_takes_nothing_is_a_sentence(command: str, where: str, says: str, run_shell: RunShell) -> None:
    if where == "/dev/full" and not Path(where).exists():
        pytest.skip("this system has no /dev/full")
    done = run_shell(f"$FLEET {command} >{where}")

    assert done.returncode == 1
    assert re.fullmatch(f"fleet: standard output .*{says}.\n .*\n", done.stderr), done.stderr


def test_without_stderr_and_stdin_the_deliverable_is_the_same(run_shell: RunShell) -> None:
    assert run_shell("$FLEET report 2>&- <&-").stdout == run_shell("$FLEET report").stdout != ""
    assert run_shell("$FLEET report nothing 2>&- <&-").returncode == 2
    assert run_shell("$FLEET runs 2>&1 >/dev/full | true").returncode == 1
    assert run_shell("$FLEET report nothing 2>/dev/full").returncode == 2


def test_a_run_is_found_by_its_directory(stored: Path, run_fleet: RunFleet) -> None:
    (stored / "kept").mkdir()
    (stored / "kept" / OLD).symlink_to(stored / "reports" / "runs" / OLD)
    for name, run_id in (("reports/latest", NEW), (f"reports/runs/{OLD}/", OLD), (f"./kept/{OLD}", OLD)):
        assert f"run {run_id}" in run_fleet("report", name, "--reports", "elsewhere").stdout
    other = run_fleet("report", "reports/runs")
    assert (other.returncode, "there is no run 'reports/runs'" in other.stderr) == (2, True)


@pytest.mark.parametrize("columns", ["0", "1", "²", "-5", ""])
def test_a_width_in_which_nothing_can_be_drawn_is_not_taken(columns: str, stored: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("report", env={"COLUMNS": columns})

    assert done.returncode == 0, done.stderr
    assert "hosts" in done.stdout
    assert done.stdout == run_fleet("report", env={"COLUMNS": "200"}).stdout


def test_runs_and_hosts_are_compared(stored: Path, run_fleet: RunFleet) -> None:
    runs, hosts = run_fleet("compare", OLD, "last"), run_fleet("compare", OLD[:8], "--hosts", "cpu01,cpu02", "--json")

    assert (runs.returncode, hosts.returncode) == (0, 0)
    assert runs.stdout.startswith("SAME  1 times as fast")
    assert json.loads(hosts.stdout)["hosts"][0]["speed"] == pytest.approx(0.9)
    assert runs.stderr == hosts.stderr == ""


def test_words_stand_for_runs(stored: Path, run_fleet: RunFleet) -> None:
    assert run_fleet("baseline", "set", OLD).returncode == 0
    pinned = run_fleet("compare", "baseline", "last")
    assert pinned.returncode == 0, pinned.stderr
    assert pinned.stdout == run_fleet("compare", OLD, "last").stdout
    assert run_fleet("compare", "last", "baseline").stdout == run_fleet("compare", NEW, OLD).stdout
    figures = [run_fleet("compare", *sides) for sides in (("last", REFERENCE), (REFERENCE, "last"))]
    assert figures[0].stdout == figures[1].stdout != ""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("baseline", "last"), 6, "no run is pinned as the baseline"),
        ((REFERENCE,), 2, f"Name one: fleet compare last {REFERENCE}"),
        ((REFERENCE, REFERENCE), 2, "published figures are compared with a run"),
        (("last",), 2, "nothing to compare the run with"),
        (("last", "--hosts", "cpu01"), 2, "--hosts names two hosts"),
        (("last", "--hosts", "cpu01,cpu09"), 6, f"run {NEW} has no host cpu09"),
        (("last", "reference:nothing"), 2, "There are: rtx3090-ngc-20.10"),
        (("last", REFERENCE, "--hosts", "a,b"), 2, "do not go together"),
        (("last", "nothing"), 2, "there is no run 'nothing'"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_compared_is_a_sentence(
    stored: Path, run_fleet: RunFleet, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = run_fleet("compare", *arguments)

    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_a_report_for_programs(stored: Path, run_fleet: RunFleet) -> None:
    table = run_fleet("report", "--csv", "--junit", "report.xml", "--prometheus", "fleet.prom")
    text = run_fleet("report", OLD[:8], "--markdown")

    assert (table.returncode, text.returncode) == (0, 0)
    assert len(table.stdout.splitlines()) == 7
    assert ElementTree.parse(stored / "report.xml").getroot().get("errors") == "3"
    assert 'fleet_run_exit_code{suite="quick"} 4' in (stored / "fleet.prom").read_text()
    assert (stored / "fleet.prom").stat().st_mode & 0o777 == 0o644
    assert text.stdout.startswith("## ✔ OK: 2/2 hosts")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--csv", "--markdown"), "there can be one"),
        (("--junit", "."), "is no regular file"),
        (("--prometheus", "no/such/place"), "No such file or directory"),
        (("--html", "--junit", "x"), "do not go with --html"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_report_that_cannot_be_put_out_is_a_sentence(
    stored: Path, run_fleet: RunFleet, arguments: tuple[str, ...], says: str
) -> None:
    done = run_fleet("report", *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
