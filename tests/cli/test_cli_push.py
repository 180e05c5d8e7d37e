"""`fleet push-image` to real SSH hosts, whose engine is another one than that of this machine."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, LabHosts, RunFleet
from tests.image_builder import BuiltImage, build_image, make_layer, write_archive
from tests.lab.engine import DOCKER_HOST, docker
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.lab.spare_engine import SpareEngine
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("ssh", "docker", "setpriv")

BASE = [make_layer(os.urandom(3_000_000)), make_layer(os.urandom(1_000_000))]
HERE = {"DOCKER_HOST": DOCKER_HOST}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    """An image that this machine's engine has."""
    image = build_image(f"fleet-test/base:{os.getpid()}", BASE)
    docker("load", "--input", str(write_archive(tmp_path_factory.mktemp("image") / "base.tar", image)))
    yield image
    docker("image", "rm", "--force", image.name)


def read_hosts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What `--json` says of each host."""
    document = json.loads(done.stdout)
    assert document["schema"] == "fleet.push/1"
    return {host["alias"]: host for host in document["hosts"]}


def find_id(engine: SpareEngine, name: str) -> str:
    return engine.docker("image", "inspect", "--format", "{{.Id}}", name)


def find_gathered(host: LabHost) -> int:
    """Bytes that the host has been sent and has not loaded."""
    return sum(path.stat().st_size for path in host.workdir.glob("image-*"))


def start_push(workspace: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fleet", "push-image", *arguments],
        cwd=workspace,
        env={**os.environ, **HERE, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_hosts_get_what_they_lack_and_no_more(
    lab_hosts: LabHosts, empty_engine: SpareEngine, base: BuiltImage, workspace: Path, run_fleet: RunFleet
) -> None:
    (lacking,) = lab_hosts(1, engine_socket=empty_engine.socket)
    having, native, gone = lab_hosts(3)
    gone.stop()
    hosts = [lacking, having, native, gone]
    own = {native.alias: {"fleet_runtime": "native"}}
    inventory = write_inventory(workspace / "lab.yaml", hosts, overrides=own, fleet_image=base.name)
    shown = run_fleet("push-image", "-i", str(inventory), env={**HERE, "COLUMNS": "80"})

    assert shown.returncode == 4, shown.stderr
    assert re.search(rf"{lacking.alias} +ok +4\.0\d MB .*{base.name}", shown.stdout), shown.stdout
    assert re.search(rf"{having.alias} +skipped .*the image was there already", " ".join(shown.stdout.split()))
    assert "2/3 hosts have the image." in shown.stdout
    assert re.search(rf"✖ {gone.alias}\n", shown.stdout)
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert re.search(rf"^\d\d:\d\d:\d\d {lacking.alias}: sending 4\.0\d MB$", shown.stderr, re.MULTILINE)
    assert find_id(empty_engine, base.name) == base.id
    assert list(lacking.workdir.iterdir()) == []

    told = read_hosts(run_fleet("push-image", "-i", str(inventory), "--json", env=HERE))
    states = {alias: (host["status"], host["reason"], host["sent_bytes"]) for alias, host in told.items()}
    assert states == {
        lacking.alias: ("skipped", "present", 0),
        having.alias: ("skipped", "present", 0),
        native.alias: ("skipped", "native", 0),
        gone.alias: ("unreachable", told[gone.alias]["reason"], 0),
    }
    assert "/tmp/fleet.holder" not in lacking.exec("find", "/tmp")


def test_layers_that_are_there_are_not_sent(
    lab_hosts: LabHosts, empty_engine: SpareEngine, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    inventory = write_inventory(workspace / "lab.yaml", [host], fleet_image="x:1")
    below = build_image("fleet-test/below:1", BASE)
    above = build_image("fleet-test/above:1", [*BASE, make_layer(b"new"), make_layer(os.urandom(500_000))])
    renamed = build_image("fleet-test/renamed:2", BASE)
    told = []
    for image in (below, above, renamed):
        archive = write_archive(workspace / "image.tar", image)
        done = run_fleet(
            "push-image", str(archive), "-i", str(inventory), "--json", env={"DOCKER_HOST": "unix:///none"}
        )
        assert done.returncode == 0, done.stdout
        told.append(read_hosts(done)[host.alias])
        assert find_id(empty_engine, image.name) == image.id

    assert 4_000_000 < told[0]["sent_bytes"] < 4_050_000
    assert 500_000 < told[1]["sent_bytes"] < 550_000
    assert told[2]["sent_bytes"] < 30_000
    assert find_id(empty_engine, below.name) == below.id
    assert list(host.workdir.iterdir()) == []


def test_a_compressed_file_is_sent_as_it_is(
    lab_hosts: LabHosts, empty_engine: SpareEngine, workspace: Path, run_fleet: RunFleet
) -> None:
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    image = build_image("fleet-test/packed:1", [make_layer(bytes(2_000_000))])
    packed = workspace / "image.tar.gz"
    packed.write_bytes(gzip.compress(write_archive(workspace / "image.tar", image).read_bytes()))
    done = run_fleet("push-image", str(packed), "-i", str(inventory), "--json")

    assert done.returncode == 0, done.stdout
    assert read_hosts(done)[host.alias]["sent_bytes"] == packed.stat().st_size < 20_000
    assert find_id(empty_engine, image.name) == image.id


def test_a_broken_connection_costs_nothing_that_has_arrived(
    lab_hosts: LabHosts, empty_engine: SpareEngine, big: tuple[BuiltImage, Path], workspace: Path
) -> None:
    (host,) = lab_hosts(1, engine_socket=empty_engine.socket)
    image, archive = big
    inventory = write_inventory(workspace / "lab.yaml", [host])
    process = start_push(workspace, str(archive), "-i", str(inventory), "--json")
    wait_for(lambda: find_gathered(host) > 20_000_000)
    host.kill_connections()
    wait_for(lambda: find_gathered(host) > 80_000_000)
    host.kill_connections()
    out, err = process.communicate(timeout=240)

    assert process.returncode == 0, err
    (told,) = json.loads(out)["hosts"]
    assert err.count("trying again") >= 2
    assert told["total_bytes"] == archive.stat().st_size
    # What was under way is sent again: sshd's window and its pipes.
    assert told["total_bytes"] <= told["sent_bytes"] < told["total_bytes"] + 20_000_000
    assert find_id(empty_engine, image.name) == image.id
    assert list(host.workdir.iterdir()) == []


def test_the_next_push_goes_on_where_one_was_interrupted(
    lab_hosts: LabHosts, empty_engine: SpareEngine, big: tuple[BuiltImage, Path], workspace: Path, run_fleet: RunFleet
) -> None:
    whole, spoilt = lab_hosts(2, engine_socket=empty_engine.socket)
    image, archive = big
    inventory = write_inventory(workspace / "lab.yaml", [whole, spoilt])
    process = start_push(workspace, str(archive), "-i", str(inventory))
    wait_for(lambda: min(find_gathered(whole), find_gathered(spoilt)) > 20_000_000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted; what has arrived is kept on the hosts: run it again, and it goes on from there.\n" in err
    assert "Traceback" not in err
    (gathered,) = spoilt.workdir.iterdir()
    with gathered.open("r+b") as file:
        file.seek(5_000_000)
        file.write(b"spoilt")
    done = run_fleet("push-image", str(archive), "-i", str(inventory), "--json")

    assert done.returncode == 0, done.stdout
    told = read_hosts(done)
    size = archive.stat().st_size
    assert told[whole.alias]["kept_bytes"] > 20_000_000
    assert told[whole.alias]["kept_bytes"] + told[whole.alias]["sent_bytes"] == size
    assert (told[spoilt.alias]["kept_bytes"], told[spoilt.alias]["sent_bytes"]) == (0, size)
    assert find_id(empty_engine, image.name) == image.id
    assert [*whole.workdir.iterdir(), *spoilt.workdir.iterdir()] == []
