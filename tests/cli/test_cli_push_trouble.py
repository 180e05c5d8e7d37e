"""`fleet push-image` where something is wrong: here, on the way, or on the host."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import LabHosts, RunFleet
from tests.image_builder import BuiltImage, build_image, make_layer, make_tar, write_archive
from tests.lab.engine import DOCKER_HOST
from tests.lab.inventory import write_inventory
from tests.lab.spare_engine import SpareEngine

IMAGE = build_image("fleet-test/small:1", [make_layer(b"one"), make_layer(os.urandom(300_000))])
NAMELESS = build_image("", [make_layer(b"one")])
WRONG = build_image("fleet-test/wrong:1", [make_layer(b"one"), make_layer(b"two")])
LONELY = "all:\n  vars: {fleet_image: %s}\n  hosts: {gpu01: {ansible_host: 192.0.2.1}}\n"
PINNED = "nvcr.io/nvidia/tensorflow@sha256:" + "0" * 64

FILES: dict[str, Callable[[Path], object]] = {
    "text.tar": lambda path: path.write_text("no tar\n"),
    "empty.tar": lambda path: path.write_bytes(b""),
    "other.tar": lambda path: path.write_bytes(make_tar({"a": b"b"})),
    "strange.tar": lambda path: path.write_bytes(make_tar({"manifest.json": b"{}"})),
    "nothing.tar": lambda path: path.write_bytes(make_tar({"manifest.json": b"[]"})),
    "torn.tar": lambda path: path.write_bytes(write_archive(path, IMAGE).read_bytes()[:200_000]),
    "torn.tar.gz": lambda path: path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"),
    "halved.tar": lambda path: path.write_bytes(
        make_tar({name: data for name, data in IMAGE.members.items() if "/" in name or name == "manifest.json"})
    ),
    "nameless.tar": lambda path: write_archive(path, NAMELESS),
    "folder.tar": lambda path: path.mkdir(),
}
"""What stands beside the inventory."""

CASES = {
    "nope.tar": (2, r"nope\.tar: no such file or directory"),
    "lab.yaml": (2, r"lab\.yaml is no tar, or is cut off"),  # its ending is no tar's, and it is there
    "./nope": (2, "nope: no such file or directory"),
    "text.tar": (2, r"text\.tar is no tar, or is cut off.*docker save -o"),
    "empty.tar": (2, r"empty\.tar is no tar, or is cut off: empty file"),
    "other.tar": (2, r"other\.tar is no tar made by docker save: it has no manifest\.json"),
    "strange.tar": (2, r"strange\.tar is no tar made by docker save: its manifest\.json cannot be read"),
    "nothing.tar": (2, r"nothing\.tar holds no image"),
    "torn.tar": (2, r"torn\.tar is no tar, or is cut off: unexpected end of data"),
    "torn.tar.gz": (2, r"torn\.tar\.gz is no tar, or is cut off"),
    "halved.tar": (2, r"halved\.tar holds an image whose configuration .* is missing"),
    "nameless.tar": (2, r"nameless\.tar holds an image without a name.*docker tag"),
    "folder.tar": (2, r"folder\.tar is no regular file"),
    PINNED: (2, "is named by its digest, and only a registry.*docker tag"),
}


@pytest.fixture
def files(workspace: Path) -> Path:
    for name, write in FILES.items():
        write(workspace / name)
    (workspace / "lab.yaml").write_text(LONELY % "fleet-test/no-such:1")
    return workspace


@pytest.mark.parametrize("what", CASES)
def test_what_cannot_be_pushed_is_a_sentence(what: str, files: Path, run_fleet: RunFleet) -> None:
    code, says = CASES[what]
    done = run_fleet("push-image", what, "-i", "lab.yaml")

    assert done.returncode == code, done.stderr
    assert re.search(says, done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.needs("docker")
def test_an_image_that_is_not_here_is_a_sentence(files: Path, run_fleet: RunFleet) -> None:
    here = {"DOCKER_HOST": DOCKER_HOST}
    missing = run_fleet("push-image", "-i", "lab.yaml", env=here)
    odd = run_fleet("push-image", "Odd::name", "-i", "lab.yaml", env=here)
    dead = run_fleet("push-image", "-i", "lab.yaml", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    absent = run_fleet("push-image", "-i", "lab.yaml", env={"PATH": str(files)})
    (files / "native.yaml").write_text("all: {hosts: {gpu01: {fleet_runtime: native}}}")
    native = run_fleet("push-image", "-i", "native.yaml", env=here)

    assert [done.returncode for done in (missing, odd, dead, absent, native)] == [2, 2, 1, 1, 6]
    assert re.search(r"has no image fleet-test/no-such:1.*docker pull fleet-test/no-such:1", missing.stderr, re.DOTALL)
    assert "has no image Odd::name" in odd.stderr
    assert re.search(r"systemctl start docker.* Or give a file made by docker save\.", dead.stderr)
    assert "There is no docker on this machine" in absent.stderr
    assert "None of these hosts is measured in a container" in native.stderr


@pytest.mark.needs("docker")
def test_an_image_that_fits_nowhere_here_is_a_sentence(
    lab_hosts: LabHosts, empty_engine: SpareEngine, workspace: Path, run_fleet: RunFleet, tensorflow_image: str
) -> None:
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    done = run_fleet("push-image", "-i", str(inventory), env={"DOCKER_HOST": DOCKER_HOST, "TMPDIR": "/proc/self"})

    assert done.returncode == 1
    assert re.search(rf"{tensorflow_image}.*does not fit into /proc/self.*TMPDIR", done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("ssh", "docker", "setpriv")
def test_hosts_without_room_or_in_use_are_sent_nothing(
    lab_hosts: LabHosts, empty_engine: SpareEngine, big: tuple[BuiltImage, Path], workspace: Path, run_fleet: RunFleet
) -> None:
    (small,) = lab_hosts(1, engine_socket=empty_engine.socket, workdir_size="80m")
    (busy,) = lab_hosts(1, engine_socket=empty_engine.socket)
    busy.exec("ln", "-s", "you@there (fleet run 1)", "/tmp/fleet.holder.1")
    busy.exec("sh", "-c", ": >/tmp/fleet.lock; (flock 9; exec sleep 600) 9</tmp/fleet.lock >/dev/null 2>&1 &")
    inventory = write_inventory(workspace / "lab.yaml", [small, busy])
    done = run_fleet("push-image", str(big[1]), "-i", str(inventory), env={"COLUMNS": "500"})

    assert done.returncode == 3
    assert re.search(rf"✖ {small.alias}\n.*Only 8\d\.\d MB are free in .*needs 200 MB.*fleet_workdir", done.stdout)
    assert re.search(rf"{busy.alias} +busy", done.stdout)
    assert re.search(r"in use by you@there \(fleet run 1\)\. → Nothing is sent meanwhile", done.stdout)
    assert "sent" not in done.stdout.splitlines()[0]  # the column is there when something was
    assert [*small.workdir.iterdir(), *busy.workdir.iterdir()] == []


@pytest.mark.needs("ssh", "docker", "setpriv")
def test_an_archive_that_does_not_load_leaves_nothing(
    lab_hosts: LabHosts, empty_engine: SpareEngine, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    (layer,) = [name for name, data in WRONG.members.items() if data == make_layer(b"two")]
    archive = workspace / "wrong.tar"
    archive.write_bytes(make_tar({**WRONG.members, layer: make_layer(b"not two")}))
    done = run_fleet("push-image", str(archive), "-i", str(inventory), env={"COLUMNS": "500"})

    assert done.returncode == 3
    assert re.search(r"The engine did not load fleet-test/wrong:1 \(invalid diffID .*\)", done.stdout), done.stdout
    assert list(host.workdir.iterdir()) == []


@pytest.mark.needs("ssh", "docker", "setpriv")
def test_a_layer_that_vanished_meanwhile_is_sent_after_all(
    lab_hosts: LabHosts, empty_engine: SpareEngine, workspace: Path, run_fleet: RunFleet
) -> None:
    """The engine says that it has an image, and then has not: its client is one that answers so."""
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    layers = "".join(f'"{layer}",' for layer in IMAGE.layers).rstrip(",")
    lie = f"#!/bin/sh\ncase $* in *' ls '*) echo x ;; *'json .RootFS.Layers}}}} x') echo '[{layers}]' ;;"
    host.exec("tee", "/usr/local/bin/docker", stdin=f'{lie} *) exec /usr/bin/docker "$@" ;; esac\n'.encode())
    host.exec("chmod", "755", "/usr/local/bin/docker")
    inventory = write_inventory(workspace / "lab.yaml", [host])
    archive = write_archive(workspace / "image.tar", IMAGE)
    done = run_fleet("push-image", str(archive), "-i", str(inventory))

    assert done.returncode == 0, done.stdout
    assert f"{host.alias}: sending every layer: " in done.stderr
    assert empty_engine.docker("image", "inspect", "--format", "{{.Id}}", IMAGE.name) == IMAGE.id
    assert list(host.workdir.iterdir()) == []
