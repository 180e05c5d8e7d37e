"""One run over addresses where no sshd answers, and over hosts that an agent full of keys is in the way of: each costs
its own time alone, and the good host none."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from fleet.model.result import HostOutcome
from tests.faults.conftest import FLEET, TINY, FleetRun
from tests.faults.firewall import rule
from tests.faults.traces import find_traces
from tests.lab.hosts import LabHost, make_key
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab
from tests.servers import blackhole, listening

pytestmark = [pytest.mark.needs("ssh", "docker", "iptables", "unshare", "ssh-agent"), pytest.mark.timeout(300)]

CONNECT_S = 4
TRIES_S = 3 * CONNECT_S + 2 + 4
"""Three tries, and the pauses between them."""

SLACK_S = 15
"""What two busy processors may add."""


def serve_http(peer: socket.socket) -> None:
    peer.recv(100)
    peer.sendall("HTTP/1.1 400 Bad \x1b[31m\u202e[/red]<b>Request\r\n\r\n".encode())
    peer.shutdown(socket.SHUT_RDWR)


def send_for_ever(peer: socket.socket) -> None:
    while True:
        peer.sendall(bytes(65536))


SERVERS: Mapping[str, Callable[[socket.socket], None]] = {
    "silent": lambda peer: None,
    "stalled": lambda peer: peer.sendall(b"SSH-2.0-stalled\r\n"),
    "web_server": serve_http,
    "endless": send_for_ever,
    "closes": lambda peer: peer.close(),
}
EXPECTED = {
    "silent": ("unreachable", "banner", "SSH did not begin in time"),
    "stalled": ("unreachable", "key_exchange", "did not finish in time"),
    "web_server": ("unreachable", "banner", "HTTP/1.1 400 Bad"),
    "endless": ("unreachable", "banner", ""),
    "closes": ("unreachable", "banner", "before SSH began"),
    "full_queue": ("unreachable", "timeout", "did not answer in time"),
    "dropped": ("unreachable", "timeout", "did not answer in time"),
    "rejected": ("unreachable", "no_route", "No route to host"),
    "slow_name": ("unreachable", "dns", "slow.invalid"),
    "wrong_keys": ("auth_failed", "too_many_keys", "IdentitiesOnly"),
    "stale_agent": ("ok", None, ""),
    "full_agent": ("ok", None, ""),
    "silent_agent": ("ok", None, ""),
}
"""Status, reason, and words that are said. The agent of the whole run is a stale one."""

REAL = [name for name in EXPECTED if name.endswith(("keys", "agent"))]


@dataclass(frozen=True)
class Finished:
    """What came of the one run."""

    code: int
    out: str
    err: str
    peak_bytes: int
    outcomes: Mapping[str, HostOutcome]
    hosts: Mapping[str, LabHost]
    """Those that are real."""


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    here = tmp_path_factory.mktemp("reach")
    machines = lab.add_hosts(len(REAL))
    hosts = {name: replace(machine, alias=name) for name, machine in zip(REAL, machines, strict=True)}
    with ExitStack() as stack:
        places = stack.enter_context(_Places(here))
        inventory = _write_inventory(here, hosts, places)
        (here / "suite.yaml").write_text(TINY)
        command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', places.resolver]
        environment = {"SSH_AUTH_SOCK": places.stale_agent}
        run = FleetRun(here, inventory, here / "suite.yaml", environment=environment, command=[*command, *FLEET])
        stack.callback(run.kill)
        code, out, err = run.wait()
        outcomes = run.load().outcomes
    yield Finished(code, out, err, run.peak_bytes, outcomes, hosts)
    lab.remove_hosts(machines)


class _Places(ExitStack):
    """Everything in the way: servers, rules, agents and a resolver, as long as the context lasts."""

    def __init__(self, here: Path) -> None:
        super().__init__()
        net = f"127.66.{secrets.randbelow(256)}"
        self.addresses = {name: ("127.0.0.1", self.enter_context(listening(do))) for name, do in SERVERS.items()}
        self.addresses["full_queue"] = ("127.0.0.1", self.enter_context(blackhole()))
        self.addresses |= {"dropped": (f"{net}.2", 22), "rejected": (f"{net}.3", 22), "slow_name": ("slow.invalid", 22)}
        self.enter_context(rule("-d", f"{net}.2", "-p", "tcp", "-j", "DROP"))
        self.enter_context(rule("-d", f"{net}.3", "-j", "REJECT", "--reject-with", "icmp-host-unreachable"))
        self.enter_context(rule("-d", f"{net}.4", "-p", "udp", "-j", "DROP"))
        (here / "resolv.conf").write_text(f"nameserver {net}.4\n")
        self.resolver = str(here / "resolv.conf")
        self.stale_agent, self.silent_agent = str(here / "stale"), str(here / "silent")
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.stale_agent)
        silent = self.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(self.silent_agent)
        silent.listen()
        self.full_agent = self._start_agent(here)

    def _start_agent(self, here: Path) -> str:
        """One with eight keys that no host knows."""
        said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
        found = dict(re.findall(r"(SSH_\w+)=([^;]+);", said))
        environment = {**os.environ, **found}
        self.callback(subprocess.run, ["ssh-agent", "-k"], env=environment, check=True, capture_output=True)
        for number in range(8):
            make_key(here / f"wrong{number}", f"wrong{number}")
            subprocess.run(["ssh-add", "-q", str(here / f"wrong{number}")], env=environment, check=True)
        return str(found["SSH_AUTH_SOCK"])


def _write_inventory(here: Path, hosts: Mapping[str, LabHost], places: _Places) -> Path:
    anybody = next(iter(hosts.values()))
    strangers = [replace(anybody, alias=name, address=at[0], port=at[1]) for name, at in places.addresses.items()]
    args = dict.fromkeys(places.addresses, f"-o ConnectTimeout={CONNECT_S}")
    args |= dict.fromkeys(("wrong_keys", "full_agent"), f"-o IdentityAgent={places.full_agent}")
    args["silent_agent"] = f"-o IdentityAgent={places.silent_agent}"
    overrides = {name: {"ansible_ssh_extra_args": words} for name, words in args.items()}
    path = write_inventory(here / "lab.yaml", [*hosts.values(), *strangers], overrides=overrides)
    document = yaml.safe_load(path.read_text())
    del document["all"]["hosts"]["wrong_keys"]["ansible_ssh_private_key_file"]
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_a_host_ends_with_its_status_and_a_sentence(name: str, finished: Finished) -> None:
    status, reason, says = EXPECTED[name]
    outcome = finished.outcomes[name]

    said = f"{outcome.message} → {outcome.hint}"
    assert (outcome.status, outcome.reason) == (status, reason), said
    assert says in said
    assert status == "ok" or outcome.hint
    assert outcome.started and outcome.finished
    taken_s = (datetime.fromisoformat(outcome.finished) - datetime.fromisoformat(outcome.started)).total_seconds()
    assert taken_s < (120 if status == "ok" else TRIES_S + SLACK_S)


def test_the_run_says_so_counts_everybody_and_stays_small(finished: Finished) -> None:
    good = sum(status == "ok" for status, _, _ in EXPECTED.values())

    assert finished.code == 4, finished.err
    assert f"{good}/{len(EXPECTED)} hosts, {good}/{len(EXPECTED)} cells" in finished.out
    assert list(finished.outcomes) == [*REAL, *(name for name in EXPECTED if name not in REAL)]
    assert finished.peak_bytes < 300 << 20
    for text in (finished.out, finished.err):
        assert "Traceback" not in text
        assert {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} <= {"\n"}


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    left = {name: found for name, host in finished.hosts.items() if (found := find_traces(host))}
    assert not left, left
