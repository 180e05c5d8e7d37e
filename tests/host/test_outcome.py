"""From the files of a job to its one outcome: every way a job can end."""

from __future__ import annotations

import json

import pytest

from fleet.host.outcome import Ending, build_outcome
from fleet.host.results import Expectation
from fleet.model.facts import HostFacts
from fleet.model.result import HostStatus as H
from fleet.model.result import Stage as S
from tests.host.job_files import CELLS, GOOD, HOST, IMAGE_ID, PLAN, build, cell, exit_record, failed
from tests.run_builder import DIGEST, RUN_ID, make_facts


def test_all_well() -> None:
    outcome = build()

    assert (outcome.status, outcome.stage, outcome.reason, outcome.message) == (H.OK, S.RUN, None, "")
    assert [c.status for c in outcome.cells] == ["ok", "ok"]
    assert outcome.job_s == 75
    assert outcome.facts == make_facts()
    assert outcome.software is not None
    assert (outcome.software.tensorflow, outcome.software.runtime) == ("2.17.0", "docker")
    assert (outcome.software.image, outcome.software.image_digest) == (HOST.settings.image, DIGEST)


@pytest.mark.parametrize("digests", [[], None])
def test_an_image_of_no_registry_is_named_by_its_id(digests: list[str] | None) -> None:
    software = build({"image.json": json.dumps({"id": IMAGE_ID, "repo_digests": digests}).encode()}).software

    assert software is not None
    assert software.image_digest == IMAGE_ID


def test_what_is_not_known_of_the_software_is_none() -> None:
    software = build({"image.json": None, "system.json": b"{", "exit.json": exit_record(status=1)}).software

    assert software is not None
    assert (software.image_digest, software.tensorflow, software.image) == (None, None, HOST.settings.image)


def test_native_has_no_image() -> None:
    plan = HOST.model_copy(update={"settings": HOST.settings.model_copy(update={"runtime": "native"})})
    software = build_outcome(Expectation(plan, RUN_ID, PLAN.payload_sha256), GOOD, None, None).software

    assert software is not None
    assert (software.runtime, software.image, software.image_digest) == ("native", None, None)


@pytest.mark.parametrize("second", [failed(1, "oom"), failed(1, "unsupported", "precision")])
def test_out_of_memory_and_an_unsupported_precision_are_results(second: bytes) -> None:
    assert build({"cells/001.json": second}).status is H.OK


@pytest.mark.parametrize(
    ("first", "second", "status", "reason"),
    [
        (cell(0), failed(1, "crash", "signal", "It died of SIGSEGV."), H.PARTIAL, "signal"),
        (cell(0), failed(1, "timeout"), H.PARTIAL, "timeout"),
        (failed(0, "invalid", "loss"), failed(1, "crash"), H.FAILED, "loss"),
        (failed(0, "unsupported", "no_gpu"), failed(1, "unsupported", "no_gpu"), H.FAILED, "no_gpu"),
    ],
)
def test_cells_that_failed(first: bytes, second: bytes, status: H, reason: str) -> None:
    outcome = build({"cells/000.json": first, "cells/001.json": second})

    assert (outcome.status, outcome.stage, outcome.reason) == (status, S.RUN, reason)
    assert "of 2 cells failed, first" in outcome.message


INTERRUPTED = {
    "deadline": (exit_record("deadline", 137), H.TIMED_OUT, S.RUN, "deadline", "ended after 600 s"),
    "deadline_native": (exit_record("deadline", 143, "launch"), H.TIMED_OUT, S.RUN, "deadline", "cell_timeout_s"),
    "pull_deadline": (exit_record("deadline", None, "pull"), H.TIMED_OUT, S.PULL, "pull_deadline", HOST.settings.image),
    "cancelled": (exit_record("cancelled", 137), H.CANCELLED, S.RUN, "cancelled", "cancelled while it ran"),
    "cancelled_early": (exit_record("cancelled", None, "pull"), H.CANCELLED, S.PULL, "cancelled", ""),
    "gone": (exit_record("gone", None), H.LOST, S.RUN, "killed", "somebody removed the job"),
}


@pytest.mark.parametrize("name", INTERRUPTED)
@pytest.mark.parametrize("measured", [0, 1])
def test_a_job_that_did_not_come_to_its_own_end(name: str, measured: int) -> None:
    record, status, stage, reason, says = INTERRUPTED[name]
    files = {"exit.json": record, "cells/001.json": None, "system.json": None}

    outcome = build(files if measured else {**files, "cells/000.json": None})

    assert (outcome.status, outcome.stage, outcome.reason) == (status, stage, reason)
    assert says in f"{outcome.message} {outcome.hint}"
    assert [c.status for c in outcome.cells] == ["ok" if measured else "lost", "lost"]
    lost = outcome.cells[1]
    assert (lost.cell, lost.cell_id, lost.index, lost.reason) == (CELLS[1], CELLS[1].id, 1, "no_document")


def test_a_container_removed_after_its_last_cell_has_lost_nothing() -> None:
    assert build({"exit.json": exit_record("gone", None), "container.json": None}).status is H.OK


def test_a_cancelled_job_that_had_measured_everything_is_cancelled_with_its_results() -> None:
    outcome = build({"exit.json": exit_record("cancelled", 0)})

    assert (outcome.status, [c.status for c in outcome.cells]) == (H.CANCELLED, ["ok", "ok"])


def test_a_gpu_host_without_a_gpu_is_first_of_all_a_mistake_of_the_inventory() -> None:
    said = b'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    files = {"exit.json": exit_record("launch_failed", 125, S.LAUNCH, started_unix_s=None), "launch.err": said}
    bare, equipped = HostFacts(), HostFacts(driver="550.54.15")

    assert build(files, facts=bare).hint.startswith("For a host without GPUs set fleet_devices: cpu.")
    assert build(files, facts=bare).message.startswith("no GPU was found on the host")
    assert build(files, facts=equipped).hint.startswith("Install nvidia-container-toolkit")


@pytest.mark.parametrize(("reason", "stage"), [("launch_failed", S.LAUNCH), ("pull_failed", S.PULL)])
def test_what_the_engine_said_is_diagnosed(reason: str, stage: S) -> None:
    record = exit_record(reason, 125, stage, started_unix_s=None)
    said = b"docker: Error response from daemon: unknown or invalid runtime name: nvidia.\nSee 'docker run --help'.\n"

    outcome = build({"exit.json": record, "launch.err": said, "cells/000.json": None, "cells/001.json": None})

    assert (outcome.status, outcome.stage, outcome.reason) == (H.PREFLIGHT_FAILED, stage, "toolkit_not_registered")
    assert "nvidia-ctk" in outcome.hint
    assert outcome.job_s is None


EXITS: dict[str, tuple[int, dict[str, bytes | None], H, str, str]] = {
    "crash": (1, {"log": b"Traceback\nImportError: no numpy\nbye\n"}, H.FAILED, "payload_failed", "ImportError"),
    "silent": (3, {"log": b""}, H.FAILED, "payload_failed", "exit status 3"),
    "no_log": (3, {"log": None}, H.FAILED, "payload_failed", "it printed nothing"),
    "all_well_said": (0, {}, H.FAILED, "payload_failed", "exit status 0; 1 of 2 cells were not measured"),
    "killed": (137, {}, H.FAILED, "killed", "SIGKILL; 1 of 2 cells were not measured"),
    "segfault": (139, {}, H.FAILED, "killed", "SIGSEGV"),
    "no_avx": (132, {}, H.FAILED, "killed", "SIGILL"),
    "real_time_signal": (128 + 50, {}, H.FAILED, "killed", "signal 50"),
    "status_255": (255, {}, H.FAILED, "payload_failed", "exit status 255"),
    "not_found": (
        127,
        {"log": b"env: 'python3': not found\nNOTE: on stdout, from before\n"},
        H.PREFLIGHT_FAILED,
        "no_python",
        "'python3': not found",
    ),
    "not_executable": (
        126,
        {"log": b"sh: python3: Permission denied\n"},
        H.PREFLIGHT_FAILED,
        "no_python",
        "fleet_image",
    ),
    "entrypoint": (
        127,
        {"log": b"/entry.sh: line 2: nvidia-setup: command not found\n"},
        H.PREFLIGHT_FAILED,
        "entrypoint",
        "did not run our command (exit status 127: /entry.sh: line 2: nvidia-setup: command not found)",
    ),
    "no_container_json": (137, {"container.json": None}, H.FAILED, "killed", "SIGKILL"),
    "oom": (137, {"container.json": b'{"OOMKilled": true, "Error": ""}'}, H.FAILED, "oom_killed", "lack of memory"),
    "engine_error": (
        128,
        {"container.json": b'{"OOMKilled": false, "Error": "error setting rlimit type 8: operation not permitted"}'},
        H.PREFLIGHT_FAILED,
        "ulimit_refused",
        "fleet_ulimits",
    ),
    "other_processor": (
        255,
        {"log": b"exec /opt/nvidia/nvidia_entrypoint.sh: exec format error\n"},
        H.PREFLIGHT_FAILED,
        "wrong_architecture",
        "not built for this host's processor",
    ),
}


@pytest.mark.parametrize("name", EXITS)
def test_a_payload_that_ended_too_soon(name: str) -> None:
    exit_status, files, status, reason, says = EXITS[name]

    outcome = build({"exit.json": exit_record(status=exit_status), "cells/001.json": None, **files})

    assert (outcome.status, outcome.reason) == (status, reason), outcome.message
    assert outcome.stage is (S.LAUNCH if status is H.PREFLIGHT_FAILED else S.RUN)
    assert says in f"{outcome.message} {outcome.hint}"
    assert outcome.hint.endswith(".")
    assert [c.status for c in outcome.cells] == ["ok", "lost"]


def test_an_entrypoint_that_ends_well_without_our_command_is_named() -> None:
    nothing = {"cells/000.json": None, "cells/001.json": None, "system.json": None}
    outcome = build({"exit.json": exit_record(status=0), **nothing})

    assert (outcome.status, outcome.stage, outcome.reason) == (H.PREFLIGHT_FAILED, S.LAUNCH, "entrypoint")
    assert "must end in exec" in outcome.hint


def test_a_payload_that_fails_after_its_last_cell_failed() -> None:
    outcome = build({"exit.json": exit_record(status=139)})

    assert (outcome.status, outcome.reason) == (H.FAILED, "killed")
    assert [c.status for c in outcome.cells] == ["ok", "ok"]


def test_a_clock_that_was_set_back_gives_no_duration() -> None:
    assert build({"exit.json": exit_record(finished_unix_s=99)}).job_s is None


def test_what_is_already_known_of_the_host_stands_and_the_cells_are_kept() -> None:
    known = Ending(H.LOST, S.RUN, "reboot", "the machine rebooted \x1b[2J", "Look why.")

    outcome = build({"exit.json": None, "cells/001.json": None}, known)

    assert (outcome.status, outcome.reason, outcome.hint) == (H.LOST, "reboot", "Look why.")
    assert outcome.message == "the machine rebooted \ufffd[2J"
    assert [c.status for c in outcome.cells] == ["ok", "lost"]
    assert outcome.job_s is None
