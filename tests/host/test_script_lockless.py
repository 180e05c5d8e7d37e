"""A machine whose lock is free though a job measures there: no second one starts beside it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from fleet.errors import Busy
from fleet.host.leftovers import find_leftovers
from fleet.host.neighbours import find_disturbances
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.host.test_neighbours import CPU, run_script
from tests.host.test_script_containers import QUICK as QUICK_IN_CONTAINER
from tests.host.test_script_containers import SLOW as SLOW_IN_CONTAINER
from tests.host.test_script_containers import check_clean, make_job
from tests.host.test_script_jobs import QUICK, SLOW, runs
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")

SHELLS = ["dash", "bash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))]
HANG = '#!/bin/sh\n[ "$1" != ps ] || exec sleep 3600\nexit 1\n'


def make_native(ground: Path, number: int, text: bytes, *, shell: str = "dash", uid: int = 0) -> ScriptedJob:
    """The job of one of several fleets, each with a work directory of its own."""
    machine = Machine(ground / "tmp", shell=shell, uid=uid)
    return ScriptedJob(machine, make_workdir(ground / f"work{number}", uid), text, number)


def kill_all(job: ScriptedJob) -> None:
    """All that is marked as the job's, as an administrator might who knows of no container."""
    while found := job.find_processes():
        for line in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def end(job: ScriptedJob, status: object = 3) -> None:
    (job.directory / "out" / "go").touch()
    wait_for(lambda: job.take_up() and (job.directory / "exit.json").exists())
    assert job.wait()["exit_status"] == status


@pytest.mark.needs("docker")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("named", [True, False], ids=["", "no-name"])
def test_a_container_that_nobody_watches_keeps_its_machine(
    ground: Path, tensorflow_image: str, shell: str, named: bool
) -> None:
    first = make_job(ground, SLOW_IN_CONTAINER, tensorflow_image, shell=shell)
    first.start()
    wait_for((first.directory / "out" / "ran").exists)
    kill_all(first)
    wait_for(first.is_free)
    if not named:
        (ground / "tmp" / f"fleet.holder.{first.job.job_id}").unlink()
    second = ScriptedJob(first.machine, make_workdir(ground / "other"), QUICK_IN_CONTAINER, 2, 60, tensorflow_image)
    native = make_native(ground, 3, QUICK, shell=shell)
    for job in (second, native):
        with pytest.raises(Busy) as busy:
            job.start()
        who = "me@there (fleet run test)" if named else f"fleet job {first.job.job_id}"
        assert busy.value.message == f"the machine is being measured by {who}"
        assert [*job.workdir.iterdir()] == []
        assert first.is_free()

    end(first)
    second.start()
    assert second.wait()["exit_status"] == 3
    check_clean(second)
    check_clean(first)


@pytest.mark.needs("docker")
def test_the_container_of_another_machine_with_the_same_engine_is_none_of_ours(
    ground: Path, tensorflow_image: str
) -> None:
    first = make_job(ground, SLOW_IN_CONTAINER, tensorflow_image)
    first.start()
    wait_for((first.directory / "out" / "ran").exists)
    other = Machine(ground / "tmp2")
    second = ScriptedJob(other, make_workdir(ground / "other"), QUICK_IN_CONTAINER, 2, 60, tensorflow_image)
    second.start()

    assert second.wait()["exit_status"] == 3
    end(first)
    check_clean(second)
    check_clean(first)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_lock_that_was_removed_frees_nothing(ground: Path, shell: str) -> None:
    first, second = make_native(ground, 1, SLOW, shell=shell, uid=1001), make_native(ground, 2, QUICK, shell=shell)
    first.start()
    wait_for(lambda: runs(first))
    (ground / "tmp" / "fleet.lock").unlink()
    with pytest.raises(Busy, match=r"me@there \(fleet run test\)"):
        second.start()
    assert [*second.workdir.iterdir()] == []

    first.start()
    end(first)
    second.start()
    assert second.wait()["exit_status"] == 3
    assert runs(first) == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_a_lock_that_is_removed_while_it_is_waited_for_is_not_taken(ground: Path, shell: str) -> None:
    job = make_native(ground, 1, SLOW, shell=shell)
    tools = ground / "bin"
    tools.mkdir()
    # Between opening and locking, once.
    (tools / "flock").write_text(
        f'#!/bin/sh\n[ -e {ground}/gone ] || {{ rm /tmp/fleet.lock; : >{ground}/gone; }}\nexec /usr/bin/flock "$@"\n'
    )
    (tools / "flock").chmod(0o755)
    machine = Machine(ground / "tmp", shell=shell, path=f"{tools}:{os.environ['PATH']}")
    ScriptedJob(machine, job.workdir, SLOW).start()
    wait_for(lambda: runs(job))

    assert (ground / "gone").exists()
    assert not job.is_free()
    end(job)
    assert job.is_free()


def test_a_watchdog_that_outlived_the_work_keeps_nobody_out(ground: Path) -> None:
    first, second = make_native(ground, 1, SLOW), make_native(ground, 2, QUICK)
    first.start()
    wait_for(lambda: runs(first))
    supervisor = next(line for line in first.find_processes() if "supervise.sh" in line).split()[0]
    os.kill(int(supervisor), signal.SIGKILL)
    (first.directory / "out" / "go").touch()
    wait_for(first.is_free)
    assert first.find_processes()

    second.start()
    assert second.wait()["exit_status"] == 3
    end(first)


def test_an_engine_that_hangs_holds_up_a_start_for_seconds_only(ground: Path) -> None:
    tools = ground / "bin"
    tools.mkdir()
    (tools / "docker").write_text(HANG)
    (tools / "docker").chmod(0o755)
    machine = Machine(ground / "tmp", path=f"{tools}:{os.environ['PATH']}")
    job = ScriptedJob(machine, make_workdir(ground / "work"), QUICK)
    job.start()

    assert job.wait(15)["exit_status"] == 3


@pytest.mark.parametrize("shell", SHELLS)
def test_a_lock_that_cannot_be_read_is_not_one_that_is_held(ground: Path, shell: str) -> None:
    job = make_native(ground, 1, QUICK, shell=shell, uid=1001)
    lock = job.machine.tmp / "fleet.lock"
    lock.touch(0o600)

    assert find_disturbances(run_script(job.machine, CPU, "100000"), CPU) == ()
    assert find_leftovers(job.shell, job.settings).holder is None
    lock.chmod(0o644)
    with lock.open() as held:
        subprocess.run(["flock", str(held.fileno())], pass_fds=[held.fileno()], check=True)
        assert find_leftovers(job.shell, job.settings).holder == "another fleet (it left no name)"
        assert "locked" in run_script(job.machine, CPU, "100000").sections
