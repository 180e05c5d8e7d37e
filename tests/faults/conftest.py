"""`fleet run` as a process that can be watched and hurt, and a suite small enough to be run many times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from fleet.model.result import HostOutcome
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from tests.conftest import ROOT
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory

TINY = """
name: tiny
description: one short cell
rules: {warmup_steps: 1, steps: 2, max_s: 5, cell_timeout_s: 120}
cells:
  - {models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}
"""

LONG = """
name: long
description: long enough to be hurt in the middle
rules: {warmup_steps: 1, steps: 100000, min_s: 5, max_s: 5, cell_timeout_s: 120, intra_threads: 1, inter_threads: 1}
cells:
  - {models: [alexnet_conv], phases: [forward, forward_backward], batch_sizes: [1], on: [cpu]}
"""


FLEET = (sys.executable, "-m", "fleet")


class FleetRun:
    """One `fleet run` that is going on in `workspace`, with an empty home and nothing of the caller's environment.

    Args:
        environment: on top of that.
        command: what starts fleet.
    """

    def __init__(
        self,
        workspace: Path,
        inventory: Path,
        suite: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = FLEET,
    ) -> None:
        self.workspace = workspace
        self.peak_bytes = 0
        """The most memory it was seen to take."""
        home = workspace / "home"
        home.mkdir(exist_ok=True)
        plain = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
        self.process = subprocess.Popen(
            [*command, "run", "-i", str(inventory), "--suite", str(suite), *options],
            cwd=workspace,
            env={**plain, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # As from a login's shell, also where the tests run under nohup.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def cancel(self) -> None:
        """Press Ctrl-C, and on second thoughts again."""
        self.process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # two that come together are one
        self.process.send_signal(signal.SIGINT)

    def wait(self, timeout_s: float = 240) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        end = time.monotonic() + timeout_s
        while True:
            self._look_at_memory()
            try:
                out, err = self.process.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < end, f"it did not end within {timeout_s:g} s"
                continue
            return self.process.returncode, out, err

    def kill(self) -> None:
        """End it if it still goes on."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def _look_at_memory(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
            self.peak_bytes = max(self.peak_bytes, int(peak[1]) << 10)

    def load(self) -> StoredRun:
        """The run as it is stored, complete or not."""
        store = Store(self.workspace / "reports")
        return store.load(store.runs()[0].run_id)

    def outcome(self, alias: str) -> HostOutcome:
        return self.load().outcomes[alias]


class StartRun(Protocol):
    def __call__(self, hosts: list[LabHost], suite: str, *options: str) -> FleetRun: ...


def find_job(host: LabHost) -> Path | None:
    """The directory of the job on a host; the machine sees the same files."""
    return next(host.workdir.glob("jobs/*"), None)


def is_measuring(host: LabHost) -> bool:
    """The payload has begun with its first cell."""
    job = find_job(host)
    return job is not None and (job / "out" / "progress.json").exists()


@pytest.fixture
def start_run(workspace: Path) -> Iterator[StartRun]:
    """Start `fleet run` on these hosts; what still goes on when the test is over is killed."""
    runs: list[FleetRun] = []

    def start(hosts: list[LabHost], suite: str, *options: str) -> FleetRun:
        inventory = write_inventory(workspace / "lab.yaml", hosts)
        path = workspace / "suite.yaml"
        path.write_text(suite)
        runs.append(FleetRun(workspace, inventory, path, *options))
        return runs[-1]

    yield start
    for run in runs:
        run.kill()
