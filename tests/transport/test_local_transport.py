"""The control node itself, by the same contract."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from fleet.errors import ContactLost
from fleet.model.inventory import Connection, Host
from fleet.transport.local import LocalTransport
from fleet.transport.open import open_transport

HERE = open_transport(Host(alias="localhost", connection=Connection(kind="local")))


def test_it_is_chosen_by_the_connection() -> None:
    assert isinstance(HERE, LocalTransport)
    assert str(HERE.route) == "this machine"


def test_argv_is_not_read_by_a_shell() -> None:
    words = ["a b", "", "$HOME", "`id`", "'", '"', "\\", "*", "two\nlines", "é☃"]
    assert HERE.run(["printf", "%s\\0", *words], timeout_s=5).stdout.decode().split("\0")[:-1] == words


def test_megabytes_go_in_and_come_out() -> None:
    data = os.urandom(5_000_000)
    assert HERE.run(["cat"], stdin=data, timeout_s=20, limit_bytes=len(data)).stdout == data
    assert HERE.run(["true"], stdin=data, timeout_s=20).exit_status == 0
    assert HERE.run(["cat"], stdin=io.BytesIO(data), timeout_s=20, limit_bytes=len(data)).stdout == data


def test_limits_and_status() -> None:
    script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 9"
    done = HERE.run(["sh", "-c", script], timeout_s=10, limit_bytes=10)
    assert (done.exit_status, len(done.stdout), len(done.stderr), done.truncated) == (9, 10, 10, True)


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    assert HERE.run(["no-such-program"], timeout_s=5).exit_status == 127
    (tmp_path / "plain").write_text("x")
    done = HERE.run([str(tmp_path / "plain")], timeout_s=5)
    assert done.exit_status == 126
    assert b"plain" in done.stderr


def test_timeout_ends_the_command_and_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    script = f"(sleep 2; touch {tmp_path}/late) & sleep 20"
    with pytest.raises(ContactLost) as lost:
        HERE.run(["sh", "-c", script], timeout_s=0.5)
    assert lost.value.reason == "timeout"
    assert time.monotonic() - began < 2
    time.sleep(2.2 - (time.monotonic() - began))
    assert not (tmp_path / "late").exists()


def test_death_by_signal() -> None:
    with pytest.raises(ContactLost) as lost:
        HERE.run(["sh", "-c", "kill -9 $$"], timeout_s=5)
    assert lost.value.reason == "no_exit_status"
    assert "signal 9" in lost.value.message


def test_child_in_the_background_lives_on(tmp_path: Path) -> None:
    began = time.monotonic()
    script = f"(sleep 1; touch {tmp_path}/done) >/dev/null 2>&1 & echo started"
    done = HERE.run(["sh", "-c", script], timeout_s=10)
    assert (done.exit_status, done.stdout) == (0, b"started\n")
    assert time.monotonic() - began < 0.9
    time.sleep(1.3)
    assert (tmp_path / "done").exists()
