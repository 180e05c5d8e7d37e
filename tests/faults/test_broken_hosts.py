"""One run over hosts that are each broken in their own way: every one gets its status, its reason and a sentence that
says what to do, and none costs a good host anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.cases import Case, Finished, check_case, check_nothing_is_left, check_run, run_cases
from tests.lab.lab import Lab

pytestmark = pytest.mark.needs("ssh", "docker")

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
    "open_key": Case("auth_failed", "key_mode", "chmod 600", variables={"ansible_ssh_private_key_file": "{here}/open"}),
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


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    with run_cases(lab, tmp_path_factory.mktemp("broken"), CASES) as finished:
        yield finished


@pytest.mark.parametrize("name", CASES)
def test_a_host_ends_with_its_status_and_a_sentence(name: str, finished: Finished) -> None:
    check_case(CASES[name], finished.outcomes[name])


def test_the_run_says_so_and_counts_everybody(finished: Finished) -> None:
    check_run(CASES, finished)


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    check_nothing_is_left(finished)


def test_who_shows_another_key_is_sent_nothing(finished: Finished) -> None:
    for name in ("unknown_host_key", "changed_host_key"):
        log = finished.hosts[name].read_log()
        assert "Connection from" in log
        assert "publickey" not in log and "user bench" not in log, log
