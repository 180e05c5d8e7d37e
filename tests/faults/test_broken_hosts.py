"""One run over hosts that are each broken in their own way: every one gets its status, its reason and a sentence that
says what to do, and none costs a good host anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet.model.result import HostOutcome
from tests.faults.conftest import TINY, FleetRun
from tests.lab.hosts import HostOptions, LabHost, make_key
from tests.lab.inventory import write_inventory, write_known_hosts
from tests.lab.lab import Lab

pytestmark = pytest.mark.needs("ssh", "docker")


@dataclass(frozen=True)
class Case:
    """One host."""

    status: str
    reason: str | None = None
    says: str = ""
    """Words that must be in what happened or what to do."""
    how: HostOptions = field(default_factory=HostOptions)
    """How the machine is broken."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """How the inventory is wrong; `{here}` stands for the run's directory."""
    cell: str = "ok"
    """How its one cell ends, where the host is ok."""


CASES = {
    "good": Case("ok"),
    # Nothing in the work directory is executed: sh and python3 only read it.
    "noexec": Case("ok", how={"workdir_options": "noexec"}),
    "fish": Case("ok", how={"shell": "/usr/bin/fish"}),
    "noisy_bashrc": Case("ok", how={"bashrc": "echo welcome; echo careful >&2\n"}),
    "missing_key": Case(
        "auth_failed", says="no_such_key", variables={"ansible_ssh_private_key_file": "{here}/no_such_key"}
    ),
    "passphrase": Case("auth_failed", says="passphrase", variables={"ansible_ssh_private_key_file": "{here}/locked"}),
    "wrong_user": Case("auth_failed", says="stranger", variables={"ansible_user": "stranger"}),
    "unknown_host_key": Case("host_key_unknown", says="fleet hosts trust"),
    "changed_host_key": Case("host_key_changed", says="ssh-keygen -R"),
    "port_closed": Case("unreachable", "refused", "refused", variables={"ansible_port": 2}),
    "no_such_name": Case("unreachable", "dns", "nowhere.invalid", variables={"ansible_host": "nowhere.invalid"}),
    "no_shell": Case("unreachable", "shell", "login shell", how={"shell": "/usr/sbin/nologin"}),
    "no_docker": Case("preflight_failed", "docker_missing", "Install Docker", how={"docker": False}),
    "no_permission": Case("preflight_failed", "docker_permission", "group docker", how={"docker_permission": False}),
    "docker_stopped": Case("preflight_failed", "docker_not_running", "systemctl start docker", how={"socket": False}),
    "no_image": Case(
        "preflight_failed",
        "registry_network",
        "fleet push-image",
        variables={"fleet_image": "127.0.0.1:9/no/such:image"},
    ),
    "no_python": Case(
        "preflight_failed", "no_python", "fleet_image", variables={"fleet_runtime_args": ["--env", "PATH=/nowhere"]}
    ),
    "no_gpu": Case("preflight_failed", "toolkit_missing", "fleet_devices: cpu", variables={"fleet_devices": 1}),
    "disk_full": Case("preflight_failed", "disk_full", "fleet_workdir", how={"workdir_size": "1m"}),
    "foreign_workdir": Case("preflight_failed", "workdir_foreign", "fleet_workdir", how={"workdir_owner": "root"}),
    "read_only_workdir": Case(
        "preflight_failed", "workdir_not_writable", "fleet_workdir", how={"workdir_options": "ro"}
    ),
    "home_as_workdir": Case(
        "preflight_failed", "workdir_occupied", "/fleet", how={"bashrc": "true\n"}, variables={"fleet_workdir": "~"}
    ),
    "entrypoint": Case(
        "preflight_failed", "entrypoint", "exec", variables={"fleet_runtime_args": ["--entrypoint", "true"]}
    ),
    "eaten_input": Case("preflight_failed", "not_received", "standard input", how={"bashrc": "cat >/dev/null\n"}),
    "payload_crash": Case(
        "failed",
        "payload_failed",
        "exit status 1",
        variables={"fleet_runtime_args": ["--env", "PYTHONHOME=/nonexistent"]},
    ),
    # The payload's parent is small and survives; that a cell does not fit is a result.
    "out_of_memory": Case(
        "ok", cell="oom", variables={"fleet_runtime_args": ["--memory", "64m", "--memory-swap", "64m"]}
    ),
}


@dataclass(frozen=True)
class Finished:
    """What came of the one run."""

    code: int
    out: str
    err: str
    outcomes: Mapping[str, HostOutcome]
    """By the name of the case."""
    hosts: Mapping[str, LabHost]


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    here = tmp_path_factory.mktemp("broken")
    whole = [name for name, case in CASES.items() if not case.how]
    hosts = dict(zip(whole, lab.add_hosts(len(whole)), strict=True))
    hosts |= {name: lab.add_hosts(1, **case.how)[0] for name, case in CASES.items() if case.how}
    make_key(here / "locked", "locked", passphrase="secret")
    overrides = {
        hosts[name].alias: {key: _fill(value, here) for key, value in case.variables.items()}
        for name, case in CASES.items()
    }
    inventory = write_inventory(
        here / "lab.yaml", list(hosts.values()), known_hosts=_write_keys(here, hosts), overrides=overrides
    )
    suite = here / "suite.yaml"
    suite.write_text(TINY.replace("on: [cpu]", "on: [cpu, gpu]"))
    run = FleetRun(here, inventory, suite)
    code, out, err = run.wait()
    outcomes = run.load().outcomes
    yield Finished(code, out, err, {name: outcomes[host.alias] for name, host in hosts.items()}, hosts)
    lab.remove_hosts(list(hosts.values()))


def _fill(value: object, here: Path) -> object:
    return value.format(here=here) if isinstance(value, str) else value


def _write_keys(here: Path, hosts: Mapping[str, LabHost]) -> Path:
    known = [host for name, host in hosts.items() if name != "unknown_host_key"]
    keys = write_known_hosts(here / "known_hosts", known)
    another = make_key(here / "another", "")
    keys.write_text(keys.read_text().replace(hosts["changed_host_key"].host_key, another))
    return keys


@pytest.mark.parametrize("name", CASES)
def test_a_host_ends_with_its_status_and_a_sentence(name: str, finished: Finished) -> None:
    case, outcome = CASES[name], finished.outcomes[name]

    said = f"{outcome.message} → {outcome.hint}"
    assert outcome.status == case.status, said
    assert case.reason is None or outcome.reason == case.reason, said
    assert case.says in said
    if case.status != "ok":
        assert outcome.message
        assert outcome.hint
        assert outcome.reason
    else:
        assert [cell.status for cell in outcome.cells] == [case.cell]


def test_the_run_says_so_and_counts_everybody(finished: Finished) -> None:
    good = [case for case in CASES.values() if case.status == "ok"]
    measured = sum(case.cell == "ok" for case in good)

    assert finished.code == 3
    assert f"{len(good)}/{len(CASES)} hosts, {measured}/{len(CASES)} cells" in finished.out
    for name, host in finished.hosts.items():
        line = re.search(rf"^✖ {host.alias}  (.*)", finished.out, re.MULTILINE)
        assert (line is None) == (CASES[name].status == "ok"), name
        assert line is None or line[1].startswith(CASES[name].status.replace("_", " ")), name
    assert "Traceback" not in finished.out + finished.err


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    for name, host in finished.hosts.items():
        assert host.list_jobs() == [], name
        left = [path.name for path in host.workdir.iterdir()]
        assert all(file.startswith("payload-") or file == "lost+found" for file in left), (name, left)
