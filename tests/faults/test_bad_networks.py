"""One run over networks that fail in the middle of it, and over such as are bad from the start. One number of fleet's
is another here: a host is given up after a minute of silence, not after a quarter of an hour."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from fleet.model.result import HostOutcome
from tests.conftest import RunFleet
from tests.faults.conftest import FleetRun, is_measuring
from tests.faults.traces import find_traces
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker", "iptables", "tc"), pytest.mark.timeout(500), pytest.mark.long]

IMPATIENT = """
from dataclasses import replace
from fleet.cli import app
from fleet.host.follow import Patience
choose = Patience.for_hosts
Patience.for_hosts = lambda *given: replace(choose(*given), contact_s=60.0)
app.main()
"""
CUT_S = 35

SUITE = """
name: short
rules: {warmup_steps: 1, steps: 100000, min_s: 5, max_s: 5, cell_timeout_s: 200, intra_threads: 1, inter_threads: 1}
cells:
  - {models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}
"""
NAMES = ("cut", "frozen", "dark", "slow", "lossy", "good")


@dataclass(frozen=True)
class Finished:
    run: FleetRun
    code: int
    out: str
    err: str
    outcomes: Mapping[str, HostOutcome]
    hosts: Mapping[str, LabHost]

    def count(self, name: str, words: str) -> int:
        """Events of this host with these words in them."""
        lines = (self.run.load().path / "events.jsonl").read_text().splitlines()
        return sum(f'"alias": "{self.hosts[name].alias}"' in line and words in line for line in lines)


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    here = tmp_path_factory.mktemp("networks")
    machines = lab.add_hosts(len(NAMES))
    hosts = dict(zip(NAMES, machines, strict=True))
    hosts["slow"].slow_down("64kbit")
    hosts["lossy"].lose_packets(0.3)
    (here / "suite.yaml").write_text(SUITE)
    inventory = write_inventory(here / "lab.yaml", machines)
    run = FleetRun(here, inventory, here / "suite.yaml", command=[sys.executable, "-c", IMPATIENT])
    try:
        hurt = [hosts[name] for name in ("cut", "frozen", "dark")]
        wait_for(lambda: run.process.poll() is not None or all(map(is_measuring, hurt)), 120)
        hosts["cut"].drop_packets()
        hosts["dark"].drop_packets()
        hosts["frozen"].freeze_sshd()
        time.sleep(CUT_S)
        hosts["cut"].accept_packets()
        hosts["frozen"].thaw_sshd()
        code, out, err = run.wait(300)
        outcomes = {name: run.load().outcomes[host.alias] for name, host in hosts.items()}
        yield Finished(run, code, out, err, outcomes, hosts)
    finally:
        run.kill()
        lab.remove_hosts(machines)


@pytest.mark.parametrize("name", ["cut", "frozen"])
def test_a_job_ends_while_its_host_is_away_and_is_collected_once(name: str, finished: Finished) -> None:
    outcome = finished.outcomes[name]

    assert outcome.status == "ok", outcome.message
    assert outcome.cells[0].timing
    assert finished.count(name, "contact lost, the job goes on there") == 1
    assert finished.count(name, '"collect"') == 1
    assert finished.count(name, '"finished"') == 1
    assert finished.hosts[name].read_log().count("Accepted publickey") >= 2


def test_a_slow_line_costs_its_own_host_time_alone(finished: Finished) -> None:
    slow, good, dark = (finished.outcomes[name] for name in ("slow", "good", "dark"))

    assert (slow.status, good.status) == ("ok", "ok"), slow.message
    assert good.finished and dark.finished and good.finished < dark.finished


def test_a_line_that_loses_is_ok_or_named(finished: Finished) -> None:
    outcome = finished.outcomes["lossy"]

    assert outcome.status in {"ok", "unreachable", "contact_lost"}, outcome.message
    assert outcome.status == "ok" or (outcome.reason and outcome.hint)


def test_a_host_that_stays_away_is_given_up_and_taken_up_later(finished: Finished, run_fleet: RunFleet) -> None:
    outcome, host = finished.outcomes["dark"], finished.hosts["dark"]
    run_id = finished.run.load().plan.run_id

    assert finished.code == 3, finished.err
    assert (outcome.status, outcome.stage) == ("contact_lost", "run")
    assert "has not answered for 60 s" in outcome.message
    assert outcome.hint.endswith(f"Take it up with: fleet resume {run_id}")
    assert [cell.status for cell in outcome.cells] == ["lost"]
    assert "Traceback" not in finished.out + finished.err
    host.accept_packets()
    done = run_fleet("resume", "--reports", str(finished.run.workspace / "reports"))
    again = finished.run.load()
    assert again.outcomes[host.alias].status == "ok", done.stderr
    lossy = again.outcomes[finished.hosts["lossy"].alias].status
    assert done.returncode == (0 if lossy == "ok" else 4), done.stderr
    assert finished.count("dark", '"collect"') == 1


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    hosts = {name: host for name, host in finished.hosts.items() if name != "lossy"}
    left = {name: found for name, host in hosts.items() if (found := find_traces(host))}
    assert not left, left
