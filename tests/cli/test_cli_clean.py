"""`fleet clean` on real SSH hosts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from fleet.model.result import HostStatus, Stage
from tests.conftest import LabHosts, RunFleet
from tests.faults.conftest import TINY, FleetRun, find_job, is_measuring
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.run_builder import Ending, make_cells, make_plan, store_run
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long]

RUN = "20261201T023000Z-k3x9"
FAILED_TO_COLLECT = Ending(status=HostStatus.CONTACT_LOST, stage=Stage.RUN, reason="timeout", message="It is silent.")


def leave_job(host: LabHost, job_id: str, *, ended: bool = True) -> Path:
    """A job's directory as a fleet leaves it that is killed before it has collected, an hour ago."""
    job = host.workdir / "jobs" / job_id
    host.run_ssh(
        "sh", "-c", 'mkdir -p "$1/out" && chmod 700 "$1/.." && head -c 200000 /dev/zero >"$1/log"', "sh", str(job)
    )
    if ended:
        host.run_ssh("sh", "-c", 'echo {} >"$1/exit.json" && touch -d "1 hour ago" "$1/exit.json"', "sh", str(job))
    return job


def test_what_is_collected_goes_and_the_rest_with_all(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    hosts = lab_hosts(2)
    done, lost = hosts
    inventory = write_inventory(workspace / "lab.yaml", hosts)
    plan = make_plan(dict.fromkeys([host.alias for host in hosts], make_cells(count=1)), RUN)
    plan = plan.model_copy(
        update={"hosts": tuple(h.model_copy(update={"job_id": f"{RUN}-00{i}"}) for i, h in enumerate(plan.hosts, 1))}
    )
    store_run(workspace / "reports", plan, {done.alias: Ending(), lost.alias: FAILED_TO_COLLECT}, exit_code=3)
    collected, kept = leave_job(done, f"{RUN}-001"), leave_job(lost, f"{RUN}-002")
    strange = leave_job(done, "20250101T000000Z-aaaa-001")
    clean = ("clean", "-i", str(inventory))
    planned, first, again = run_fleet(*clean, "--dry-run"), run_fleet(*clean), run_fleet(*clean)

    assert [ended.returncode for ended in (planned, first, again)] == [0, 0, 0], planned.stderr + first.stderr
    assert re.search(rf"{done.alias} +ok +1 job +0\.2 MiB +1 job", planned.stdout), planned.stdout
    assert "Would remove 1 job on 2/2 hosts, 0.2 MiB." in planned.stdout
    assert "Removed 1 job on 2/2 hosts, 0.2 MiB." in first.stdout
    words = " ".join(first.stdout.split())
    assert f"The results of {kept.name} were never collected here: fleet resume {RUN} collects it, --all" in words
    assert f"The results of {strange.name} were never collected here: --all removes" in words
    assert "Removed nothing on 2/2 hosts" in again.stdout
    assert (collected.exists(), kept.exists(), strange.exists()) == (False, True, True)

    told = run_fleet(*clean, "--all", "--json")
    document = json.loads(told.stdout)
    assert (told.returncode, document["schema"], document["dry_run"]) == (0, "fleet.clean/1", False)
    removed = {host["alias"]: [job["job_id"] for job in host["removed"]["jobs"]] for host in document["hosts"]}
    assert removed == {done.alias: [strange.name], lost.alias: [kept.name]}
    assert 200_000 < document["hosts"][0]["removed"]["size_bytes"] < 300_000
    assert [host["kept"]["jobs"] for host in document["hosts"]] == [[], []]
    for host in hosts:
        assert [*host.workdir.iterdir()] == []


def test_a_run_that_goes_on_is_not_touched_and_its_leftovers_go_after_a_kill(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    suite = workspace / "tiny.yaml"
    suite.write_text(TINY.replace("max_s: 5", "min_s: 10, max_s: 10"))
    clean = ("clean", "-i", str(inventory), "--all")
    run = FleetRun(workspace, inventory, suite)
    try:
        wait_for(lambda: is_measuring(host), 240)
        job = find_job(host)
        assert job is not None
        during = run_fleet(*clean)
        assert (during.returncode, job.exists(), len(host.list_jobs())) == (0, True, 1), during.stdout
        assert f"{job.name} is still at work." in during.stdout
        assert "Removed nothing" in during.stdout
    finally:
        run.process.kill()
        run.process.communicate()
    wait_for((job / "exit.json").exists, 300)
    fresh = run_fleet(*clean)
    assert f"{job.name} ended in the last 5 min" in fresh.stdout
    assert "Removed 1 benchmark on 1/1 host" in fresh.stdout
    assert len(host.list_jobs()) == 1
    subprocess.run(["touch", "-d", "1 hour ago", job / "exit.json"], check=True)
    done = run_fleet(*clean)

    assert done.returncode == 0, done.stderr
    assert re.search(r"Removed 1 job, 1 container on 1/1 host, \d+\.\d MiB\.", done.stdout), done.stdout
    assert host.list_jobs() == []
    assert [*host.workdir.iterdir()] == []


def test_hosts_that_cannot_be_cleaned_are_told_from_those_out_of_reach(
    lab_hosts: LabHosts, workspace: Path, run_fleet: RunFleet
) -> None:
    good, gone, silent = [*lab_hosts(2), *lab_hosts(1, socket=False)]
    inventory = write_inventory(workspace / "lab.yaml", [good, gone, silent])
    gone.stop()
    job = leave_job(silent, "20250101T000000Z-aaaa-001")
    everyone = run_fleet("clean", "-i", str(inventory), "--all", env={"COLUMNS": "80"})
    some = run_fleet("clean", "-i", str(inventory), "--limit", f"all:!{silent.alias}")

    assert (everyone.returncode, some.returncode) == (3, 4), everyone.stderr
    assert re.search(rf"✖ {silent.alias}\n.*systemctl\s+start\s+docker", everyone.stdout, re.DOTALL)
    assert re.search(rf"{gone.alias} +unreachable", everyone.stdout)
    assert "Removed nothing on 1/3 hosts, 0.0 MiB." in everyone.stdout
    assert max(len(line) for line in everyone.stdout.splitlines()) <= 80
    assert job.exists()
    assert "Traceback" not in everyone.stderr + some.stderr
