"""Jobs and machines that are taken: refused, waited for, or measured all the same. Real jobs on this machine; only what
nvidia-smi says of GPUs that are not here is written by the test."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.errors import Busy
from fleet.host import exclusion
from fleet.host.exclusion import Exclusion, Machines
from fleet.model.event import HostProgress
from fleet.model.facts import HostFacts
from fleet.model.left import JobLeft
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.model.telemetry import GpuApp
from fleet.transport.base import Completed, Reader
from tests.host.script_machine import Machine, make_workdir
from tests.host.smi_program import A100, SmiProgram
from tests.host.watched import Unreliable, Watched
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "flock")

PAYLOAD = b"exit 3\n"
INTRUDER = f"{A100}, 4242, 59392, /opt/conda/bin/python3"


@pytest.fixture
def smi(ground: Path) -> SmiProgram:
    return SmiProgram(ground / "smi")


@pytest.fixture
def host(ground: Path, smi: SmiProgram) -> Unreliable:
    return Unreliable(Machine(ground / "tmp", path=smi.path))


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "LOOK_EVERY_S", 0.2)


def watch(ground: Path, host: Unreliable, **how: object) -> Watched:
    return Watched(make_workdir(ground / "work"), host, PAYLOAD, devices="all", **how)  # type: ignore[arg-type]


def was_measured(outcome: HostOutcome) -> bool:
    return outcome.reason == "payload_failed"


@contextmanager
def hold_lock(tmp: Path, who: str) -> Iterator[Callable[[], None]]:
    """Another fleet measures on the machine, until what is given is called."""
    (tmp / "fleet.lock").touch()
    (tmp / "fleet.holder.other").symlink_to(who)
    with (tmp / "fleet.lock").open() as file:
        process = subprocess.Popen(["flock", str(file.fileno())], pass_fds=[file.fileno()])
        process.wait()
        yield file.close


@contextmanager
def all_processors_busy() -> Iterator[None]:
    workers = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def test_a_gpu_that_others_compute_on_is_left_to_them(ground: Path, smi: SmiProgram, host: Unreliable) -> None:
    smi.say(INTRUDER)
    watched = watch(ground, host, exclusion=Exclusion())
    outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.BUSY, Stage.PROBE, "gpu_busy")
    assert outcome.message.startswith("GPU 0 is used by python3 (")
    assert "58.0 of 80.0 GiB, 97 % busy" in outcome.message
    assert "--wait-idle 10m" in outcome.hint and "--ignore-busy" in outcome.hint
    assert [*watched.workdir.iterdir()] == []


def test_who_ignores_it_measures_beside_them_and_it_is_told_after(
    ground: Path, smi: SmiProgram, host: Unreliable
) -> None:
    smi.say(INTRUDER)
    outcome = watch(ground, host, exclusion=Exclusion(ignore=True)).run()

    assert was_measured(outcome)
    name = "/opt/conda/bin/python3"
    assert outcome.others_after == {A100: (GpuApp(pid=4242, name=name, memory_bytes=59392 << 20),)}


def test_a_job_that_was_begun_before_is_gone_on_with(ground: Path, smi: SmiProgram, host: Unreliable) -> None:
    smi.say(INTRUDER)

    assert was_measured(watch(ground, host, exclusion=Exclusion(), left=JobLeft(told=True)).run())


@pytest.mark.parametrize("broken", ["exit 9", "exec sleep 3600"])
def test_a_tool_that_does_not_answer_after_the_job_costs_no_result(
    ground: Path, smi: SmiProgram, host: Unreliable, broken: str
) -> None:
    (smi.directory / "nvidia-smi").write_text(f"#!/bin/sh\ncase $1 in *compute*) {broken} ;; esac\n")
    outcome = watch(ground, host).run()

    assert was_measured(outcome)
    assert outcome.others_after is None


def test_busy_processors_are_told_and_measured_on(ground: Path, host: Unreliable) -> None:
    watched = watch(ground, host, exclusion=Exclusion())
    with all_processors_busy():
        outcome = watched.run()

    assert was_measured(outcome)
    (notice,) = watched.notices
    assert notice.startswith("measured all the same: ")
    assert "% of its processors are busy with other work: " in notice


def test_who_waits_gets_no_result_of_a_machine_that_stays_busy(ground: Path, host: Unreliable) -> None:
    watched = watch(ground, host, exclusion=Exclusion(wait_s=2))
    with all_processors_busy():
        outcome = watched.run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.BUSY, Stage.PROBE, "cpu_busy")
    assert outcome.message.endswith("after 2 s of waiting")
    assert watched.notices[0].startswith("waiting up to 2 s: ")
    assert not watched.directory.exists()


class Idle(Machine):
    """Its /proc/stat stands still."""

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        words = ["sh", "-c", 'mount --bind "$0" /proc/stat && exec "$@"', str(self.tmp.parent / "stat"), *argv]
        return super().run(words, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)


@pytest.fixture
def idle_host(ground: Path, smi: SmiProgram) -> Unreliable:
    """A machine whose processors do nothing."""
    (ground / "stat").write_bytes(Path("/proc/stat").read_bytes())
    return Unreliable(Idle(ground / "tmp", path=smi.path))


def test_a_machine_that_becomes_idle_is_measured(ground: Path, smi: SmiProgram, idle_host: Unreliable) -> None:
    smi.say(INTRUDER)
    watched = watch(ground, idle_host, exclusion=Exclusion(wait_s=60))
    threading.Timer(3, smi.say).start()
    begin = time.monotonic()
    outcome = watched.run()

    assert was_measured(outcome)
    assert time.monotonic() - begin > 3
    (notice,) = watched.notices
    assert notice.startswith("waiting up to 1 min: GPU 0 is used by")
    assert outcome.others_after == {}


def test_a_machine_that_another_fleet_measures_is_waited_for(ground: Path, idle_host: Unreliable) -> None:
    watched = watch(ground, idle_host, exclusion=Exclusion(wait_s=60))
    with hold_lock(ground / "tmp", "you@there (fleet run other, as x)") as release:
        threading.Timer(3, release).start()
        outcome = watched.run()

    assert was_measured(outcome)
    assert watched.notices == ["waiting up to 1 min: it is being measured by you@there (fleet run other, as x)"]


def test_another_reason_to_wait_is_told_once(ground: Path, smi: SmiProgram, idle_host: Unreliable) -> None:
    smi.say(INTRUDER)
    watched = watch(ground, idle_host, exclusion=Exclusion(wait_s=60))
    with hold_lock(ground / "tmp", "you@there (fleet run other, as x)") as release:
        threading.Timer(2, release).start()
        threading.Timer(6, smi.say).start()
        outcome = watched.run()

    assert was_measured(outcome)
    first, second = watched.notices
    assert first.startswith("waiting up to 1 min: it is being measured by you@there")
    assert second.startswith("still waiting, up to ") and "GPU 0 is used by" in second
    waits = [event.detail for event in watched.events if isinstance(event, HostProgress) and event.waiting]
    assert waits[0].startswith("it is being measured by") and waits[-1].startswith("GPU 0 is used by")


def test_a_machine_that_another_fleet_goes_on_measuring_is_busy(ground: Path, idle_host: Unreliable) -> None:
    with hold_lock(ground / "tmp", "you@there (fleet run other, as x)"):
        outcome = watch(ground, idle_host, exclusion=Exclusion(wait_s=1)).run()

    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.BUSY, Stage.START, "locked")
    assert "you@there (fleet run other, as x)" in outcome.message


def test_a_wait_ends_with_the_run(ground: Path, smi: SmiProgram, host: Unreliable) -> None:
    smi.say(INTRUDER)
    watched = watch(ground, host, exclusion=Exclusion(wait_s=3600))

    def cancel() -> None:
        wait_for(lambda: watched.notices)
        watched.cancelled.set()

    threading.Thread(target=cancel).start()
    begin = time.monotonic()
    outcome = watched.run()

    assert outcome.status is HostStatus.CANCELLED
    assert time.monotonic() - begin < 30
    assert [*watched.workdir.iterdir()] == []


def test_a_host_that_is_lost_while_it_is_waited_for_was_not_reached(
    ground: Path, smi: SmiProgram, host: Unreliable
) -> None:
    smi.say(INTRUDER)
    watched = watch(ground, host, exclusion=Exclusion(wait_s=2))
    asked = host.lose("neighbours", "reset")
    outcome = watched.run()

    assert asked
    assert (outcome.status, outcome.stage, outcome.reason) == (HostStatus.UNREACHABLE, Stage.PROBE, "reset")


def facts(machine_id: str | None, boot_id: str | None) -> HostFacts:
    return HostFacts(machine_id_sha256=machine_id, boot_id=boot_id)


def test_a_machine_is_claimed_by_the_first_of_its_names() -> None:
    machines = Machines()
    machines.claim("gpu01", facts("a", "1"))
    machines.claim("gpu01", facts("a", "1"))
    with pytest.raises(Busy) as refused:
        machines.claim("again", facts("a", "1"))

    assert (refused.value.host, refused.value.stage, refused.value.reason) == ("again", "probe", "same_machine")
    assert "as gpu01" in refused.value.message


@pytest.mark.parametrize("other", [("a", "2"), ("b", "1"), ("a", None), (None, "1"), (None, None)])
def test_cloned_disks_and_containers_are_machines_of_their_own(other: tuple[str | None, str | None]) -> None:
    machines = Machines()
    for known in (("a", "1"), other):
        machines.claim(f"{known}", facts(*known))
    machines.claim("third", facts(None, None))


def test_a_payload_that_was_removed_since_the_probe_is_sent_again(ground: Path, host: Unreliable) -> None:
    first = watch(ground, host)
    assert was_measured(first.run())
    (payload,) = first.workdir.iterdir()
    again = Watched(first.workdir, host, PAYLOAD)
    host.do_after("probe", payload.unlink)
    outcome = again.run()

    assert was_measured(outcome)
    assert payload.read_bytes() == PAYLOAD
