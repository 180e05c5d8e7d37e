"""A job whose files are all here, taken up by another controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.model.left import JobLeft
from tests.host.script_machine import Machine, make_workdir
from tests.host.watched import BEGIN, Unreliable, Watched

pytestmark = pytest.mark.needs("root", "unshare")


@pytest.mark.parametrize("silent", [False, True], ids=["the host answers", "the host is silent"])
@pytest.mark.parametrize("damage", [lambda probe: b"", lambda probe: probe[: len(probe) // 2]], ids=["empty", "cut"])
def test_files_that_are_all_here_need_no_probe(damage: Callable[[bytes], bytes], silent: bool, ground: Path) -> None:
    host = Unreliable(Machine(ground / "tmp"))
    first = Watched(make_workdir(ground / "work"), host, (BEGIN + "exit 3\n").encode())
    before = first.run()
    left = JobLeft(told=True, seen=True, files=first.kept | {"probe": damage(first.kept["probe"])})
    host.silent = silent
    again = Watched(first.workdir, host, first.payload, left=left)
    outcome = again.run()

    kept = ("status", "reason", "message", "cells", "job_s")
    assert [getattr(outcome, name) for name in kept] == [getattr(before, name) for name in kept]
    assert (outcome.facts is None, bool(outcome.leftover)) == (silent, silent)
    assert again.notices == ([f"{again.directory} was left on the host: nothing came for 5 s"] if silent else [])
