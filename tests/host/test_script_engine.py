"""An engine whose client hangs, at any of its commands: the job ends in time, and what was measured is collected."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from fleet.host.steps import cancel_job, clean_job, collect_job
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.lab.engine import docker
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("docker", "unshare", "setpriv", "flock")

PAYLOAD = b"""
import os, sys, time
out = sys.argv[4]
os.makedirs(out + "/cells")
open(out + "/cells/000.json", "w").write("{}")
while not os.path.exists(out + "/go"): time.sleep(0.1)
sys.exit(3)
"""

HANG = """#!/bin/sh
[ ! -e {ground}/hangs ] || case " $* " in *" "$(cat {ground}/hangs)" "*) touch {ground}/hung; sleep 3600 ;; esac
exec {docker} "$@"
"""


def make_job(ground: Path, image: str, hangs: str, *, deadline_s: float = 60) -> ScriptedJob:
    """A job whose engine hangs at commands with this word, but for the test's own."""
    tools = ground / "bin"
    tools.mkdir()
    program = tools / "docker"
    program.write_text(HANG.format(ground=ground, docker=shutil.which("docker")))
    program.chmod(0o755)
    (ground / "hangs").write_text(hangs)
    machine = Machine(ground / "tmp", path=f"{tools}:{os.environ['PATH']}")
    return ScriptedJob(machine, make_workdir(ground / "work"), PAYLOAD, 1, deadline_s, image)


def check_clean(job: ScriptedJob, ground: Path) -> None:
    (ground / "hangs").unlink()
    assert job.is_free()
    assert clean_job(job.shell, job.job, job.settings)
    assert job.job.container not in docker("ps", "--all", "--format", "{{.Names}}").split()
    assert [*job.workdir.glob("jobs/*")] == []


@pytest.mark.parametrize("hangs", ["run", "wait", "[a-z]*"], ids=["run", "wait", "all"])
def test_a_cancel_ends_a_client_that_hangs(ground: Path, tensorflow_image: str, hangs: str) -> None:
    job = make_job(ground, tensorflow_image, hangs)
    job.start()
    wait_for((ground / "hung").exists)
    begin = time.monotonic()
    cancel_job(job.shell, job.job, job.settings)

    assert job.wait(30)["reason"] == "cancelled"
    assert time.monotonic() - begin < 30
    check_clean(job, ground)


def test_a_deadline_ends_a_client_that_hangs_and_keeps_what_was_measured(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, tensorflow_image, "wait", deadline_s=5)
    job.start()
    wait_for((job.directory / "out" / "cells" / "000.json").exists)
    begin = time.monotonic()

    assert job.wait(30)["reason"] == "deadline"
    assert time.monotonic() - begin < 30
    assert collect_job(job.shell, job.job, 1)["cells/000.json"] == b"{}"
    check_clean(job, ground)


def test_an_engine_that_hangs_when_the_job_is_over_costs_one_limit(ground: Path, tensorflow_image: str) -> None:
    job = make_job(ground, tensorflow_image, "nothing")
    job.start()
    wait_for((job.directory / "out" / "cells" / "000.json").exists)
    # All that a job asks once it has ended; `wait` goes on.
    (ground / "hangs").write_text("--format")
    (job.directory / "out" / "go").touch()
    begin = time.monotonic()
    record = job.wait(30)

    assert record["reason"] == "gone"
    assert 10 <= time.monotonic() - begin < 20
    assert collect_job(job.shell, job.job, 1)["cells/000.json"] == b"{}"
    check_clean(job, ground)
