"""What the probe makes of a work directory: it makes its own, and leaves every other as it is."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from fleet.errors import PreflightFailed
from fleet.host.framing import Shell
from fleet.host.preflight import check_workdir
from fleet.host.probe import Probe, probe_host
from fleet.model.inventory import Settings
from tests.host.script_machine import Machine

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")


@pytest.fixture(params=["dash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))])
def machine(request: pytest.FixtureRequest, ground: Path) -> Machine:
    return Machine(ground / "tmp", shell=request.param)


def probe(machine: Machine, workdir: Path | str, *, change: bool = True) -> Probe:
    settings = Settings(runtime="native", python="/bin/sh", workdir=str(workdir))
    return probe_host(Shell("here", machine), settings, change=change)


def refuse(machine: Machine, workdir: Path | str, *, change: bool = True) -> PreflightFailed:
    with pytest.raises(PreflightFailed) as refused:
        check_workdir("here", Settings(), probe(machine, workdir, change=change))
    return refused.value


def test_a_work_directory_is_made_for_its_owner_alone(machine: Machine, ground: Path) -> None:
    check_workdir("here", Settings(), probe(machine, f"{ground}/new/work/"))

    assert (ground / "new" / "work").stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("mode", [0o1777, 0o775, 0o707, 0o1700], ids=oct)
@pytest.mark.parametrize("change", [True, False], ids=["make", "look"])
def test_a_directory_of_others_is_refused_and_not_changed(
    machine: Machine, ground: Path, mode: int, change: bool
) -> None:
    shared = ground / "shared"
    shared.mkdir()
    shared.chmod(mode)

    error = refuse(machine, shared, change=change)

    assert error.reason == "workdir_shared"
    assert f"{shared}/fleet" in error.hint
    assert shared.stat().st_mode & 0o7777 == mode
    assert [*shared.iterdir()] == []


def test_the_root_directory_is_refused_and_not_changed(machine: Machine) -> None:
    before = Path("/").stat().st_mode

    assert refuse(machine, "/").reason == "workdir_shared"
    assert Path("/").stat().st_mode == before


def test_a_directory_that_holds_other_things_is_refused_and_not_changed(machine: Machine, ground: Path) -> None:
    home = ground / "home"
    home.mkdir(mode=0o755)
    (home / ".profile").touch()

    error = refuse(machine, home)

    assert (error.reason, error.message) == (
        "workdir_occupied",
        f"the work directory {home} holds what is not fleet's: .profile",
    )
    assert home.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in home.iterdir()] == [".profile"]


def test_a_directory_that_was_used_before_is_taken_as_it_is(machine: Machine, ground: Path) -> None:
    work = ground / "work"
    work.mkdir(mode=0o755)
    for name in ("jobs", "lost+found"):
        (work / name).mkdir()
    for name in ("payload-" + "ab" * 32 + ".pyz", ".fleet-123"):
        (work / name).touch()

    check_workdir("here", Settings(), probe(machine, work))

    assert work.stat().st_mode & 0o777 == 0o755


def test_a_file_in_its_place_is_named(machine: Machine, ground: Path) -> None:
    (ground / "file").touch()

    for change in (True, False):
        assert refuse(machine, ground / "file", change=change).reason == "workdir_not_writable"


def test_a_tool_that_hangs_costs_its_own_limit(ground: Path) -> None:
    tools = ground / "bin"
    tools.mkdir()
    for name in ("df", "lscpu"):
        (tools / name).write_text("#!/bin/sh\nsleep 3600\n")
        (tools / name).chmod(0o755)
    begin = time.monotonic()

    error = refuse(Machine(ground / "tmp", path=f"{tools}:{os.environ['PATH']}"), ground / "work")

    assert error.reason == "workdir_silent"
    assert "does not answer" in error.message
    assert 20 < time.monotonic() - begin < 40
    left = subprocess.run(["pgrep", "-f", str(tools)], capture_output=True, text=True)
    assert left.stdout == "", "what hung is ended"
