"""The scripts that gather an image on a host, under every kind of /bin/sh and with the tools of the probe alone."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from fleet.errors import Busy, HostError, PreflightFailed
from fleet.host.framing import Shell
from fleet.host.image_archive import read_archive
from fleet.host.image_stream import Stream
from fleet.host.push_steps import (
    UNKNOWN,
    Found,
    Staging,
    find_gathered,
    has_images,
    load_images,
    look_at_images,
    send_part,
)
from tests.host.script_machine import Machine, make_workdir
from tests.host.test_script_shells import SHELLS, lay_tools, read_tools
from tests.image_builder import build_image, make_layer, write_archive
from tests.lab.engine import docker
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")

DATA = os.urandom(300_000)


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, ground: Path) -> Machine:
    tools = lay_tools(ground / "bin", read_tools(), busybox=request.param == "busybox")
    (tools / "docker").symlink_to(shutil.which("docker") or "nowhere")
    return Machine(ground / "tmp", shell=request.param, path=str(tools), uid=1001)


def make_staging(ground: Path, word: str = "push-1") -> Staging:
    return Staging(str(ground / "work"), "image-1.tar", word, f"me@here ({word})")


def send(machine: Machine, staging: Staging, offset: int, data: bytes) -> int:
    return send_part(Shell("here", machine), staging, offset, len(data), io.BytesIO(data))


def test_parts_are_gathered_in_order(machine: Machine, ground: Path) -> None:
    ground.chmod(0o777)
    staging = make_staging(ground)
    path = Path(staging.path)
    assert find_gathered(Shell("here", machine), staging, 1) == (0, "")
    assert send(machine, staging, 0, DATA) == 300_000
    assert send(machine, staging, 300_000, b"more") == 300_004
    assert send(machine, staging, 5, b"from the middle") == 300_004
    assert send(machine, staging, UNKNOWN, b"") == 300_004
    whole = path.read_bytes()

    assert whole == DATA + b"more"
    assert find_gathered(Shell("here", machine), staging, 1) == (300_004, hashlib.sha256(whole).hexdigest())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert send(machine, staging, 0, b"anew") == 4
    assert path.read_bytes() == b"anew"
    assert [p.name for p in machine.tmp.iterdir()] == ["fleet.lock"]


class Stuck:
    """A sender who has stopped in the middle."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self._data = [b"first", b"late"]

    def read(self, most: int, /) -> bytes:
        if len(self._data) == 1:
            self.go_on.wait(60)
        return self._data.pop(0) if self._data else b""


def test_a_sender_that_is_stuck_makes_room_for_its_own_next_try_alone(machine: Machine, ground: Path) -> None:
    make_workdir(ground / "work", 1001)
    staging, stuck = make_staging(ground), Stuck()

    def send_stuck() -> None:
        with contextlib.suppress(HostError):
            send_part(Shell("here", machine), staging, 0, 1, stuck)

    thread = threading.Thread(target=send_stuck)
    thread.start()
    try:
        wait_for(lambda: Path(staging.path).exists() and Path(staging.path).read_bytes() == b"first")
        with pytest.raises(Busy) as busy:
            send(machine, make_staging(ground, "push-2"), 0, DATA)
        assert "in use by me@here (push-1)" in busy.value.message
        assert Path(staging.path).read_bytes() == b"first"
        assert send(machine, staging, 5, b", then the rest") == 20
    finally:
        stuck.go_on.set()
        thread.join()
    assert Path(staging.path).read_bytes() == b"first, then the rest"


def test_what_cannot_be_written_is_told(machine: Machine, ground: Path) -> None:
    (ground / "work").mkdir(mode=0o755)  # root's
    with pytest.raises(PreflightFailed) as foreign:
        send(machine, make_staging(ground), 0, DATA)
    lock = machine.tmp / "fleet.lock"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(PreflightFailed) as pipe:
        send(machine, make_staging(ground), 0, DATA)

    assert foreign.value.reason == "not_written"
    assert pipe.value.reason == "lock_unreadable"


def test_a_full_disk_is_told_and_what_was_written_stays(machine: Machine, ground: Path) -> None:
    workdir = make_workdir(ground / "work", 1001)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k,uid=1001,mode=700", "tmpfs", str(workdir)], check=True)
    try:
        with pytest.raises(PreflightFailed) as full:
            send(machine, make_staging(ground), 0, DATA)
        kept = send(machine, make_staging(ground), UNKNOWN, b"")
    finally:
        subprocess.run(["umount", str(workdir)], check=True)

    assert full.value.reason == "disk_full"
    assert 100_000 < kept <= 200 << 10


@pytest.mark.needs("docker")
def test_an_image_is_loaded_once_and_what_is_left_of_others_goes(machine: Machine, ground: Path) -> None:
    workdir = make_workdir(ground / "work", 1001)
    image = build_image(f"fleet-test/script:{os.getpid()}", [make_layer(b"one"), make_layer(os.urandom(9_000))])
    shell, staging = Shell("here", machine), make_staging(ground)
    for name, days in {"image-old.tar": 8, "image-new.tar": 6}.items():
        (workdir / name).write_bytes(b"part")
        os.utime(workdir / name, (0, time.time() - days * 86_400))
    with write_archive(ground / "archive", image).open("rb") as file:
        archive = read_archive(file)
        stream: Stream = archive.cut([0])
        before = look_at_images(shell, staging.workdir, archive.images)
        try:
            send_part(shell, staging, 0, stream.size, stream.open(0, stream.size, lambda count: None))
            found = load_images(shell, staging, stream, archive.images)
            again = load_images(shell, staging, stream, archive.images)
            after = look_at_images(shell, staging.workdir, archive.images)
        finally:
            docker("image", "rm", "--force", image.name)

    assert before.found == (None,)
    assert before.count_layers(archive.images[0]) == 0
    assert found == again == after.found == (Found(image.id, image.layers),)
    assert has_images(after.found, archive.images)
    assert after.count_layers(archive.images[0]) == 2
    assert after.workdir_room is not None
    assert [path.name for path in workdir.iterdir()] == ["image-new.tar"]
