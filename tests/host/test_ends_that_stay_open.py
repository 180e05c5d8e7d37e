"""Whatever cuts a started job off: the run stays open for it, so that its results can still be collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.errors import AuthFailed, HostError, StoreError, Unreachable
from fleet.host.framing import read_script
from fleet.model.result import HostStatus, Stage
from tests.host.script_machine import Machine, make_workdir
from tests.host.watched import BEGIN, Unreliable, Watched
from tests.run_builder import RUN_ID

pytestmark = pytest.mark.needs("root", "unshare")

Watch = Callable[[str], Watched]


@pytest.fixture
def host(ground: Path) -> Unreliable:
    return Unreliable(Machine(ground / "tmp"))


@pytest.fixture
def watch(ground: Path, host: Unreliable) -> Iterator[Watch]:
    made: list[Watched] = []

    def make(script: str) -> Watched:
        made.append(Watched(make_workdir(ground / "work"), host, script.encode()))
        return made[-1]

    yield make
    for watched in made:
        watched.end_processes()


def fail_at(host: Unreliable, monkeypatch: pytest.MonkeyPatch, script: str, error: Exception) -> None:
    """Raise the error in place of running the script."""
    run, text = host.run, read_script(script)

    def fail(argv: list[str], **options: object) -> object:
        if argv[2] == text:
            raise error
        return run(argv, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "run", fail)


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("here", "connect", "refused", "port 22 refused the connection."),
        AuthFailed("here", "connect", "key_refused", "no key was taken."),
    ],
    ids=lambda error: error.status,
)
def test_a_host_out_of_reach_while_it_is_collected_can_be_collected_later(
    watch: Watch, host: Unreliable, monkeypatch: pytest.MonkeyPatch, error: HostError
) -> None:
    watched = watch(BEGIN + "exit 3\n")
    fail_at(host, monkeypatch, "collect", error)

    outcome = watched.run()

    assert (outcome.status, outcome.stage) == (HostStatus.CONTACT_LOST, Stage.COLLECT)
    assert f"still there: {watched.directory}. Get it with: fleet resume {RUN_ID}." in outcome.hint
    assert watched.directory.exists()


def test_a_fault_of_ours_leaves_the_job_to_be_taken_up(
    watch: Watch, host: Unreliable, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(BEGIN + "sleep 30\n")
    fail_at(host, monkeypatch, "poll", RuntimeError("can't start new thread"))

    outcome = watched.run()

    assert (outcome.status, outcome.reason) == (HostStatus.CONTACT_LOST, "internal")
    assert "can't start new thread" in outcome.message
    assert outcome.hint.endswith(f"Take it up with: fleet resume {RUN_ID}")


def test_results_that_cannot_be_stored_stay_where_they_are(
    watch: Watch, host: Unreliable, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(BEGIN + "exit 3\n")
    keep = watched._keep

    def refuse(alias: str, files: dict[str, bytes]) -> None:
        if "exit.json" in files:
            raise StoreError("reports: no space left on device.", "Make room.")
        keep(alias, files)

    monkeypatch.setattr(watched, "_keep", refuse)

    outcome = watched.run()

    assert (outcome.status, outcome.reason) == (HostStatus.CONTACT_LOST, "store")
    assert outcome.hint.startswith("Make room.")
    assert watched.directory.exists()
