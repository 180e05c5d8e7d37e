"""What holds a run in bounds, and what failed in it measured again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from fleet.store.rundir import Store
from tests.conftest import RunFleet

SUITE = """
name: tiny
rules: {warmup_steps: 1, steps: 2, max_s: 60, min_s: %d}
cells:
  - {models: [trivial_cifar10], phases: [train, forward], batch_sizes: [1], on: [cpu]}
"""


@pytest.fixture
def suite(workspace: Path) -> Path:
    path = workspace / "tiny.yaml"
    path.write_text(SUITE % 0)
    return path


def write_hosts(workspace: Path, **hosts: str) -> Path:
    path = workspace / "lab.yaml"
    path.write_text(
        "all:\n  hosts:\n" + "".join(f"    {alias}: {{{variables}}}\n" for alias, variables in hosts.items())
    )
    return path


def local(workspace: Path, python: str = sys.executable) -> str:
    place = f"fleet_workdir: {workspace / 'work'}, fleet_python: {python}"
    return f"ansible_connection: local, fleet_runtime: native, fleet_devices: cpu, {place}"


CLOSED = "ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: nobody, fleet_devices: cpu"
SLOW = CLOSED + ", ansible_ssh_common_args: \"-o ProxyCommand='sleep 1' -o ConnectTimeout=3\""


def test_no_more_hosts_are_begun_when_too_many_have_failed(workspace: Path, suite: Path, run_fleet: RunFleet) -> None:
    inventory = write_hosts(workspace, **{f"n{n}": SLOW for n in range(5)})
    done = run_fleet("run", "-i", str(inventory), "-s", str(suite), "--forks", "1", "--max-fail", "1")

    assert done.returncode == 6, done.stderr
    outcomes = Store(workspace / "reports").load().outcomes
    assert [outcomes[f"n{n}"].status for n in range(5)].count(HostStatus.SKIPPED) >= 2
    assert outcomes["n0"].status is HostStatus.UNREACHABLE
    skipped = outcomes["n4"]
    assert (skipped.reason, skipped.message) == ("max_fail", "not begun: more than 1 hosts had failed")
    again = f"fleet run --retry-failed {Store(workspace / 'reports').load().plan.run_id}"
    assert skipped.hint == f"Mend those, or raise --max-fail. Measure it again with: {again}"
    assert "retry" not in outcomes["n0"].hint


@pytest.mark.needs("tensorflow")
def test_a_run_ends_with_its_time(workspace: Path, run_fleet: RunFleet) -> None:
    suite = workspace / "long.yaml"
    suite.write_text(SUITE % 60)
    inventory = write_hosts(workspace, here=local(workspace))
    done = run_fleet("run", "-i", str(inventory), "-s", str(suite), "--deadline", "6s")

    assert done.returncode in {3, 6}, done.stderr
    # Nobody pressed Ctrl-C, and once would not be enough.
    assert re.search(r"^\d\d:\d\d:\d\d the time is up: cancelling on 1 host$", done.stderr, re.MULTILINE)
    run = Store(workspace / "reports").load()
    assert (run.outcomes["here"].status, run.outcomes["here"].reason) == (HostStatus.TIMED_OUT, "run_deadline")
    assert run.outcomes["here"].hint == f"Measure it again with: fleet run --retry-failed {run.plan.run_id}"
    assert run.summary and not run.summary.interrupted
    assert not (workspace / "work" / "jobs").exists()


@pytest.mark.needs("tensorflow")
def test_what_failed_is_measured_again_on_the_hosts_it_failed_on(
    workspace: Path, suite: Path, run_fleet: RunFleet
) -> None:
    inventory = write_hosts(workspace, good=local(workspace, "/bin/false"), bad=CLOSED)
    first = run_fleet("run", "-i", str(inventory), "-s", str(suite))
    assert first.returncode == 6, first.stderr
    write_hosts(workspace, good=local(workspace), bad=local(workspace), other=local(workspace))
    again = run_fleet("run", "--retry-failed", "reports/latest", "--limit", "good")

    assert again.returncode == 0, again.stderr
    run = Store(workspace / "reports").load()
    assert [host.alias for host in run.plan.hosts] == ["good"]
    assert (run.plan.suite, len(run.plan.hosts[0].cells), run.plan.rules.warmup_steps) == ("tiny", 2, 1)
    nothing = run_fleet("run", "--retry-failed", "reports/latest")
    assert (nothing.returncode, "Nothing failed in run" in nothing.stderr) == (6, True)
    both = run_fleet("run", "--retry-failed", "reports/latest", "--suite", "quick")
    assert (both.returncode, "--retry-failed says what to measure, and --suite too" in both.stderr) == (2, True)
