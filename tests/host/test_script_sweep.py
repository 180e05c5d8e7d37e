"""What `fleet clean` finds on a host and takes away, by the real script."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import Busy, PreflightFailed
from fleet.host.framing import Section
from fleet.host.leftovers import LeftFile, LeftJob, Leftovers, find_leftovers, read_leftovers, remove_leftovers
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.host.test_script_containers import QUICK as QUICK_IN_CONTAINER
from tests.host.test_script_containers import SLOW as SLOW_IN_CONTAINER
from tests.host.test_script_containers import exists, make_job
from tests.host.test_script_jobs import QUICK, SLOW, runs
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")

SHELLS = ["dash", "bash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))]


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, ground: Path) -> Machine:
    return Machine(ground / "tmp", shell=request.param)


@pytest.fixture
def workdir(ground: Path) -> Path:
    return make_workdir(ground / "work")


def find(job: ScriptedJob) -> Leftovers:
    return find_leftovers(job.shell, job.settings)


def states(found: Leftovers) -> dict[str, str]:
    return {left.job_id: left.state for left in found.jobs}


def remove(job: ScriptedJob, *jobs: ScriptedJob) -> Leftovers:
    return remove_leftovers(job.shell, job.settings, [LeftJob(one.job.job_id, "ended") for one in jobs])


def age(job: ScriptedJob) -> None:
    """As if it had ended an hour ago."""
    subprocess.run(["touch", "-d", "1 hour ago", job.directory / "exit.json"], check=True)


def test_a_host_that_never_saw_fleet_has_nothing(machine: Machine, ground: Path) -> None:
    job = ScriptedJob(machine, ground / "none", QUICK)

    assert find(job) == Leftovers(str(ground / "none"))
    assert not (ground / "none").exists()


def test_a_job_that_has_ended_goes_with_all_that_it_left(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(
        machine, workdir, b'mkdir -p "$4/deep"; head -c 300000 /dev/zero >"$4/deep/f"; chmod 500 "$4/deep"\n'
    )
    job.start()
    job.wait()
    (machine.tmp / f"fleet.holder.{job.job.job_id}").symlink_to("me@there")
    (workdir / f"image-{'ab' * 32}").write_bytes(bytes(50_000))
    found = find(job)

    assert states(found) == {job.job.job_id: "recent"}
    age(job)
    assert states(find(job)) == {job.job.job_id: "ended"}
    assert 300_000 < (found.jobs[0].size_bytes or 0) < 1_000_000
    assert [file.name.partition("-")[0] for file in found.files] == ["payload", "image"]
    assert 350_000 < found.size_bytes < 1_000_000
    assert found.holders == (job.job.job_id,)
    assert remove(job, job) == Leftovers(str(workdir))
    assert [*workdir.iterdir()] == []
    assert [path.name for path in machine.tmp.iterdir()] == ["fleet.lock"]


def test_what_is_not_named_stays_and_so_does_what_it_is_started_with(machine: Machine, workdir: Path) -> None:
    old, other = ScriptedJob(machine, workdir, QUICK, 1), ScriptedJob(machine, workdir, QUICK + b"#", 2)
    for job in (old, other):
        job.start()
        job.wait()
    left = remove(old, old)

    assert states(left) == {other.job.job_id: "recent"}
    assert left.files == (), "a job that has ended needs no benchmark"


def test_a_job_that_runs_is_never_touched(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, SLOW)
    job.start()
    wait_for(lambda: runs(job))
    with pytest.raises(Busy, match="is being measured by me@there"):
        replace(job, number=2, payload=QUICK).start()
    found = remove(job, job)

    assert states(found) == {job.job.job_id: "running"}
    assert found.holder == "me@there (fleet run test)"
    assert found.holders == (job.job.job_id,)
    assert [file.name for file in found.files] == [f"payload-{job.sha256}.pyz"]
    (job.directory / "out" / "go").touch()
    assert job.wait()["exit_status"] == 3


def test_a_job_without_its_supervisor_runs_while_its_payload_does(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, SLOW)
    job.start()
    wait_for(lambda: runs(job))
    job.kill_supervisor()

    assert states(remove(job, job)) == {job.job.job_id: "running"}
    (job.directory / "out" / "go").touch()
    wait_for(lambda: not job.find_processes())
    found = find(job)
    assert states(found) == {job.job.job_id: "dead"}
    # It may still be taken up, and is started with this.
    assert remove(job).files == found.files != ()
    assert remove(job, job) == Leftovers(str(workdir))


def test_a_job_that_is_just_being_started_is_not_touched(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, QUICK)
    (job.directory / "out").mkdir(parents=True)
    (workdir / f"payload-{job.sha256}.pyz.tmp.7").write_bytes(b"half")
    (machine.tmp / "fleet.lock").touch()
    with (machine.tmp / "fleet.lock").open() as lock:
        subprocess.run(["flock", str(lock.fileno())], pass_fds=[lock.fileno()], check=True)
        found = remove(job, job)

    assert states(found) == {job.job.job_id: "running"}
    assert len(found.files) == 1
    assert states(find(job)) == {job.job.job_id: "dead"}
    assert remove(job, job) == Leftovers(str(workdir))


def test_a_directory_of_others_is_left_alone(machine: Machine, ground: Path) -> None:
    theirs = make_workdir(ground / "theirs", 1234)
    (ground / "link").symlink_to(make_workdir(ground / "ours"))
    for path in (theirs, ground / "link"):
        with pytest.raises(PreflightFailed) as refused:
            remove(ScriptedJob(machine, path, QUICK))
        assert (refused.value.reason, refused.value.stage) == ("workdir_foreign", "clean")
        assert path.exists()


def test_names_that_are_not_fleet_s_are_left_alone(machine: Machine, workdir: Path) -> None:
    for name in ("jobs/-rf", "jobs/a b", "jobs/..x", "notes"):
        (workdir / name).mkdir(parents=True)
    (workdir / "jobs" / "file").touch()
    (workdir / "jobs" / "elsewhere").symlink_to(workdir / "notes")
    job = ScriptedJob(machine, workdir, QUICK)
    before = sorted(workdir.rglob("*"))

    assert find(job).jobs == ()
    settings = job.settings
    odd = [LeftJob(name, "ended") for name in ("-rf", "a b", "../../notes", "elsewhere/../file", "*")]
    assert remove_leftovers(job.shell, settings, odd).jobs == ()
    assert sorted(workdir.rglob("*")) == before


@pytest.mark.needs("docker")
def test_containers_go_with_their_job_and_without_it(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, QUICK_IN_CONTAINER, tensorflow_image, uid=1234)
    job.start()
    job.wait()
    (there,) = find(job).jobs
    assert (there.job_id, there.state, there.container) == (job.job.job_id, "recent", True)
    shutil.rmtree(job.directory)
    assert find(job).jobs == (LeftJob(job.job.job_id, "dead", None, container=True),)

    assert remove(job, job) == Leftovers(str(job.workdir))
    assert not exists(job)


@pytest.mark.needs("docker")
def test_a_container_that_runs_and_one_of_another_directory_are_not_touched(
    ground: Path, tensorflow_image: str
) -> None:
    job = make_job(ground, SLOW_IN_CONTAINER, tensorflow_image)
    job.start()
    wait_for((job.directory / "out" / "ran").exists)
    job.kill_supervisor()
    for process in job.find_processes():
        subprocess.run(["kill", "-KILL", process.split()[0]])
    elsewhere = ScriptedJob(
        job.machine, make_workdir(ground / "other"), SLOW_IN_CONTAINER, os.getpid(), 60, tensorflow_image
    )
    found = remove(job, job)

    assert found.jobs == (LeftJob(job.job.job_id, "running", found.jobs[0].size_bytes, container=True),)
    assert remove(elsewhere, elsewhere) == Leftovers(str(elsewhere.workdir))
    assert exists(job)
    (job.directory / "out" / "go").touch()
    wait_for(lambda: states(find(job)) == {job.job.job_id: "dead"})
    assert remove(job, job) == Leftovers(str(job.workdir))
    assert not exists(job)


@pytest.mark.needs("docker")
def test_without_the_engine_nothing_is_touched(ground: Path, tensorflow_image: str) -> None:
    program = ground / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    machine = Machine(ground / "tmp", path=f"{program.parent}:{os.environ['PATH']}")
    job = ScriptedJob(machine, make_workdir(ground / "work"), QUICK, image=tensorflow_image)
    job.directory.mkdir(parents=True)
    with pytest.raises(PreflightFailed) as refused:
        remove(job, job)

    assert refused.value.reason == "docker_not_running"
    assert job.directory.exists()


def test_a_host_that_lies_is_not_believed() -> None:
    sections = [
        Section("workdir", ("none",), b"/home/\x1b[31mx\n"),
        Section("job", ("../../etc", "ended", "4"), b""),
        Section("job", ("20261201T000000Z-test-1", "sleeping", "4"), b""),
        Section("job", ("20261201T000000Z-test-2", "ended", "9" * 500), b""),
        Section("job", ("a", "b"), b""),
        Section("container", ("-x", "running"), b""),
        Section("file", ("4", "payload-\x1b[31m"), b""),
        Section("holder", ("$(reboot)",), b""),
        Section("whatever", (), b""),
    ]
    found = read_leftovers("gpu01", sections)

    assert found.jobs == (LeftJob("20261201T000000Z-test-2", "ended", 0),)
    assert "\x1b" not in found.workdir
    assert found.files == (LeftFile("payload-\ufffd[31m", 4096),)
    assert found.holders == ()


JOBS = tuple(LeftJob(f"r-{state}", state, 1024) for state in ("running", "recent", "ended", "dead"))


def test_what_goes_is_chosen() -> None:
    files, holders = (LeftFile("payload-x.pyz", 5),), ("r-running", "r-ended")
    there = Leftovers("/w", JOBS, files, holders)
    everything = there.choose(lambda job: True)

    assert [job.state for job in everything.jobs] == ["recent", "ended", "dead"]
    assert everything.files == (), "the one that runs may need it"
    assert there.choose(lambda job: job.state == "ended").jobs == (JOBS[2],)
    idle = Leftovers("/w", JOBS[1:], files, holders)
    assert idle.choose(lambda job: True).without(idle) == Leftovers("/w")
    assert idle.choose(lambda job: job.state == "ended").files == (), "a dead one may be taken up"
    locked = Leftovers("/w", JOBS[2:3], files, holders, holder="you")
    assert locked.choose(lambda job: True) == Leftovers("/w", JOBS[2:3], (), ("r-ended",), holder="you")
