"""A job on its host, by the real scripts: started in all ways, killed at every stage, and nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleet.errors import Busy, HostError, PreflightFailed
from fleet.host.framing import Shell
from fleet.host.steps import cancel_job, clean_job, collect_job, poll_job, start_job
from fleet.model.result import Stage
from fleet.transport.base import Completed, Reader
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")

QUICK = b'mkdir -p "$4/cells"; echo ran >>"$4/runs"; echo hello; exit 3\n'
SLOW = b'mkdir -p "$4/cells"; echo ran >>"$4/runs"; while [ ! -e "$4/go" ]; do sleep 0.1; done; exit 3\n'
STUBBORN = b'trap "" TERM; setsid sh -c \'trap "" TERM; sleep 3600\' & touch "$4/up"; while :; do sleep 3600; done\n'


@dataclass(frozen=True)
class Eater(Machine):
    """A machine whose login shell reads what is meant for the command, as a .bashrc with `cat` in it does."""

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        return super().run(argv, timeout_s=timeout_s, limit_bytes=limit_bytes)


@pytest.fixture
def machine(ground: Path) -> Machine:
    return Machine(ground / "tmp")


@pytest.fixture
def workdir(ground: Path) -> Path:
    return make_workdir(ground / "work")


def runs(job: ScriptedJob) -> int:
    """How often the payload was begun."""
    path = job.directory / "out" / "runs"
    return path.read_text().count("ran") if path.exists() else 0


def test_a_job_from_start_to_clean(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, QUICK)
    job.start()
    record = job.wait()

    assert (record["reason"], record["exit_status"], record["stage"]) == ("exited", 3, "run")
    assert record["job_id"] == job.job.job_id
    begun_s = int((job.directory / "started").read_text())
    os.utime(job.directory / "exit.json", (begun_s + 7, begun_s + 7))
    state = poll_job(job.shell, job.job)
    assert (state.present, state.ended, state.stage) == (True, True, Stage.RUN)
    assert state.elapsed_s == 7  # whenever it is asked
    files = collect_job(job.shell, job.job, 0)
    assert files["log"] == b"hello\n"
    assert files["supervise.err"] == b""
    assert job.is_free()
    assert clean_job(job.shell, job.job, job.settings)
    assert [path.name for path in workdir.iterdir()] == [f"payload-{job.sha256}.pyz"]
    assert [path.name for path in machine.tmp.iterdir()] == ["fleet.lock"]


def test_starting_again_changes_nothing(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, SLOW)
    threads = [threading.Thread(target=job.start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # No moment passes between the answer and the supervisor, in which a poll would start it again.
    assert poll_job(job.shell, job.job).supervised
    job.start()
    wait_for(lambda: runs(job))
    job.start(push=False)
    (job.directory / "out" / "go").touch()

    assert job.wait()["exit_status"] == 3
    job.start()
    assert runs(job) == 1


@pytest.mark.parametrize("part", ["nothing", "spec", "payload"])
def test_a_start_that_was_cut_off_is_made_anew(machine: Machine, workdir: Path, part: str) -> None:
    job = ScriptedJob(machine, workdir, QUICK + b"#" * 100_000)
    job.directory.mkdir(parents=True, mode=0o700)
    if part != "nothing":
        (job.directory / "spec.json").write_bytes(b"{")
        (job.directory / "out").mkdir()
    if part == "payload":
        (workdir / f"payload-{job.sha256}.pyz.tmp.1").write_bytes(b"half")
    job.start()

    assert job.wait()["exit_status"] == 3
    assert job.directory.joinpath("spec.json").read_bytes() == job.task.build_spec()


def test_a_payload_cut_short_starts_nothing(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, QUICK)
    with pytest.raises(PreflightFailed, match="did not arrive"):
        start_job(job.shell, replace(job.task, payload=QUICK[:-4]), job.settings, job.job, push=True)
    assert not job.directory.exists()
    assert job.is_free()
    assert [*workdir.rglob("*.tmp*")] == []


def test_a_start_whose_input_was_eaten_says_so(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, QUICK)
    with pytest.raises(PreflightFailed, match="reads our input") as refused:
        start_job(Shell("here", Eater(machine.tmp)), job.task, job.settings, job.job, push=True)
    assert refused.value.reason == "not_received"
    assert [*workdir.iterdir()] == []


def test_a_killed_supervisor_is_replaced_while_the_payload_works(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, SLOW)
    job.start()
    wait_for(lambda: runs(job))
    job.kill_supervisor()
    state = poll_job(job.shell, job.job)
    assert (state.supervised, state.ended) == (False, False)
    assert not job.is_free()
    with pytest.raises(Busy, match=r"me@there \(fleet run test\)"):
        ScriptedJob(machine, workdir, QUICK, number=2).start()
    wait_for(job.take_up)
    assert not job.is_free()
    (job.directory / "out" / "go").touch()

    assert job.wait()["reason"] == "gone"
    assert runs(job) == 1
    assert job.is_free()


def test_the_status_is_known_when_the_first_supervisor_alone_was_killed(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, SLOW)
    job.start()
    wait_for(lambda: runs(job))
    supervisor = next(line for line in job.find_processes() if "supervise.sh" in line).split()[0]
    os.kill(int(supervisor), signal.SIGKILL)
    (job.directory / "out" / "go").touch()
    wait_for(lambda: job.take_up() and (job.directory / "exit.json").exists())

    assert (job.wait()["reason"], job.wait()["exit_status"]) == ("exited", 3)


@pytest.mark.parametrize("killed", [False, True], ids=["", "supervisor-killed"])
def test_nothing_survives_the_deadline(machine: Machine, workdir: Path, killed: bool) -> None:
    job = ScriptedJob(machine, workdir, STUBBORN, deadline_s=2)
    job.start()
    wait_for((job.directory / "out" / "up").exists)
    if killed:
        job.kill_supervisor()
        wait_for(job.take_up)
    record = job.wait()

    assert record["reason"] == "deadline"
    assert job.is_free()


def test_nothing_survives_a_cancel(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, STUBBORN)
    job.start()
    wait_for((job.directory / "out" / "up").exists)
    cancel_job(job.shell, job.job, job.settings)
    record = job.wait()

    assert record["reason"] == "cancelled"
    cancel_job(job.shell, job.job, job.settings)
    assert clean_job(job.shell, job.job, job.settings)
    cancel_job(job.shell, job.job, job.settings)
    assert [*workdir.glob("jobs/*")] == []


def test_a_lost_directory_ends_what_ran_in_it(machine: Machine, workdir: Path) -> None:
    job = ScriptedJob(machine, workdir, STUBBORN)
    job.start()
    wait_for((job.directory / "out" / "up").exists)
    shutil.rmtree(job.directory)

    assert not poll_job(job.shell, job.job).present
    assert collect_job(job.shell, job.job, 1) == {}
    assert clean_job(job.shell, job.job, job.settings)
    wait_for(lambda: not job.find_processes() and job.is_free(), 10)
    assert [path.name for path in machine.tmp.iterdir()] == ["fleet.lock"]


def test_a_log_without_end_stays_small(machine: Machine, workdir: Path) -> None:
    text = b"head -c 100000000 /dev/zero | tr '\\0' x; echo the end\n"
    job = ScriptedJob(machine, workdir, text)
    job.start()

    assert job.wait(60)["exit_status"] == 0
    log = (job.directory / "log").read_bytes()
    assert (len(log), log[-8:]) == (262144, b"the end\n")


@pytest.mark.parametrize("what", ["blocks", "inodes"])
def test_a_disk_that_fills_up_does_not_cost_the_ending(machine: Machine, workdir: Path, what: str) -> None:
    options = "size=4m" if what == "blocks" else "nr_inodes=64"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "tmpfs", str(workdir)], check=True)
    fill = b'head -c 9000000 /dev/zero >"$4/fill"' if what == "blocks" else b"for i in $(seq 99); do touch $4/$i; done"
    try:
        job = ScriptedJob(machine, workdir, fill + b" 2>/dev/null; echo much; exit 7\n")
        job.start()
        record = job.wait()

        assert (record["reason"], record["exit_status"]) == ("exited", 7)
        assert collect_job(job.shell, job.job, 0)["log"] == b"much\n"
        assert clean_job(job.shell, job.job, job.settings)
    finally:
        subprocess.run(["umount", "--lazy", str(workdir)], check=True)


def test_clean_removes_what_its_owner_cannot_write(ground: Path) -> None:
    workdir = make_workdir(ground / "work", 1234)
    job = ScriptedJob(
        Machine(ground / "tmp", uid=1234), workdir, b'mkdir -p "$4/a/b"; touch "$4/a/b/c"; chmod -R 500 "$4/a"'
    )
    job.start()
    job.wait()

    assert clean_job(job.shell, job.job, job.settings)
    assert not job.directory.exists()


@pytest.mark.parametrize("second", [1002, 0])
def test_the_lock_is_for_all_users(ground: Path, second: int) -> None:
    jobs = []
    for number, uid in enumerate((1001, second)):
        workdir = make_workdir(ground / f"work{number}", uid)
        jobs.append(ScriptedJob(Machine(ground / "tmp", uid=uid), workdir, SLOW, number))
    first, other = jobs
    first.start()
    with pytest.raises(Busy, match="me@there"):
        other.start()
    assert not other.directory.exists()
    wait_for(lambda: runs(first))
    (first.directory / "out" / "go").touch()
    first.wait()
    other.start()
    wait_for(lambda: runs(other))
    (other.directory / "out" / "go").touch()
    assert other.wait()["exit_status"] == 3


@pytest.mark.parametrize("planted", ["link", "dangling", "pipe", "directory", "unreadable"])
def test_a_planted_lock_is_refused_at_once(ground: Path, planted: str) -> None:
    machine = Machine(ground / "tmp", uid=1001)
    workdir = make_workdir(ground / "work", 1001)
    plant(machine.tmp / "fleet.lock", planted, ground)
    with pytest.raises(HostError, match=r"fleet\.lock is not a file that can be read") as caught:
        ScriptedJob(machine, workdir, QUICK).start()
    assert caught.value.reason == "lock_unreadable"
    assert not (ground / "nowhere").exists()


@pytest.mark.parametrize("planted", ["link", "dangling", "pipe", "directory", "unreadable"])
def test_a_planted_holder_neither_hangs_nor_leads_astray(ground: Path, planted: str) -> None:
    machine = Machine(ground / "tmp", uid=1001)
    workdir = make_workdir(ground / "work", 1001)
    job = ScriptedJob(machine, workdir, SLOW)
    plant(machine.tmp / f"fleet.holder.{job.job.job_id}", planted, ground)
    plant(machine.tmp / "fleet.holder.zzz", planted, ground)
    job.start()
    with pytest.raises(Busy):
        ScriptedJob(machine, workdir, SLOW, number=2).start()
    wait_for(lambda: runs(job))
    (job.directory / "out" / "go").touch()
    assert job.wait()["exit_status"] == 3
    assert not (ground / "nowhere").exists()


def plant(path: Path, what: str, beside: Path) -> None:
    """Put something of root's where fleet expects its own."""
    secret = beside / "secret"
    secret.write_text("secret")
    if what == "link":
        path.symlink_to(secret)
    elif what == "dangling":
        path.symlink_to(beside / "nowhere")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    else:
        path.touch(0o600)
