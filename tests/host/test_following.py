"""A real job on this machine, watched through everything that can happen to it. Its payload is a shell script: what
follows a job does not know what it runs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fleet.errors import AuthFailed, HostError, HostKeyChanged, Unreachable
from fleet.host.follow import Follower, GivenUp, Patience
from fleet.host.framing import Shell
from fleet.host.pause import Pause
from fleet.host.steps import Task
from fleet.model.event import HostNotice, HostProgress
from fleet.model.inventory import Settings
from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.model.suite import Rules
from fleet.runtime.base import HostJob
from fleet.transport.base import Completed, Transport
from tests.host.doubles import SilentHost
from tests.host.script_machine import Machine, make_workdir
from tests.host.watched import BEGIN, QUICK, Unreliable, Watched
from tests.run_builder import RUN_ID, SHA, make_cells, make_plan

pytestmark = pytest.mark.needs("root", "unshare")


@pytest.fixture
def host(ground: Path) -> Unreliable:
    return Unreliable(Machine(ground / "tmp"))


Watch = Callable[..., Watched]


@pytest.fixture
def watch(ground: Path, host: Unreliable) -> Iterator[Watch]:
    """Watch a job whose payload is this script; what is left of it when the test is over is killed."""
    made: list[Watched] = []

    def make(script: str, **how: object) -> Watched:
        made.append(Watched(make_workdir(ground / "work"), host, script.encode(), **how))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for watched in made:
        watched.end_processes()


def test_a_payload_that_fails_is_followed_collected_and_cleaned(watch: Watch) -> None:
    watched = watch(BEGIN + "sleep 0.5\necho 'ImportError: no numpy' >&2\nexit 3\n")

    outcome = watched.run()

    assert (outcome.status, outcome.reason) == (HostStatus.FAILED, "payload_failed")
    assert "exit status 3; 1 of 1 cells were not measured: ImportError: no numpy" in outcome.message
    assert outcome.job_s is not None
    assert [cell.status for cell in outcome.cells] == ["lost"]
    assert outcome.facts is not None
    assert outcome.started is not None and outcome.finished is not None and outcome.started < outcome.finished
    assert watched.stages == [Stage.CONNECT, Stage.START, Stage.RUN, Stage.COLLECT, Stage.CLEAN]
    assert watched.kept["log"] == b"ImportError: no numpy\n"
    assert json.loads(watched.kept["exit.json"])["exit_status"] == 3
    assert b"lscpu" in watched.kept["probe"]
    assert not watched.directory.exists()


def test_progress_is_told_as_the_payload_writes_it(watch: Watch) -> None:
    watched = watch(BEGIN + "sleep 0.6\n")

    watched.run(lambda: None)

    told = [event for event in watched.events if isinstance(event, HostProgress)]
    assert told[-1].current_cell == watched.plan.cells[0].id
    assert (told[-1].cells_done, told[-1].cells_total) == (0, 1)


def test_a_job_beyond_its_deadline(watch: Watch) -> None:
    outcome = watch(BEGIN + "sleep 60\n", deadline_s=1).run()

    assert (outcome.status, outcome.reason) == (HostStatus.TIMED_OUT, "deadline")


def test_a_cancelled_job_ends_on_the_host(watch: Watch) -> None:
    watched = watch(BEGIN + "sleep 60\n", patience=Patience(poll_min_s=0.1, poll_max_s=0.1, cancel_s=20))
    begin = time.monotonic()

    outcome = watched.run(watched.cancelled.set)

    assert (outcome.status, outcome.stage) == (HostStatus.CANCELLED, Stage.RUN)
    assert time.monotonic() - begin < 15
    assert not watched.directory.exists()


def test_a_run_cancelled_before_it_began_touches_no_host(watch: Watch, host: Unreliable) -> None:
    watched = watch("")
    watched.cancelled.set()

    outcome = watched.run()

    assert (outcome.status, outcome.stage) == (HostStatus.CANCELLED, Stage.CONNECT)
    assert host.calls == 0


def test_a_host_that_falls_silent_is_given_up_and_told_where_to_look(watch: Watch, host: Unreliable) -> None:
    watched = watch(BEGIN + "sleep 60\n")
    begin = time.monotonic()

    outcome = watched.run(lambda: setattr(host, "silent", True))

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.CONTACT_LOST, Stage.RUN, "timeout")
    assert "not answered for 1 s: nothing came for 5 s" in outcome.message
    assert f"The job may still be running there: its directory is {watched.directory}." in outcome.hint
    assert outcome.hint.endswith(f"Take it up with: fleet resume {RUN_ID}")
    assert {cell.status for cell in outcome.cells} == {CellStatus.LOST}
    assert time.monotonic() - begin < 10
    assert len(watched.notices) == 1
    assert watched.directory.exists(), "nothing is cleaned on a host that may still measure"


def test_contact_that_comes_back_costs_a_notice(watch: Watch, host: Unreliable) -> None:
    watched = watch(BEGIN + "sleep 1.2\nexit 3\n", patience=Patience(poll_min_s=0.1, poll_max_s=0.1, contact_s=20))

    def fall_silent() -> None:
        host.silent = True
        threading.Timer(0.5, lambda: setattr(host, "silent", False)).start()

    outcome = watched.run(fall_silent)

    assert outcome.reason == "payload_failed"
    assert watched.notices == ["contact lost, the job goes on there: nothing came for 5 s"]


def test_an_answer_lost_at_every_step_starts_the_job_once(watch: Watch, host: Unreliable) -> None:
    watched = watch('echo run >>"$4/../../../runs"\n' + BEGIN + "exit 3\n")
    host.lose_after = {1, 3}

    outcome = watched.run()

    assert outcome.reason == "payload_failed", outcome
    assert watched.notices[:2] == ["trying again: the connection was reset"] * 2
    assert (watched.workdir / "runs").read_text() == "run\n"


def test_a_host_that_never_answers_was_not_reached(watch: Watch, host: Unreliable) -> None:
    watched = watch("")
    host.silent = True

    outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.UNREACHABLE, Stage.PROBE, "timeout")
    assert watched.notices == [], "a host that hangs is not waited for again"


def test_a_probe_whose_answer_is_lost_is_taken_three_times(watch: Watch, host: Unreliable) -> None:
    watched = watch("")
    host.lose_after = {1, 2, 3}

    outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.UNREACHABLE, Stage.PROBE, "reset")
    assert (host.calls, watched.notices) == (3, ["trying again: the connection was reset"])


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (Unreachable("here", "connect", "refused", "port 22 refused"), 3),
        (Unreachable("here", "connect", "timeout", "did not answer"), 3),
        (Unreachable("here", "connect", "ssh_config", "says nonsense"), 1),
        (AuthFailed("here", "connect", "key_refused", "no key was taken"), 1),
        (HostKeyChanged("here", "connect", "changed", "another key"), 1),
    ],
    ids=lambda value: getattr(value, "reason", None),
)
def test_only_what_may_pass_is_tried_again(watch: Watch, host: Unreliable, error: HostError, tries: int) -> None:
    watched = watch("")
    host.refuses = [error] * 9

    outcome = watched.run()

    assert (outcome.status, outcome.reason) == (error.status, error.reason)
    assert len(host.refuses) == 9 - tries
    assert len(watched.notices) == (tries > 1)


def test_results_are_waited_for_as_long_as_the_job_was(watch: Watch, host: Unreliable) -> None:
    """A network that is cut between the last poll and the end of the collecting."""
    watched = watch(BEGIN + "exit 3\n", patience=Patience(poll_min_s=0.1, poll_max_s=0.1, contact_s=60))

    def come_back() -> None:
        if len(asked) == 5:
            host.lose_no_more("collect")

    asked = host.lose("collect", "reset", then=come_back)

    outcome = watched.run()

    assert (outcome.reason, len(asked)) == ("payload_failed", 5)
    assert watched.notices == ["trying again: the answer did not come"]


def test_a_cancel_leaves_a_probe_that_hangs(ground: Path) -> None:
    release, asked = threading.Event(), threading.Event()

    def hang(argv: Sequence[str], **_: object) -> Completed:
        asked.set()
        release.wait()
        return Completed(0, b"", b"")

    watched = Watched(ground / "work", SilentHost(hang), b"")

    def cancel() -> None:
        asked.wait()
        watched.cancelled.set()

    threading.Thread(target=cancel).start()
    begin = time.monotonic()
    try:
        outcome = watched.run()
    finally:
        release.set()

    assert (outcome.status, outcome.stage) == (HostStatus.CANCELLED, Stage.PROBE)
    assert time.monotonic() - begin < 2


def test_a_start_that_hangs_says_that_nothing_is_known(watch: Watch, host: Unreliable) -> None:
    watched = watch("")
    asked = host.lose("start", "timeout")

    outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.CONTACT_LOST, Stage.START, "timeout")
    assert "whether the job was started is not known" in outcome.message
    assert str(watched.directory) in outcome.hint
    assert len(asked) == 2, "once more, for it may have been chance"


def test_a_cancel_in_a_start_whose_answer_is_lost_ends_the_job(watch: Watch, host: Unreliable) -> None:
    watched = watch(BEGIN + "sleep 60\n", patience=Patience(poll_min_s=0.1, poll_max_s=0.1, cancel_s=20))
    host.lose("start", "timeout", watched.cancelled.set)

    outcome = watched.run()

    assert (outcome.status, outcome.reason) == (HostStatus.CANCELLED, "cancelled")
    assert not watched.directory.exists()


def test_what_cannot_be_collected_is_named(watch: Watch, host: Unreliable) -> None:
    watched = watch(BEGIN + "sleep 0.5\n")
    host.lose("collect", "reset")

    outcome = watched.run()

    assert (outcome.status, outcome.stage) == (HostStatus.CONTACT_LOST, Stage.COLLECT)
    assert outcome.hint.startswith(f"What was measured is still there: {watched.directory}.")
    assert watched.directory.exists()


def test_a_job_that_outstays_its_deadline_is_collected_and_left(watch: Watch) -> None:
    patience = Patience(poll_min_s=0.1, poll_max_s=0.1, overdue_s=-59)
    watched = watch(BEGIN + "sleep 30\n", patience=patience)

    outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.CONTACT_LOST, Stage.RUN, "overdue")
    assert str(watched.directory) in outcome.hint
    assert "stage" in watched.kept
    assert watched.directory.exists()


def test_a_reboot_is_seen_by_the_boot_id(watch: Watch, host: Unreliable) -> None:
    watched = watch(BEGIN + "sleep 60\n")

    outcome = watched.run(lambda: setattr(host, "rebooted", True))

    assert (outcome.status, outcome.reason) == (HostStatus.LOST, "reboot")
    assert "journalctl" in outcome.hint
    assert [cell.status for cell in outcome.cells] == ["lost"]


def test_a_removed_directory_is_a_lost_job(watch: Watch) -> None:
    watched = watch(BEGIN + "exec sleep 60\n")

    def remove() -> None:
        watched.directory.rename(watched.workdir / "away")

    outcome = watched.run(remove)

    assert (outcome.status, outcome.reason) == (HostStatus.LOST, "removed")


def test_a_dead_supervisor_is_replaced_and_the_payload_runs_once(watch: Watch) -> None:
    watched = watch('echo run >>"$4/../../../runs"\n' + BEGIN + "sleep 2\n")

    outcome = watched.run(lambda: watched.kill_processes("supervise.sh"))

    assert (outcome.status, outcome.reason) == (HostStatus.LOST, "killed"), outcome
    assert (watched.workdir / "runs").read_text() == "run\n"
    assert outcome.hint
    assert not watched.directory.exists()


def follow(settings: Settings, transport: Transport, *, cancelled: bool = False) -> tuple[GivenUp, list[object]]:
    """What a follower of a job that nobody hears of says in the end, and what it said before."""
    plan = make_plan({"gpu01": make_cells()}).hosts[0]
    task = Task(plan, RUN_ID, Rules(), b"", SHA, "me")
    job = HostJob(plan.job_id, RUN_ID, "/home/u/.fleet", SHA, 1001, 1001)
    follower = Follower(Shell("gpu01", transport), task, settings, job, "b0", lambda: cancelled, QUICK)
    said: list[object] = []
    with pytest.raises(GivenUp) as given_up:
        for step in follower.follow():
            said.append(step)
            if isinstance(step, Pause):
                time.sleep(min(step.seconds, 0.2))
    return given_up.value, said


def test_whoever_gives_up_names_container_and_directory() -> None:
    error, said = follow(Settings(), SilentHost())

    job_id = make_plan({"gpu01": make_cells()}).hosts[0].job_id
    assert (error.status, error.host, error.stage, error.reason) == ("contact_lost", "gpu01", "run", "timeout")
    assert f"its container is fleet-{job_id}, its directory is /home/u/.fleet/jobs/{job_id}" in error.hint
    assert len([step for step in said if isinstance(step, HostNotice)]) == 1


def test_a_cancelled_job_that_does_not_end_is_given_up() -> None:
    def answer(argv: Sequence[str], **_: object) -> Completed:
        nonce = argv[4]
        lines = ["cancelled"] if len(argv) == 8 else ["boot_id b0", "job present", "supervisor alive"]
        return Completed(0, "".join(f"\n@@{nonce} {line}\n" for line in lines).encode(), b"")

    error, _ = follow(Settings(), SilentHost(answer), cancelled=True)

    assert (error.status, error.reason) == ("contact_lost", "cancel")
    assert "did not end within 1 s of being cancelled" in error.message
