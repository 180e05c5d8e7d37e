"""`fleet push-image --via-peers`: hosts, each with an engine of its own, that send an image on to each other."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import LabHosts, RunFleet
from tests.host.test_peer_steps import find_left
from tests.image_builder import BuiltImage, build_image, make_layer, write_archive
from tests.lab.hosts import HostOptions, LabHost
from tests.lab.inventory import write_inventory
from tests.lab.spare_engine import SpareEngine

pytestmark = pytest.mark.needs("ssh", "docker", "setpriv")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[BuiltImage, Path]:
    image = build_image("fleet-test/peers:1", [make_layer(os.urandom(10_000_000)) for _ in range(2)])
    return image, write_archive(tmp_path_factory.mktemp("image") / "image.tar", image)


@pytest.fixture(scope="module")
def engines() -> Iterator[list[SpareEngine]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(SpareEngine()) for _ in range(4)]


def start_hosts(lab_hosts: LabHosts, engines: list[SpareEngine], **how: Any) -> list[LabHost]:
    """A host for each engine, which is empty."""
    hosts = []
    for engine in engines:
        engine.remove_images()
        options: HostOptions = {"engine_socket": engine.socket, **how}  # type: ignore[typeddict-item]
        hosts += lab_hosts(1, **options)
    return hosts


def push(run_fleet: RunFleet, inventory: Path, archive: Path) -> tuple[dict[str, Any], str]:
    """What is said of each host, and stderr."""
    done = run_fleet("push-image", str(archive), "-i", str(inventory), "--via-peers", "--json", timeout_s=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return {host["alias"]: host for host in json.loads(done.stdout)["hosts"]}, done.stderr


def test_the_control_node_sends_an_image_less_often_than_there_are_hosts(
    lab_hosts: LabHosts,
    engines: list[SpareEngine],
    built: tuple[BuiltImage, Path],
    workspace: Path,
    run_fleet: RunFleet,
) -> None:
    hosts = start_hosts(lab_hosts, engines, bashrc="echo Welcome to the lab\n")
    image, archive = built
    size = archive.stat().st_size
    told, err = push(run_fleet, write_inventory(workspace / "lab.yaml", hosts), archive)

    assert [engine.docker("image", "inspect", "--format", "{{.Id}}", image.name) for engine in engines] == [
        image.id
    ] * 4
    assert all(host["sent_bytes"] + host["fetched_bytes"] == size for host in told.values()), told
    # The first gets it from here; then there are two who can send.
    fetched = [host for host in told.values() if host["fetched_bytes"]]
    assert fetched, err
    assert sum(host["sent_bytes"] for host in told.values()) == (4 - len(fetched)) * size
    for host in hosts:
        assert find_left(host) == "", host.alias
        assert not (host.home / ".ssh").exists()


def test_hosts_on_which_fleet_is_root_send_it_on_too(
    lab_hosts: LabHosts,
    engines: list[SpareEngine],
    built: tuple[BuiltImage, Path],
    workspace: Path,
    run_fleet: RunFleet,
) -> None:
    rules = "bench ALL=(ALL) NOPASSWD: ALL"
    hosts = start_hosts(lab_hosts, engines[:2], docker_permission=False, workdir_owner="root", sudoers=rules)
    image, archive = built
    told, err = push(run_fleet, write_inventory(workspace / "lab.yaml", hosts, fleet_become=True), archive)

    assert [engine.docker("image", "inspect", "--format", "{{.Id}}", image.name) for engine in engines[:2]] == [
        image.id
    ] * 2
    assert sorted(host["fetched_bytes"] for host in told.values()) == [0, archive.stat().st_size], err
    for host in hosts:
        assert host.exec("ls", "-A", str(host.workdir)).count("image") == 0


def test_a_host_that_no_other_reaches_gets_it_from_here(
    lab_hosts: LabHosts,
    engines: list[SpareEngine],
    built: tuple[BuiltImage, Path],
    workspace: Path,
    run_fleet: RunFleet,
) -> None:
    first, second = start_hosts(lab_hosts, engines[:2])
    first.exec("chmod", "0", "/usr/sbin/sshd")  # the running one stays; nobody starts another
    second.exec("rm", "/usr/sbin/sshd")
    image, archive = built
    told, err = push(run_fleet, write_inventory(workspace / "lab.yaml", [first, second]), archive)

    assert [engine.docker("image", "inspect", "--format", "{{.Id}}", image.name) for engine in engines[:2]] == [
        image.id
    ] * 2
    assert [host["fetched_bytes"] for host in told.values()] == [0, 0]
    assert re.search(r"not from lab\d+: cannot serve other hosts: ", err), err
    for host in (first, second):
        assert find_left(host) == ""


def test_what_a_host_has_spoilt_is_not_loaded_by_others(
    lab_hosts: LabHosts,
    engines: list[SpareEngine],
    built: tuple[BuiltImage, Path],
    workspace: Path,
    run_fleet: RunFleet,
) -> None:
    """Whatever `head` is asked for, this host's says zeros: it is what serves a file."""
    hosts = start_hosts(lab_hosts, engines[:2])
    zeros = '#!/bin/sh\n[ "$1" = -c ] && [ ! -t 0 ] && [ "$2" -gt 1000000 ] && exec /usr/bin/head -c "$2" /dev/zero\n'
    for host in hosts:
        host.exec("tee", "/usr/local/bin/head", stdin=f'{zeros}exec /usr/bin/head "$@"\n'.encode())
        host.exec("chmod", "755", "/usr/local/bin/head")
    image, archive = built
    told, err = push(run_fleet, write_inventory(workspace / "lab.yaml", hosts), archive)

    assert [engine.docker("image", "inspect", "--format", "{{.Id}}", image.name) for engine in engines[:2]] == [
        image.id
    ] * 2
    assert "what other hosts sent is not the image: sending it from here" in err
    assert [host["sent_bytes"] for host in told.values()] == [archive.stat().st_size] * 2
