"""A job in a real container, by the real scripts: ended in every stage, with nothing of it left."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from fleet.errors import Busy
from fleet.host.steps import cancel_job, clean_job, collect_job, poll_job
from fleet.model.result import Stage
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.lab.engine import LabError, docker
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("docker", "unshare", "setpriv", "flock")

BEGIN = b"""
import os, sys, time
out = sys.argv[4]
os.makedirs(out + "/cells/deep")
open(out + "/cells/000.json", "w").write("{}")
os.chmod(out + "/cells/deep", 0o500)
open(out + "/ran", "a").write("x")
"""
QUICK = BEGIN + b"sys.exit(3)\n"
SLOW = BEGIN + b"while not os.path.exists(out + '/go'): time.sleep(0.1)\nsys.exit(3)\n"


def make_job(
    ground: Path, payload: bytes, image: str, *, uid: int = 0, deadline_s: float = 60, shell: str = "dash"
) -> ScriptedJob:
    workdir = make_workdir(ground / "work", uid)
    return ScriptedJob(Machine(ground / "tmp", shell=shell, uid=uid), workdir, payload, 1, deadline_s, image)


def exists(job: ScriptedJob) -> bool:
    try:
        return bool(docker("container", "inspect", "--format", "{{.Id}}", job.job.container))
    except LabError:
        return False


def check_clean(job: ScriptedJob) -> None:
    assert clean_job(job.shell, job.job, job.settings)
    assert not exists(job)
    assert job.is_free()
    assert [path.name for path in job.workdir.iterdir()] in ([], [f"payload-{job.sha256}.pyz"])
    assert [path.name for path in job.machine.tmp.iterdir()] == ["fleet.lock"]


@pytest.mark.parametrize("uid", [0, 1234], ids=["root", "user"])
def test_a_container_from_start_to_clean(ground: Path, tensorflow_image: str, uid: int) -> None:
    job = make_job(ground, QUICK, tensorflow_image, uid=uid)
    job.start()
    record = job.wait()
    files = collect_job(job.shell, job.job, 1)

    assert (record["reason"], record["exit_status"]) == ("exited", 3)
    assert (job.directory / "out" / "ran").stat().st_uid == (uid or 65534)
    assert files["cells/000.json"] == b"{}"
    assert b"NVIDIA" in files["log"]
    assert files["supervise.err"] == b""
    assert b'"id":"sha256:' in files["image.json"]
    check_clean(job)


@pytest.mark.parametrize("supervised", [True, False], ids=["", "supervisor-killed"])
def test_a_container_ends_at_its_deadline(ground: Path, tensorflow_image: str, supervised: bool) -> None:
    job = make_job(ground, SLOW, tensorflow_image, deadline_s=4)
    job.start()
    wait_for((job.directory / "out" / "ran").exists)
    if not supervised:
        job.kill_supervisor()
        assert not job.is_free()
        with pytest.raises(Busy, match="me@there"):
            ScriptedJob(job.machine, job.workdir, SLOW, 2, 60, tensorflow_image).start()
        wait_for(job.take_up)
    record = job.wait()

    assert record["reason"] == "deadline"
    check_clean(job)


def test_a_cancelled_container_ends(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, SLOW, tensorflow_image)
    job.start()
    wait_for((job.directory / "out" / "ran").exists)
    cancel_job(job.shell, job.job, job.settings)

    assert job.wait()["reason"] == "cancelled"
    check_clean(job)


def test_a_cancel_before_the_launch_or_in_it(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, SLOW, tensorflow_image)
    job.start()
    cancel_job(job.shell, job.job, job.settings)

    assert job.wait()["reason"] == "cancelled"
    check_clean(job)


@pytest.mark.parametrize("killed", [False, True], ids=["", "supervisor-killed"])
def test_a_registry_that_hangs_can_be_cancelled(ground: Path, killed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as registry:
        image = f"127.0.0.1:{registry.getsockname()[1]}/hangs:latest"
        job = make_job(ground, SLOW, image)
        job.start()
        wait_for(lambda: poll_job(job.shell, job.job).stage is Stage.PULL)
        if killed:
            job.kill_supervisor()
            assert not job.is_free()
            wait_for(job.take_up)
        cancel_job(job.shell, job.job, job.settings)

        assert job.wait()["reason"] == "cancelled"
        check_clean(job)


def test_a_supervisor_killed_anywhere_loses_nothing(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, SLOW, tensorflow_image)
    job.start()
    for _ in range(4):
        # The next one is killed in another moment of its life.
        supervisor = [line for line in job.find_processes() if "supervise.sh" in line]
        if supervisor:
            os.kill(int(supervisor[0].split()[0]), signal.SIGKILL)
        wait_for(job.take_up)
    wait_for(lambda: job.take_up() and (job.directory / "out" / "ran").exists())
    (job.directory / "out" / "go").touch()
    # What the last one was asking the engine may have outlived it, and passed for it until now.
    wait_for(lambda: job.take_up() and (job.directory / "exit.json").exists())
    record = job.wait()

    assert (record["reason"], record["exit_status"]) == ("exited", 3)
    assert (job.directory / "out" / "ran").read_text() == "x"
    check_clean(job)


def test_a_container_that_was_made_and_not_started_is_started(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, QUICK, tensorflow_image)
    docker("create", "--name", job.job.container, "--entrypoint", "sh", tensorflow_image, "-c", "exit 9")
    job.start()

    assert job.wait()["exit_status"] == 9
    check_clean(job)
