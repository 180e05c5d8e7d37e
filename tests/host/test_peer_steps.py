"""A host that serves a file to another: to that one alone, that file alone, and nothing is left of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import PreflightFailed
from fleet.host.framing import Shell
from fleet.host.peer_steps import PEER, Server, end_transfer, fetch_part, make_key, start_server
from fleet.host.push_steps import Staging
from fleet.inventory.loader import load_inventory
from fleet.transport.open import open_transport
from tests.conftest import LabHosts
from tests.host.doubles import HostileHost
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.waiting import wait_for

DATA = os.urandom(3_000_000)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxaGDJtmS1zyF1XKYJj4bMB0WVZ5lCOnvY2lJAVqY7q"


def find_left(host: LabHost) -> str:
    """What a transfer between hosts may leave on one: processes and files."""
    look = "ps -e -o args= | grep -e '[s]shd -D -e -f' -e '^ssh -F'; find / -xdev -name 'image-*' || true"
    home = f"; find {host.workdir} -name 'image-*'"
    return host.exec("sh", "-c", look + home)


@pytest.fixture
def pair(lab_hosts: LabHosts, workspace: Path) -> Iterator[list[tuple[LabHost, Shell, Staging]]]:
    """Two hosts: how they are reached, and where each has, or will have, the file."""
    hosts = lab_hosts(2)
    inventory = load_inventory(write_inventory(workspace / "lab.yaml", hosts, fleet_image="x:1"))
    transports = [open_transport(host) for host in inventory.hosts]
    yield [
        (host, Shell(host.alias, transport), Staging(str(host.workdir), "image-1.tar", f"push-{number}", "me@here"))
        for number, (host, transport) in enumerate(zip(hosts, transports, strict=True))
    ]
    for transport in transports:
        transport.close()


def put(host: LabHost, path: str) -> None:
    host.exec("tee", path, stdin=DATA)
    host.exec("chown", host.user, path)


def ask(host: LabHost, staging: Staging, server: Server, *words: str) -> tuple[int, bytes, str]:
    """What the receiver gets when it asks the server for something else: status, stdout, stderr."""
    address, port, user, kind, key = server.text.split()
    host.run_ssh("sh", "-c", f"echo 'fleet-peer {kind} {key}' >known")
    options = ["-F", "/dev/null", "-i", f"{staging.workdir}/image-{staging.word}.d/key", "-p", port]
    options += ["-o", "BatchMode=yes", "-o", "HostKeyAlias=fleet-peer", "-o", "UserKnownHostsFile=known"]
    done = host.run_ssh("ssh", *options, *words[:-1], f"{user}@{address}", *words[-1:])
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.needs("ssh", "docker")
def test_a_server_sends_one_file_to_one_key_and_does_nothing_else(pair: list[tuple[LabHost, Shell, Staging]]) -> None:
    (giver, there, source), (taker, here, target) = pair
    put(giver, source.path)
    server = start_server(there, source, "peer-1", make_key(here, target), len(DATA))
    assert "sshd -D -e -f" in find_left(giver)
    assert "image-push-1.d" in find_left(taker)
    offset = 0
    for length in (1_000_000, 1, 1_999_999):
        offset = fetch_part(here, target, server, offset, length)
    status, out, err = ask(taker, target, server, "id")
    shell = ask(taker, target, server, "1; id", "10 10 ab")
    forward = ask(taker, target, server, "-W", "127.0.0.1:22", "id")
    traversal = ask(taker, target, server, "0 9 ../../etc")
    stranger = giver.run_ssh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "other")
    refused = giver.run_ssh(
        *("ssh", "-F", "/dev/null", "-i", "other", "-p", server.text.split()[1], "-o", "BatchMode=yes"),
        *("-o", "StrictHostKeyChecking=no", server.text.split()[0], "0 9 ab"),
    )

    assert offset == len(DATA)
    assert taker.exec("sha256sum", target.path).split()[0] == hashlib.sha256(DATA).hexdigest()
    assert (status, out) == (2, b""), err
    assert (shell[1], traversal[:2]) == (b"", (2, b""))
    assert forward[0] != 0
    assert "prohibited" in forward[2]
    assert stranger.returncode == 0
    assert b"Permission denied (publickey)" in refused.stderr
    end_transfer(there, source, "peer-1", drop=True)
    end_transfer(here, target, target.word, drop=True)
    assert find_left(giver) == find_left(taker) == ""


@pytest.mark.needs("ssh", "docker")
def test_a_server_that_is_not_who_it_should_be_gives_nothing(pair: list[tuple[LabHost, Shell, Staging]]) -> None:
    (giver, there, source), (_, here, target) = pair
    put(giver, source.path)
    server = start_server(there, source, "peer-1", make_key(here, target), len(DATA))
    address, port, user, *_ = server.text.split()
    for other, says in {
        f"{address} {port} {user} {KEY}": "Host key verification failed",
        f"{address} 1 {user} {' '.join(server.text.split()[3:])}": "refused",
    }.items():
        with pytest.raises(PreflightFailed, match=says) as error:
            fetch_part(here, target, Server(other, "peer-1"), 0, 100)
        assert error.value.reason == PEER
    end_transfer(there, source, "peer-1")
    end_transfer(here, target, target.word)


@pytest.mark.needs("ssh", "docker")
def test_a_server_that_nobody_ends_ends_by_itself(pair: list[tuple[LabHost, Shell, Staging]]) -> None:
    giver, there, source = pair[0]
    arguments = [source.workdir, source.name, "peer-1", "2", KEY, "21212", "21213"]
    _, sections = there.read("peer_serve", arguments, stage="push", timeout_s=60)

    assert sections[-1].name == "serving"
    wait_for(lambda: "sshd" not in find_left(giver), 30)


@pytest.mark.parametrize(
    "said",
    ["missing ssh", "not_writable", "key", "key ssh-rsa AAAA", f"key {KEY} no-pty", "key ssh-ed25519 a;id", "\x1b"],
)
def test_only_a_key_is_taken_for_one(said: str) -> None:
    host = HostileHost(f"\n@@{{nonce}} {said}\n".encode())
    with pytest.raises(PreflightFailed) as error:
        make_key(Shell("gpu01", host), Staging("/w", "image-1.tar", "push-1", "me"))
    assert (error.value.reason, error.value.host) == (PEER, "gpu01")
    assert "\x1b" not in error.value.message


@pytest.mark.parametrize(
    "said",
    [
        "no_sshd Cannot bind any address.",
        "serving",
        f"serving $(id) 22 bench {KEY}",
        f"serving 192.0.2.1 22 bench;id {KEY}",
        f"serving 192.0.2.1 22 bench {KEY} -oProxyCommand=id",
        f"serving -oProxyCommand=id 22 bench {KEY}",
        f"serving 192.0.2.1 22 -x {KEY}",
    ],
)
def test_only_a_server_is_taken_for_one(said: str) -> None:
    host = HostileHost(f"\n@@{{nonce}} {said}\n".encode())
    with pytest.raises(PreflightFailed) as error:
        start_server(Shell("gpu01", host), Staging("/w", "image-1.tar", "push-1", "me"), "peer-1", KEY, 1)
    assert error.value.reason == PEER
