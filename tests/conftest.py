"""What every test may use: the marker `needs`, an isolated home, fleet's command line, the lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Protocol, Unpack

import pytest

from tests import needs
from tests.documents import check_printed
from tests.lab.hosts import HostOptions, LabHost
from tests.lab.images import build_tensorflow_image
from tests.lab.lab import Lab
from tests.waiting import hold

ROOT = Path(__file__).parent.parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "needs(*names): what the machine must have: ssh, docker, tensorflow, postgres, root, or a program. Missing, the"
        " test is skipped; missing and named in FLEET_REQUIRE, it fails.",
    )
    config.addinivalue_line("markers", "long: the file takes minutes; where files run side by side it begins first.")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background of a script. What a test starts would inherit it, and not a handler.
        signal.signal(signal.SIGINT, lambda number, frame: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Test processes of `make test`: as many as processors, for many tests measure; eight at most, for the memory."""
    return min(os.cpu_count() or 1, 8)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where files run side by side, begin with the long ones: at the end no process waits for another."""
    if hasattr(config, "workerinput"):
        long = {item.path for item in items if item.get_closest_marker("long")}
        items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    names = [name for marker in item.iter_markers("needs") for name in marker.args]
    missing = {name: reason for name in names if (reason := needs.find_missing(name))}
    for name in sorted(missing.keys() & needs.read_required()):
        pytest.fail(f"FLEET_REQUIRE says it must be here: {missing[name]}", pytrace=False)
    if missing:
        pytest.skip("; ".join(missing.values()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a skip a failure when what it was for is required, however the test came to skip."""
    if not report.skipped:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    required = needs.find_required(reason)
    if required is not None:
        report.outcome = "failed"
        report.longrepr = f"skipped, but FLEET_REQUIRE names {required}: {reason}"


@pytest.fixture
def this_machine() -> Iterator[None]:
    """Only one test at a time runs fleet's jobs on this machine itself, where there is one lock for all of them."""
    with hold(Path(tempfile.gettempdir(), f"fleet-tests-{os.getuid()}.lock")):
        if (lock := Path("/tmp/fleet.lock")).exists():
            with hold(lock):
                pass  # whatever else is measured here has come to its end
        yield


@pytest.fixture
def isolated_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and nothing of the caller's environment that fleet, ssh or docker would read.

    OpenSSH's programs take the home from the password database all the same: give them `-F` or explicit files.
    """
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for name in [*os.environ]:
        ours = name.startswith(("XDG_", "FLEET_", "ANSIBLE_", "SSH_", "DOCKER_")) or name in {"COLUMNS", "LINES"}
        if ours and name != "FLEET_REQUIRE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    return home


class RunFleet(Protocol):
    def __call__(
        self, *args: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run `fleet` with these arguments. `env` comes on top of the isolated environment."""
        ...


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The empty directory that `run_fleet` runs in."""
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


@pytest.fixture
def run_fleet(isolated_home: Path, workspace: Path) -> RunFleet:
    """fleet's command line as a process of its own, in `workspace`, with an empty home and no terminal.

    Whatever JSON it prints is held to the schema of it.
    """

    def run(
        *args: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        argv = [sys.executable, "-m", "fleet", *args]
        done = subprocess.run(
            argv, cwd=workspace, env=environment, input=stdin, capture_output=True, text=True, timeout=timeout_s
        )
        check_printed(args, done.stdout)
        return done

    return run


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab of this test process. A test that uses it is marked `needs("ssh", "docker")`."""
    made = Lab()
    yield made
    made.take_down()


class LabHosts(Protocol):
    def __call__(self, count: int = 1, **how: Unpack[HostOptions]) -> list[LabHost]:
        """Start hosts that are all alike; gone when the test is over."""
        ...


@pytest.fixture
def lab_hosts(lab: Lab) -> Iterator[LabHosts]:
    """`lab_hosts(3)`, `lab_hosts(1, socket=False)`: real machines for one test."""
    started: list[LabHost] = []

    def start(count: int = 1, **how: Unpack[HostOptions]) -> list[LabHost]:
        hosts = lab.add_hosts(count, **how)
        started.extend(hosts)
        return hosts

    yield start
    lab.remove_hosts(started)


@pytest.fixture(scope="session")
def tensorflow_image() -> str:
    """Tag of the stand-in for NVIDIA's image, in the lab's engine."""
    return build_tensorflow_image()
