"""The bench of the fan-out: what needs no installation does the work, hosts are apart, all that is taken is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.fanout_hosts import start_hosts
from tests.bench.fanout_tools import TOOLS
from tests.bench.fanout_work import COMMAND, Work
from tests.bench.round_trips import FAR_S, MOST_ROUND_TRIPS, time_start
from tests.conftest import ROOT

pytestmark = pytest.mark.needs("ssh", "root")


def measure(*argv: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.fanout_measure", *argv]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60)
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def test_the_work_is_done_by_fleet_and_by_openssh() -> None:
    command = [sys.executable, "tests/bench/fanout.py", "--hosts", "3", "--rounds", "2"]
    done = subprocess.run(
        [*command, "--tools", "fleet", "fleet run", "OpenSSH"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert rows[0] == ["3 hosts", "wall s", "× fleet", "processor s", "memory MB", "failures", "rounds"]
    names = ("fleet", "fleet run", "OpenSSH")
    assert [(row[0], row[5], row[6]) for row in rows[2:]] == [(name, "0", "2") for name in names]
    assert all(float(figure) > 0 for row in rows[2:] for figure in row[1:5])
    assert rows[2][2] == "1.00"


def test_hosts_are_machines_of_their_own_and_a_wrong_result_is_a_failure(tmp_path: Path) -> None:
    with start_hosts(2) as hosts:
        work = Work(hosts, 2, tmp_path / "work")
        work.prepare()

        def run(address: str, command: str, stdin: bytes = b"") -> bytes:
            argv = ["ssh", "-F", str(hosts.ssh_config), address, command]
            return subprocess.run(argv, input=stdin, capture_output=True, timeout=30).stdout

        first, second = hosts.addresses
        (work.results / first).write_bytes(run(first, COMMAND, work.payload.read_bytes()))
        assert work.count_done() == 1
        run(first, "touch /tmp/there; setsid sleep 600 </dev/null >/dev/null 2>&1 &")
        look = "ls ~ /tmp; cat /proc/[0-9]*/comm"
        assert {b"bench", b"there", b"sleep"} <= set(run(first, look).split())
        assert not {b"bench", b"there", b"sleep"} & set(run(second, look).split())
        (work.results / second).write_bytes((work.results / first).read_bytes()[:-1])
        assert work.count_done() == 1
        (work.results / second).write_bytes((work.results / first).read_bytes())
        assert work.count_done() == 2
        work.prepare()
        assert work.count_done() == 0


SPIN = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass\ntime.sleep(600)"
HOLD = "import time; held = b'x' * 80_000_000; time.sleep(1)"


def test_what_a_command_leaves_running_is_ended_and_counted() -> None:
    spin = f'{sys.executable} -c "{SPIN}"'
    taken = measure("sh", "-c", f"(setsid {spin} &) ; (setsid {spin} &) ; sleep 8")
    assert taken["status"] == 0
    assert 8 <= taken["wall_s"] < 30
    assert 0.8 <= taken["cpu_s"] < 2


def test_memory_is_that_of_all_processes_together() -> None:
    hold = f'{sys.executable} -c "{HOLD}"'
    alone, both = (measure("sh", "-c", command)["peak_bytes"] for command in (hold, f"{hold} & {hold}; wait"))
    assert 80e6 < alone < 120e6
    assert 160e6 < both < 240e6


def test_every_tool_is_pinned() -> None:
    assert [tool.name for tool in TOOLS if not tool.requirement] == ["fleet", "fleet run", "OpenSSH"]
    assert all(tool.requirement.count("==") == 1 for tool in TOOLS if tool.requirement)


def test_a_host_far_away_is_started_in_nine_round_trips() -> None:
    with start_hosts(1) as hosts:
        # So far away that the payload has begun before the first poll comes, which would count.
        assert min(time_start(hosts, 4 * FAR_S)[1] for _ in range(2)) <= MOST_ROUND_TRIPS
