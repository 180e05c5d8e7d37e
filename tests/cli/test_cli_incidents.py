"""From runs to incidents: what a run suspects the next one confirms; what is accepted is the new level."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.model.result import HostStatus, Stage
from tests.conftest import RunFleet
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

CELLS = make_cells(count=2)
NOISE = (0.1, -0.2, 0.2, 0.0, -0.1)
GONE = Ending(status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", facts=None)


def name(day: int) -> str:
    """A month has 28 days here."""
    return f"2026{1 + (day - 1) // 28:02d}{(day - 1) % 28 + 1:02d}T023000Z-n{day:03d}"


def store_nights(root: Path, days: range, slow: float = 1.0, kernel: str = "5.10.0") -> None:
    """cpu01 as ever; cpu02 at that part of its rate, with that kernel."""
    for day in days:
        rate = 100 + NOISE[day % len(NOISE)]
        facts = make_facts().model_copy(update={"kernel": kernel})
        endings = {"cpu01": Ending(rate), "cpu02": Ending(rate * slow, facts=facts)}
        store_run(root, make_plan(dict.fromkeys(endings, CELLS), name(day)), endings)


def test_until_there_are_enough_runs_nothing_is_judged_and_it_is_said(run_fleet: RunFleet, workspace: Path) -> None:
    store_nights(workspace / "reports", range(1, 2))
    first = run_fleet("report")
    assert first.returncode == 0, first.stderr
    assert "learning: 0 of 7 runs; until then nothing can be judged" in first.stdout
    assert "nothing is slower" not in first.stdout

    store_nights(workspace / "reports", range(2, 8), slow=0.9)
    seventh = run_fleet("report")
    assert "learning: 6 of 7 runs" in seventh.stdout
    assert "learning: 0 of 7 runs" in run_fleet("report", name(1)).stdout  # as it was then
    store_nights(workspace / "reports", range(8, 9), slow=0.9)
    assert "nothing is slower than in the runs before, of 4 values judged" in run_fleet("report").stdout


def test_one_run_suspects_and_the_next_confirms(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 11))
    assert run_fleet("report").returncode == 0
    store_nights(reports, range(11, 12), slow=0.9, kernel="6.1.0")
    suspected = run_fleet("report")
    assert suspected.returncode == 0
    assert re.search(r"suspicion: cpu02 \S+ −\d+\.\d % and 1 more cell, for the next run to confirm", suspected.stdout)
    assert run_fleet("report").stdout == suspected.stdout  # judged once, told the same
    assert "▼" not in run_fleet("incidents").stdout

    # What was another suite's to measure between the two is no reason.
    other = make_plan({"cpu02": CELLS}, "20260111T120000Z-othr").model_copy(update={"suite": "smoke"})
    store_run(reports, other, {"cpu02": Ending(90)})
    store_nights(reports, range(12, 13), slow=0.9, kernel="6.1.0")
    confirmed = run_fleet("report")
    assert confirmed.returncode == 5
    found = re.search(r"incident (\w{8}): kernel 5.10.0 → 6.1.0: cpu02 \S+ −\d+\.\d % and 1 more", confirmed.stdout)
    assert found, confirmed.stdout
    assert "suspicion" not in confirmed.stdout
    document = json.loads(run_fleet("incidents", "--json").stdout)
    (line,) = document["incidents"]
    assert (line["id"], line["state"], line["opened"], line["covers"]) == (found[1], "open", name(12), 1)
    assert line["change"] == pytest.approx(1 / 0.9 - 1, abs=0.005)

    reindexed = run_fleet("reindex")
    assert reindexed.returncode == 0
    assert json.loads(run_fleet("incidents", "--json").stdout) == document


def test_what_was_found_in_an_older_run_is_still_told(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 11))
    store_nights(reports, range(11, 13), slow=0.9, kernel="6.1.0")
    store_nights(reports, range(13, 14))
    last = run_fleet("report", "--json")
    # cpu02 is as it was, and the incident is not over.
    assert (last.returncode, json.loads(last.stdout)["verdict"]["word"]) == (5, "REGRESSION")
    assert '"slower": true' not in last.stdout
    confirmed = run_fleet("report", name(12))
    assert confirmed.returncode == 5
    head = "✖ REGRESSION  2/2 hosts, 4/4 cells · slower than before: kernel 5.10.0 → 6.1.0"
    assert " ".join(confirmed.stdout.split()).startswith(" ".join(head.split()))
    assert "confirmed by run" in confirmed.stdout and len(re.findall(r"\d↓", confirmed.stdout)) == 2
    suspected = run_fleet("report", name(11))
    assert (suspected.returncode, suspected.stdout[:4]) == (0, "✔ OK")
    assert "suspicion: cpu02" in suspected.stdout
    listed = {run["run_id"]: run["exit_code"] for run in json.loads(run_fleet("runs", "--json").stdout)["runs"]}
    assert [listed[name(day)] for day in (10, 11, 12, 13)] == [0, 0, 5, 5]
    assert re.search(r"^ended .*, exit 5$", run_fleet("runs", "show", name(12)).stdout, re.MULTILINE)
    assert run_fleet("runs", "export", "--parquet", "all.parquet").returncode == 0
    rows = pq.read_table(workspace / "all.parquet").to_pylist()
    assert {row["run_id"] for row in rows if row["exit_code"] == 5} == {name(12), name(13)}


def test_a_run_that_was_still_learning_has_suspected_nothing(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 7))
    store_nights(reports, range(7, 8), slow=0.7)  # the last one that nobody can judge
    store_nights(reports, range(8, 9), slow=0.12)
    suspected = run_fleet("report")
    assert suspected.returncode == 0
    assert re.search(r"suspicion: cpu02 \S+ −8\d\.\d % and 1 more cell, for the next run to confirm", suspected.stdout)
    store_nights(reports, range(9, 10), slow=0.12)
    assert run_fleet("report").returncode == 5
    (line,) = json.loads(run_fleet("incidents", "--json").stdout)["incidents"]
    assert line["opened"] == name(9)


def test_what_is_accepted_is_the_level_to_compare_with(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 11))
    store_nights(reports, range(11, 14), slow=0.9)
    (line,) = json.loads(run_fleet("incidents", "--json").stdout)["incidents"]
    assert run_fleet("baseline", "accept", line["id"]).returncode == 2
    wrong = run_fleet("baseline", "accept", "ffffffff", "--reason", "x")
    assert (wrong.returncode, wrong.stdout) == (6, "")
    assert "no open incident is named 'ffffffff'" in wrong.stderr
    accepted = run_fleet("baseline", "accept", line["id"], "--reason", "new BIOS")
    assert accepted.returncode == 0, accepted.stderr
    assert "2 incidents accepted" in accepted.stdout
    accepted_now = run_fleet("report")
    assert accepted_now.returncode == 0
    assert f"confirmed by run {name(12)}, accepted: new BIOS" in accepted_now.stdout
    assert run_fleet("report", name(12)).stdout.startswith("✔ OK ")

    store_nights(reports, range(14, 15), slow=0.9)
    after = run_fleet("report")
    assert after.returncode == 0
    assert "nothing is slower than in the runs before, of 4 values judged" in after.stdout
    listed = run_fleet("incidents", "--all").stdout
    assert re.search(r"✔ \w{8}  accepted  cpu02", listed)
    assert "because: new BIOS" in listed


def test_an_incident_that_is_over_is_resolved_after_three_good_runs(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 11))
    store_nights(reports, range(11, 13), slow=0.9)
    store_nights(reports, range(13, 15))
    assert run_fleet("report").returncode == 5
    store_nights(reports, range(15, 16))
    assert run_fleet("report").returncode == 0
    (line,) = json.loads(run_fleet("incidents", "--all", "--json").stdout)["incidents"]
    assert (line["state"], line["ended"]) == ("resolved", name(15))


def test_drift_from_a_pinned_run_is_found(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    store_nights(reports, range(1, 9))
    assert "no run is pinned" in run_fleet("baseline", "show").stdout
    assert run_fleet("baseline", "set", name(1), "--reason", "as delivered").returncode == 0
    assert f"pinned: run {name(1)} for all hosts, all cells: as delivered" in run_fleet("baseline", "show").stdout
    for day in range(9, 43):  # 0.2 % a night: the rolling baseline follows, and never finds it
        store_nights(reports, range(day, day + 1), slow=1 - 0.002 * (day - 8))
    done = run_fleet("incidents", "--json")
    (line,) = json.loads(done.stdout)["incidents"]
    assert (line["name"], line["state"]) == ("cpu02", "open")
    assert run_fleet("report").returncode == 5


def test_what_cannot_be_judged_is_never_fine(run_fleet: RunFleet, workspace: Path) -> None:
    for command in (["incidents"], ["baseline", "show"], ["baseline", "set", name(1)]):
        empty = run_fleet(*command)
        assert (empty.returncode, empty.stdout) == (2, ""), command
        assert re.search("there are no runs yet|there is no run", empty.stderr)

    reports = workspace / "reports"
    store_run(reports, make_plan({"cpu01": CELLS}, name(1)), {"cpu01": GONE}, exit_code=6)
    assert "nothing was measured, so nothing was judged" in run_fleet("report").stdout
    pinned = run_fleet("baseline", "set", name(1))
    assert (pinned.returncode, pinned.stdout) == (6, "")
    assert "has measured nothing" in pinned.stderr

    store_nights(reports, range(2, 5))
    (reports / "runs" / name(3) / "plan.json").write_text("{")
    damaged = run_fleet("incidents")
    assert damaged.returncode == 0
    assert "learning: 1 of 7 runs" in damaged.stdout
    assert "plan.json cannot be read" in damaged.stderr


def test_a_level_of_nothing_is_no_level(run_fleet: RunFleet, workspace: Path) -> None:
    reports = workspace / "reports"
    for day in range(1, 10):
        endings = {"cpu01": Ending(1e12 if day < 9 else 100)}  # steps of 0 ns, as the index keeps them
        store_run(reports, make_plan({"cpu01": CELLS}, name(day)), endings)
    done = run_fleet("report")

    assert done.returncode == 0
    assert "learning: 0 of 7 runs" in done.stdout
    assert done.stderr == ""
