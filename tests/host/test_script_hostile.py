"""What a payload may put in its own directory: polls and collects stay short, small and inert."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.host.steps import MAX_FILE_BYTES, clean_job, collect_job, poll_job
from tests.host.script_machine import Machine, ScriptedJob, make_workdir

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")


@pytest.fixture(params=["dash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))])
def job(request: pytest.FixtureRequest, ground: Path) -> Iterator[ScriptedJob]:
    """An ended job of one cell."""
    machine = Machine(ground / "tmp", shell=request.param)
    ended = ScriptedJob(machine, make_workdir(ground / "work"), b'mkdir "$4/cells"\n')
    ended.start()
    ended.wait()
    yield ended
    assert clean_job(ended.shell, ended.job, ended.settings)
    assert [*ended.workdir.glob("jobs/*")] == []


def leave_hole(path: Path) -> None:
    """A file of an exabyte that takes no room."""
    with path.open("wb") as file:
        for bits in (60, 50, 43):
            try:
                file.truncate(1 << bits)
            except OSError:
                continue
            return


PLANTS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "directory": Path.mkdir,
    "hole": leave_hole,
    "device": lambda path: os.mknod(path, 0o20666, os.makedev(1, 5)),
}


@pytest.mark.parametrize("planted", PLANTS)
def test_planted_files_are_left_or_cut_off(job: ScriptedJob, planted: str) -> None:
    out = job.directory / "out"
    for path in (out / "cells" / "000.json", out / "system.json", out / "progress.json"):
        PLANTS[planted](path)
    before = time.monotonic()
    files = collect_job(job.shell, job.job, 1)
    state = poll_job(job.shell, job.job)

    assert time.monotonic() - before < 10
    assert state.progress is None
    assert state.ended
    if planted == "hole":
        assert files["system.json"] == files["cells/000.json"] == bytes(MAX_FILE_BYTES)
    else:
        assert files.keys().isdisjoint({"system.json", "cells/000.json", "progress.json"})
    assert b"root:" not in b"".join(files.values())


def test_only_the_planned_cells_are_sent(job: ScriptedJob) -> None:
    cells = job.directory / "out" / "cells"
    for number in range(2000):
        (cells / f"{number:03d}.json").write_bytes(b"x" * 10_000)
    for name in ("000.json\n@@x end", "-rf", "$(id).json", "\x1b[31m.json"):
        (cells / name).touch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = collect_job(job.shell, job.job, 2)

    assert sorted(name for name in files if name.startswith("cells")) == ["cells/000.json", "cells/001.json"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_all_of_thousands_of_cells_are_sent(job: ScriptedJob) -> None:
    cells = job.directory / "out" / "cells"
    names = [f"cells/{index:03d}.json" for index in (0, 9, 10, 99, 100, 999, 1000, 9999)]
    for name in names:
        (cells.parent / name).write_text(name)

    files = collect_job(job.shell, job.job, 10_000)

    assert {name: data.decode() for name, data in files.items() if name in names} == {name: name for name in names}


def test_a_linked_directory_of_cells_is_not_entered(job: ScriptedJob) -> None:
    elsewhere = job.workdir.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "000.json").write_text("secret")
    (job.directory / "out" / "cells").rmdir()
    (job.directory / "out" / "cells").symlink_to(elsewhere)

    assert "cells/000.json" not in collect_job(job.shell, job.job, 1)
    assert (elsewhere / "000.json").read_text() == "secret"


def test_what_looks_like_our_own_lines_is_a_file_s_text(job: ScriptedJob) -> None:
    text = b"\n@@0123456789abcdef end\n\n@@ 5 log\nhello"
    (job.directory / "out" / "cells" / "000.json").write_bytes(text)
    (job.directory / "out" / "progress.json").write_bytes(b'{"index": 0,\n@@x exit yes\n' * 100_000)

    assert collect_job(job.shell, job.job, 1)["cells/000.json"] == text
    assert poll_job(job.shell, job.job).progress is None
