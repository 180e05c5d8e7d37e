"""The steps' answers from a host that lies, is cut off, or refuses."""

from __future__ import annotations

import json

import pytest

from fleet.errors import Busy, ContactLost, HostError, PreflightFailed, ResultInvalid
from fleet.host.framing import Shell, split_sections
from fleet.host.steps import MAX_FILE_BYTES, ProgressFile, Task, clean_job, collect_job, poll_job, start_job
from fleet.model.inventory import Settings
from fleet.model.result import Stage
from fleet.model.suite import Rules
from fleet.runtime.base import HostJob
from fleet.transport.base import Completed
from tests.host.doubles import HostileHost
from tests.run_builder import RUN_ID, SHA, make_cells, make_plan

PLAN = make_plan({"gpu01": make_cells(count=2)}).hosts[0]
TASK = Task(PLAN, RUN_ID, Rules(), b"payload", SHA, "me@there (fleet run)")
JOB = HostJob(PLAN.job_id, RUN_ID, "/home/u/.fleet", SHA, 1001, 1001)
END = b"\n@@{nonce} end\n"


def shell(*answers: bytes, truncated: bool = False) -> Shell:
    return Shell("gpu01", HostileHost(*answers, truncated=truncated))


def send(name: str, data: bytes, size: int | str | None = None) -> bytes:
    return b"\n@@{nonce} %s %s\n" % (str(len(data) if size is None else size).encode(), name.encode()) + data


def test_files_come_byte_for_byte() -> None:
    tricky = b"\n@@0123456789abcdef 3 log\nabc\r\n\x00\xff"
    files = {"exit.json": b"{}", "log": tricky, "launch.err": b"", "cells/001.json": b"\n"}
    sent = b"welcome to gpu01\n" + b"".join(send(name, data) for name, data in files.items()) + END + b"bye"

    assert collect_job(shell(sent), JOB, 2) == files


def test_cells_beyond_the_thousandth_come_too() -> None:
    files = {f"cells/{index:03d}.json": b"{}" for index in (0, 99, 999, 1000, 9999)}

    sent = b"".join(send(name, data) for name, data in files.items()) + END
    assert collect_job(shell(sent), JOB, 10_000) == files


def test_a_job_that_is_not_there_has_no_files() -> None:
    assert collect_job(shell(b"\n@@{nonce} absent\n"), JOB, 2) == {}


LIES = {
    "too_long": send("log", b"abc", 2) + END,
    "too_short": send("log", b"abc", 4) + END,
    "negative": send("log", b"abc", -1) + END,
    "superscript": send("log", b"ab", "²") + END,
    "five_thousand_digits": send("log", b"ab", "9" * 5000) + END,
    "not_a_number": send("log", b"ab", "two") + END,
    "foreign_name": send("passwd", b"ab") + END,
    "traversal": send("cells/../../../../etc/cron.d/x", b"ab") + END,
    "absolute": send("/etc/passwd", b"ab") + END,
    "beside": send("cells/000.json.bak", b"ab") + END,
    "long_number": send("cells/0000.json", b"ab") + END,
    "newline": b"\n@@{nonce} 2 log\n/etc\nab" + END,
    "no_end": send("log", b"abc"),
    "empty_head": b"\n@@{nonce} \n" + END,
}


@pytest.mark.parametrize("name", LIES)
def test_what_does_not_agree_is_refused(name: str) -> None:
    with pytest.raises((ResultInvalid, ContactLost)) as refused:
        collect_job(shell(LIES[name]), JOB, 2)

    assert refused.value.stage == "collect"
    assert refused.value.reason in {"framing", "cut_off"}
    assert refused.value.hint == "Run it again."


@pytest.mark.parametrize("sent", [b"", b"welcome\n", b"\n@@feedfeedfeedfeed end\n", b"\n@@{nonce} "])
def test_nothing_of_ours_is_a_lost_contact(sent: bytes) -> None:
    with pytest.raises(ContactLost) as lost:
        collect_job(shell(sent), JOB, 2)

    assert lost.value.reason == "cut_off"


def test_more_than_the_limit_is_refused() -> None:
    asked: list[int] = []

    class Flood(HostileHost):
        def run(self, argv, *, stdin=b"", timeout_s, limit_bytes=1 << 20) -> Completed:  # type: ignore[no-untyped-def]
            asked.append(limit_bytes)
            return super().run(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)

    with pytest.raises(ResultInvalid):
        collect_job(Shell("gpu01", Flood(b"yes\n" * 1000, truncated=True)), JOB, 2)
    assert asked == [12 * MAX_FILE_BYTES]


def start(*answers: bytes, push: bool = True) -> HostileHost:
    host = HostileHost(*answers)
    start_job(Shell("gpu01", host), TASK, Settings(), JOB, push=push)
    return host


@pytest.mark.parametrize("answer", ["started", "attached", "adopted"])
def test_a_job_that_runs_is_a_job_that_runs(answer: str) -> None:
    host = start(f"noise\n\n@@{{nonce}} {answer}\n".encode())

    assert host.sent == [TASK.build_spec() + b"payload"]
    assert start(b"\n@@{nonce} started\n", push=False).sent == [TASK.build_spec()]


def test_the_spec_says_what_is_measured_and_for_whom() -> None:
    spec = json.loads(TASK.build_spec())

    assert spec["schema"] == "fleet.spec/1"
    assert (spec["run_id"], spec["job_id"], spec["alias"]) == (RUN_ID, PLAN.job_id, "gpu01")
    assert spec["payload_sha256"] == SHA
    assert [cell["model"] for cell in spec["cells"]] == [cell.model for cell in PLAN.cells]
    assert spec["rules"]["warmup_steps"] == Rules().warmup_steps


REFUSALS: dict[str, tuple[type[HostError], str, str]] = {
    "busy you@there (fleet run 1)": (Busy, "locked", "being measured by you@there (fleet run 1)"),
    f"busy you@there (fleet run {RUN_ID}, as gpu02)": (
        Busy,
        "same_machine",
        f"a machine that this run measures already: you@there (fleet run {RUN_ID}, as gpu02)",
    ),
    "busy": (Busy, "locked", "another fleet (it left no name)"),
    "busy \x1b[2J": (Busy, "locked", "being measured by \ufffd[2J"),
    "disk_full 512": (PreflightFailed, "disk_full", "only 0.5 MiB are free in /home/u/.fleet"),
    "disk_full ²": (PreflightFailed, "disk_full", "only 0.0 MiB are free"),
    "not_writable": (PreflightFailed, "not_writable", "cannot write to the work directory /home/u/.fleet"),
    "not_written spec": (PreflightFailed, "not_written", "the spec could not be written"),
    "not_received spec": (PreflightFailed, "not_received", "the spec did not arrive"),
    "corrupt " + "00" * 32: (PreflightFailed, "corrupt", "did not arrive as it was sent"),
    "lock_unreadable /tmp/fleet.lock": (PreflightFailed, "lock_unreadable", "/tmp/fleet.lock is not a file"),
    "\x1b]0;owned\x07": (PreflightFailed, "start_failed", "starting the job failed: \ufffd]0;owned\ufffd"),
}


@pytest.mark.parametrize("answer", REFUSALS)
def test_why_a_job_was_not_started(answer: str) -> None:
    kind, reason, says = REFUSALS[answer]

    with pytest.raises(kind) as refused:
        start(b"\n@@{nonce} " + answer.encode() + b"\n")

    assert (refused.value.stage, refused.value.reason) == ("start", reason)
    assert says in refused.value.message
    assert refused.value.hint.endswith(".")


def poll(text: str) -> bytes:
    return "".join(f"\n@@{{nonce}} {line}\n" for line in text.split("|")).encode()


def test_a_poll_is_read() -> None:
    said = 'boot_id b0|job present|stage run|supervisor alive|elapsed 42|progress {"index": 1, "done": 1, "new": 0}'

    state = poll_job(shell(poll(said)), JOB)

    assert (state.boot_id, state.present, state.ended, state.supervised) == ("b0", True, False, True)
    assert (state.stage, state.elapsed_s, state.progress) == (Stage.RUN, 42.0, ProgressFile(index=1, done=1))


@pytest.mark.parametrize(
    "said",
    [
        "stage lying in wait|elapsed ²|progress {",
        "stage |elapsed -5|progress ",
        'elapsed 1e9|progress {"index": true, "done": 0}',
        "elapsed " + "9" * 400 + '|progress {"index": 0, "done": -1}',
    ],
)
def test_a_hostile_poll_is_a_job_of_which_nothing_is_known(said: str) -> None:
    state = poll_job(shell(poll("job present|" + said)), JOB)

    assert (state.stage, state.elapsed_s, state.progress) == (None, 0.0, None)
    assert state.present
    assert not state.ended
    assert not state.supervised


def test_clean_says_whether_all_is_gone() -> None:
    assert clean_job(shell(b"\n@@{nonce} clean\n"), JOB, Settings())
    assert not clean_job(shell(b"\n@@{nonce} left\n"), JOB, Settings())


def test_sections_keep_what_looks_like_another_nonce() -> None:
    text = b"noise\n@@aa one\nbody\n@@bb no\n@@aa two x y\n"

    assert [(s.name, s.words, s.body) for s in split_sections("aa", text)] == [
        ("one", (), b"body\n@@bb no"),
        ("two", ("x", "y"), b""),
    ]
