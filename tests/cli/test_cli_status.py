"""`fleet status`: what its own log says of a run that goes on, and what hosts say of one that nobody follows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.host.framing import Shell
from fleet.host.probe import probe_host
from fleet.model.event import HostNotice, HostProgress, HostStage
from fleet.model.inventory import Connection, Settings
from fleet.model.plan import Plan
from fleet.model.result import HostStatus, Stage
from fleet.store.rundir import Store
from fleet.store.writer import RunWriter
from fleet.transport.open import open_transport
from fleet.transport.passwords import NO_PASSWORDS
from tests.conftest import RunFleet
from tests.run_builder import RUN_ID, Ending, make_cells, make_plan, store_run

CELLS = make_cells()
HOLDER = "it is being measured by you@there (fleet run other, as x)"


def measure(alias: str) -> HostProgress:
    return HostProgress(alias=alias, cells_done=1, cells_total=3, current_cell=CELLS[1].id, elapsed_s=5)


def write_ago(writer: RunWriter, event: HostStage | HostProgress, seconds: float) -> None:
    """The event into the log, as if it had happened so long ago."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    line = json.dumps({"time": moment.isoformat().replace("+00:00", "Z"), **event.model_dump(mode="json")})
    with (writer.path / "events.jsonl").open("a") as log:
        log.write(f"{line}\n")


def test_a_run_that_goes_on_says_when_each_host_was_last_heard(workspace: Path, run_fleet: RunFleet) -> None:
    plan = make_plan(dict.fromkeys(["frozen", "quick", "taken", "later"], CELLS))
    with Store(workspace / "reports").create(plan) as writer:
        for alias in ("frozen", "quick"):
            write_ago(writer, HostStage(alias=alias, stage=Stage.RUN), 30)
        write_ago(writer, measure("frozen"), 25)
        writer.record(HostNotice(alias="frozen", message="contact lost, the job goes on there: reset"))
        writer.record(measure("quick"))
        writer.record(HostStage(alias="taken", stage=Stage.PROBE))
        waiting = HostProgress(alias="taken", cells_done=0, cells_total=3, elapsed_s=0, detail=HOLDER, waiting=True)
        writer.record(waiting)
        document = json.loads(run_fleet("status", "--json").stdout)
        shown = run_fleet("status", env={"COLUMNS": "200"}).stdout

    frozen, quick, taken, later = document["hosts"]
    assert document["state"] == "running"
    assert 25 <= frozen["heard_s"] < 55 and 0 <= quick["heard_s"] < 25
    assert (frozen["state"], frozen["elapsed_s"]) == ("measuring", 5)
    assert frozen["message"] == "contact lost, the job goes on there: reset"
    assert (taken["state"], taken["elapsed_s"], taken["message"]) == ("waiting", None, HOLDER)
    assert (later["state"], later["heard_s"]) == ("waiting", None)
    assert re.search(r"^frozen +measuring +1/3 +5 s +[2-5]\d s ago ", shown, re.MULTILINE)
    assert re.search(rf"^taken +waiting +0/3 +\d+ s ago +{re.escape(HOLDER)}", shown, re.MULTILINE)
    assert re.search(r"^host +state +cells +for +last heard", shown, re.MULTILINE)


def test_what_is_ended_took_some_time(workspace: Path, run_fleet: RunFleet) -> None:
    lost = Ending(status=HostStatus.CONTACT_LOST, stage=Stage.RUN)
    store_run(workspace / "reports", make_plan({"a": CELLS, "b": CELLS}), {"a": Ending(), "b": lost}, exit_code=130)
    shown = run_fleet("status").stdout

    assert re.search(r"^host +state +cells +took *$", shown, re.MULTILINE)
    assert re.search(r"^a +ok +3/3 +1 min 23 s$", shown, re.MULTILINE)
    assert f"It may still measure on b. Collect it with: fleet resume {RUN_ID}" in " ".join(shown.split())


def plan_here(workdir: Path) -> Plan:
    """A plan of hosts that are all this machine."""
    plan = make_plan(dict.fromkeys(["probed", "seen", "collected", "new"], CELLS))
    update = {
        "connection": Connection(kind="local"),
        "settings": Settings(runtime="native", python="/bin/bash", workdir=str(workdir), devices="cpu"),
    }
    return plan.model_copy(update={"hosts": tuple(host.model_copy(update=update) for host in plan.hosts)})


def test_hosts_are_asked_when_nobody_follows_them(workspace: Path, run_fleet: RunFleet) -> None:
    plan = plan_here(workspace / "work")
    transport = open_transport(plan.hosts[0], NO_PASSWORDS)
    probe = probe_host(Shell("probed", transport), plan.hosts[0].settings, change=False).raw
    cells = {f"cells/00{place}.json": b"{}" for place in range(2)}
    with Store(workspace / "reports").create(plan) as writer:
        writer.keep("probed", {"probe": probe})
        # It waited for others when its controller was told to leave.
        writer.record(HostProgress(alias="probed", cells_done=0, cells_total=3, elapsed_s=0, detail="x", waiting=True))
        writer.keep("seen", {"probe": probe})
        writer.record(HostStage(alias="seen", stage=Stage.RUN))
        writer.record(measure("seen"))
        writer.keep("collected", {"probe": probe, **cells, "exit.json": b"{}"})
    document = json.loads(run_fleet("status", "--json").stdout)

    assert document["state"] == "incomplete"
    assert [(host["state"], host["cells_done"], host["elapsed_s"]) for host in document["hosts"]] == [
        ("never begun", 0, None),
        ("gone", 1, None),
        ("ended, results are here", 2, None),
        ("never begun", 0, None),
    ]
    assert {(host["heard_s"], host["message"]) for host in document["hosts"]} == {(None, "")}
