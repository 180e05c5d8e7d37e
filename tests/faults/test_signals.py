"""One, two and three signals while every host hangs in another phase: fleet is gone in time, says what it leaves, and
that can be ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleet.model.event import HostStage
from fleet.model.result import Stage
from fleet.report.wording import join_names
from fleet.store.opening import read_events
from tests.conftest import RunFleet
from tests.faults.cases import put_program
from tests.faults.conftest import FleetRun, is_measuring
from tests.faults.traces import find_traces
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab
from tests.servers import listening
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.timeout(300), pytest.mark.long]

SUITE = """
name: endless
rules: {warmup_steps: 1, steps: 100000, min_s: 100, max_s: 100, cell_timeout_s: 200, intra_threads: 1}
cells:
  - {models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}
"""
PHASES = {
    "connecting": Stage.CONNECT,
    "probing": Stage.CONNECT,
    "pulling": Stage.PULL,
    "launching": Stage.LAUNCH,
    "measuring": Stage.RUN,
    "collecting": Stage.COLLECT,
    "cleaning": Stage.CLEAN,
}
"""What hangs on a host, and the stage that is told of it."""

HANGING = {
    "probing": ("sed", "case $* in */proc/cpuinfo) exec sleep 3600 ;; esac"),
    "launching": ("docker", "case $1 in run) exec sleep 3600 ;; esac"),
    "collecting": ("head", "case $* in *exit.json) exec sleep 3600 ;; esac"),
    "cleaning": ("rm", 'if [ -f "$2/exit.json" ]; then exec sleep 3600; fi'),
}
"""Programs that hang when they are called so; `collecting` and `cleaning` come to an end at once before."""

BEGUN = ("pulling", "launching", "measuring", "collecting", "cleaning")


@dataclass(frozen=True)
class Hanging:
    """Hosts that hang, each in its own way, and the inventory of them."""

    hosts: Mapping[str, LabHost]
    inventory: Path
    suite: Path

    def start(self, here: Path) -> FleetRun:
        """A run that has come to where every host hangs."""
        here.mkdir()
        for name, (program, text) in HANGING.items():
            put_program(program, f'#!/bin/sh\n{text}\nexec /usr/bin/{program} "$@"\n')(self.hosts[name])
        run = FleetRun(here, self.inventory, self.suite)
        try:
            wait_for(lambda: self._hangs(run), 60)
        except AssertionError:
            run.kill()
            raise
        return run

    def _hangs(self, run: FleetRun) -> bool:
        assert run.process.poll() is None
        paths = list((run.workspace / "reports" / "runs").glob("*/events.jsonl"))
        stages = {
            event.alias: event.stage
            for path in paths
            for event in read_events(path.parent)
            if isinstance(event, HostStage)
        }
        return stages == {self.hosts[name].alias: stage for name, stage in PHASES.items()} and is_measuring(
            self.hosts["measuring"]
        )

    def mend(self) -> None:
        """Nothing hangs any more."""
        for name in HANGING:
            self.hosts[name].exec("sh", "-c", "rm -f /usr/local/bin/*; pkill -f '^sleep 3600' || true")


@pytest.fixture(scope="module")
def hanging(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hanging]:
    here = tmp_path_factory.mktemp("signals")
    names = [name for name in PHASES if name != "connecting"]
    machines = lab.add_hosts(len(names))
    hosts = dict(zip(names, machines, strict=True))
    (here / "suite.yaml").write_text(SUITE)
    with listening(lambda peer: None) as port:
        hosts["connecting"] = replace(machines[0], alias="connecting", address="127.0.0.1", port=port)
        overrides: dict[str, Mapping[str, object]] = {
            hosts["pulling"].alias: {"fleet_image": f"127.0.0.1:{port}/no/such:image"},
            hosts["collecting"].alias: {"fleet_runtime_args": ["--entrypoint", "true"]},
            hosts["cleaning"].alias: {"fleet_runtime_args": ["--entrypoint", "true"]},
        }
        inventory = write_inventory(here / "lab.yaml", list(hosts.values()), overrides=overrides)
        yield Hanging(hosts, inventory, here / "suite.yaml")
    lab.remove_hosts(machines)


def end(run: FleetRun, hanging: Hanging, run_fleet: RunFleet, *, code: int = 0) -> None:
    """What was left is ended, and nothing of it is there any more."""
    hanging.mend()
    done = run_fleet("cancel", run.load().plan.run_id, "--reports", str(run.workspace / "reports"))
    assert done.returncode == code, done.stderr
    # What hung when fleet went goes on where it was, on its host.
    wait_for(lambda: not any(find_traces(host) for host in hanging.hosts.values()), 20)


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP]], ids=lambda s: s[0].name)
def test_one_leaves_everything_to_its_hosts(
    signals: list[signal.Signals], hanging: Hanging, tmp_path: Path, run_fleet: RunFleet
) -> None:
    run = hanging.start(tmp_path / "run")
    begin = time.monotonic()
    run.process.send_signal(signals[0])
    code, out, err = run.wait(30)

    assert code == 130, err
    assert time.monotonic() - begin < 8
    begun = join_names([hanging.hosts[name].alias for name in BEGUN])
    assert f"leaving; what was started on {begun} goes on there. Take it up again with: fleet resume" in err
    assert "INCOMPLETE" in out
    assert "Traceback" not in out + err
    assert hanging.hosts["measuring"].list_jobs()
    end(run, hanging, run_fleet)


def test_two_end_everything_on_the_hosts(hanging: Hanging, tmp_path: Path, run_fleet: RunFleet) -> None:
    run = hanging.start(tmp_path / "run")
    begin = time.monotonic()
    run.cancel()
    code, out, err = run.wait(100)

    assert code == 130, err
    assert time.monotonic() - begin < 45
    assert "Traceback" not in out + err
    outcomes = {name: run.outcome(host.alias) for name, host in hanging.hosts.items()}
    assert {name: (outcome.status, outcome.stage) for name, outcome in outcomes.items()} == {
        "connecting": ("cancelled", "probe"),
        "probing": ("cancelled", "probe"),
        "pulling": ("cancelled", "pull"),
        "launching": ("cancelled", "launch"),
        "measuring": ("cancelled", "run"),
        "collecting": ("contact_lost", "collect"),
        "cleaning": ("preflight_failed", "launch"),
    }
    assert [name for name, outcome in outcomes.items() if outcome.leftover] == ["cleaning"]
    end(run, hanging, run_fleet, code=3)


def test_three_leave_at_once(hanging: Hanging, tmp_path: Path, run_fleet: RunFleet) -> None:
    run = hanging.start(tmp_path / "run")
    run.cancel()
    time.sleep(0.5)
    begin = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    code, out, err = run.wait(30)

    assert code == 130, err
    assert time.monotonic() - begin < 4
    assert "left at once; what was to end on" in err
    assert "Traceback" not in out + err
    end(run, hanging, run_fleet)
