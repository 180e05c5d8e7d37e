"""One run over hosts that are odd: shells, clocks, disks, tools, and what they say of themselves. Those that can
measure do, and nothing that a host says is more than text."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.conftest import RunFleet
from tests.faults.cases import Case, Finished, check_case, check_nothing_is_left, check_run, put_program, run_cases
from tests.lab.engine import docker
from tests.lab.hosts import LabHost
from tests.lab.images import build_tensorflow_image
from tests.lab.lab import Lab

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.long, pytest.mark.timeout(400)]

PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Fleet's own locale: one that knows ASCII alone."""

EVIL = "\x1b[31mred\x1b]8;;http://x\x07\x9b2J\u202eevil\u200b[/red][bold]<script>alert(1)</script>\r=1+1"
"""What a terminal, a bidirectional text, a markup or a page would act on."""

SHOWN = "[/red][bold]<script>alert(1)</script>"
SAY_EVIL = f"cat <<'END'\n{EVIL}\nEND\n"
MOVED = "127.0.0.1:9/fleet-lab/moved"
"""An image whose registry does not answer."""

SET_BACK = """#!/bin/sh
if [ -s "$(echo WORK/jobs/*/started)" ]; then exec /bin/date "$@"; fi
exec /bin/date -d '+1 day' "$@"
"""
"""A clock that is set when the job has begun."""


def show_banner(host: LabHost) -> None:
    """Its sshd says something before it asks for a key."""
    lines = "printf 'careful\\n\\033[31mred\\377\\n' >/etc/banner; echo 'Banner /etc/banner' >>/etc/ssh/sshd_config"
    host.exec("sh", "-c", f"{lines}; kill -HUP 1")
    host.wait_until_up()


def protect_home(host: LabHost) -> None:
    pid = docker("inspect", "--format", "{{.State.Pid}}", host.container)
    argv = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "mount", "-o", "remount,bind,ro", str(host.home)]
    subprocess.run(argv, check=True)


def describe_itself_evilly(host: LabHost) -> None:
    host.exec("sh", "-c", "cat >/etc/os-release", stdin=f'PRETTY_NAME="{EVIL}"\n'.encode())
    put_program("lscpu", f"#!/bin/sh\necho 'Model name: {EVIL}'\n")(host)
    put_program("uname", f"#!/bin/sh\n{SAY_EVIL}")(host)
    put_program("id", f'#!/bin/sh\ncase $1 in -un) {SAY_EVIL} ;; *) exec /usr/bin/id "$@" ;; esac\n')(host)


def live_in_an_evil_shell(host: LabHost) -> None:
    put_program("evil", f"#!/bin/sh\n{SAY_EVIL}")(host)
    host.exec("usermod", "--shell", "/usr/local/bin/evil", host.user)


CASES = {
    "good": Case("ok"),
    "dash": Case("ok", how={"shell": "/bin/sh"}),
    "tcsh": Case("ok", how={"shell": "/bin/tcsh"}),
    "zsh": Case("ok", how={"shell": "/bin/zsh"}),
    "missing_shell": Case("auth_failed", "refused", "refused", how={"shell": "/bin/no_such_shell"}),
    "banner": Case("ok", prepare=show_banner),
    "noise_that_is_no_text": Case("ok", how={"bashrc": "printf '\\377\\376\\n@@x end\\n'\n"}),
    "50_mb_of_noise": Case(
        "ok", how={"bashrc": "if ! [ -e ~/said ]; then true >~/said; head -c 50000000 /dev/urandom; fi\n"}
    ),
    "line_is_read": Case("preflight_failed", "not_received", "standard input", how={"bashrc": "read -r line\n"}),
    "read_only_home": Case("ok", prepare=protect_home),
    "work_in_a_read_only_home": Case(
        "preflight_failed",
        "workdir_not_writable",
        "Read-only file system",
        prepare=protect_home,
        variables={"fleet_workdir": "~/.fleet"},
    ),
    "no_inodes": Case("preflight_failed", "disk_full", "inodes", how={"workdir_options": "nr_inodes=1"}),
    "few_inodes": Case("preflight_failed", "disk_full", "inodes", how={"workdir_options": "nr_inodes=40"}),
    "linked_work_directory": Case(
        "preflight_failed",
        "workdir_symlink",
        "symbolic link",
        prepare=lambda host: (host.home / "link").symlink_to("/tmp"),
        variables={"fleet_workdir": "~/link"},
    ),
    "nvidia_smi_hangs": Case("ok", prepare=put_program("nvidia-smi", "#!/bin/sh\nexec sleep 3600\n")),
    "payload_arrives_changed": Case(
        "preflight_failed",
        "corrupt",
        "sha256",
        prepare=put_program("cat", "#!/bin/sh\n/bin/cat \"$@\" | tr '\\0' '\\1'\n"),
    ),
    "clock_ahead": Case("ok", prepare=put_program("date", "#!/bin/sh\nexec /bin/date -d '+1 day' \"$@\"\n")),
    "clock_behind": Case("ok", prepare=put_program("date", "#!/bin/sh\nexec /bin/date -d '-1 day' \"$@\"\n")),
    "clock_set_back": Case(
        "ok", prepare=lambda host: put_program("date", SET_BACK.replace("WORK", str(host.workdir)))(host)
    ),
    "moved_tag": Case(
        "preflight_failed", "registry_network", MOVED, variables={"fleet_image": f"{MOVED}:1@sha256:{'0' * 64}"}
    ),
    "evil_facts": Case("ok", prepare=describe_itself_evilly),
    "evil_engine": Case(
        "preflight_failed", "docker_failed", SHOWN, prepare=put_program("docker", f"#!/bin/sh\n{SAY_EVIL}exit 1\n")
    ),
    "evil_shell": Case("unreachable", "shell", "login shell", prepare=live_in_an_evil_shell),
}


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    docker("tag", build_tensorflow_image(), f"{MOVED}:1")
    try:
        with run_cases(lab, tmp_path_factory.mktemp("odd"), CASES, PLAIN_C) as finished:
            yield finished
    finally:
        docker("rmi", f"{MOVED}:1")


@pytest.mark.parametrize("name", CASES)
def test_a_host_ends_with_its_status_and_a_sentence(name: str, finished: Finished) -> None:
    check_case(CASES[name], finished.outcomes[name])


def test_the_run_says_so_and_counts_everybody(finished: Finished) -> None:
    check_run(CASES, finished)


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    # What a host's own programs were replaced with does not look for traces.
    plain = {name: host for name, host in finished.hosts.items() if name not in {"payload_arrives_changed"}}
    check_nothing_is_left(replace(finished, hosts=plain))


def test_output_without_end_takes_no_memory(finished: Finished) -> None:
    assert 30 << 20 < finished.peak_bytes < 300 << 20


def test_clocks_that_are_wrong_are_told_and_spoil_no_duration(finished: Finished) -> None:
    text = " ".join(finished.out.split())
    for name, side in (("clock_ahead", "ahead of"), ("clock_behind", "behind")):
        alias = finished.hosts[name].alias
        assert re.search(rf"{alias}: its clock is (24 h 00|23 h 59) min {side} the control node's", text)
        job_s = finished.outcomes[name].job_s
        assert job_s is not None and 0 < job_s < 200
    assert finished.outcomes["clock_set_back"].job_s is None
    for outcome in finished.outcomes.values():
        for cell in outcome.cells:
            assert cell.timing is None or 0 < cell.timing.total_s < 60


def test_what_hosts_say_is_text_everywhere(finished: Finished, run_fleet: RunFleet) -> None:
    reports = ("--reports", str(finished.run.path.parent.parent))
    shown = [finished.out, finished.err]
    for command in (("report",), ("report", "--json"), ("runs",), ("status", "--json")):
        shown.append(run_fleet(*command, *reports, env={"COLUMNS": "500"}).stdout)
        assert shown[-1], command
    for text in shown:
        assert {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} <= {"\n"}
    assert SHOWN in shown[2] and SHOWN in shown[3]
