"""The scripts under every kind of /bin/sh, with none but the tools that the probe asks for."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import Busy
from fleet.host.framing import Shell, read_script
from fleet.host.probe import Probe, probe_host
from fleet.host.steps import cancel_job, clean_job, collect_job
from tests.conftest import ROOT
from tests.host.script_machine import Machine, ScriptedJob, make_workdir
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("root", "unshare", "setpriv", "flock")

SHELLS = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("dash", "bash", "busybox")]
PAYLOAD = b'mkdir "$4/cells"; echo {} >"$4/cells/000.json"; echo hello; [ ! -e "$4/../long" ] || sleep 60; exit 3\n'


def read_tools() -> list[str]:
    """What the probe says it needs."""
    return " ".join(re.findall(r"^needed=(?:\$needed)?'(.*)'$", read_script("probe"), re.MULTILINE)).split()


def lay_tools(directory: Path, tools: list[str], *, busybox: bool) -> Path:
    """A directory with these tools and no others: busybox's own where it has them, or this machine's."""
    directory.mkdir()
    own = shutil.which("busybox") if busybox else None
    for tool in tools:
        # Debian builds its busybox without flock.
        program = own if own and tool != "flock" else shutil.which(tool)
        assert program is not None
        (directory / tool).symlink_to(program)
    return directory


def probe(machine: Machine, job: ScriptedJob) -> Probe:
    return probe_host(Shell("here", machine), job.settings, payload_sha256=job.sha256)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_needs_the_tools_of_the_probe_and_no_others(ground: Path, shell: str) -> None:
    tools = lay_tools(ground / "bin", read_tools(), busybox=shell == "busybox")
    machine = Machine(ground / "tmp", shell=shell, path=str(tools), uid=1001)
    text = PAYLOAD.replace(b"mkdir", b"/bin/mkdir").replace(b"sleep", b"/bin/sleep")
    job = ScriptedJob(machine, make_workdir(ground / "work", 1001), text)
    found = probe(machine, job)
    assert found.findings.text("tools") == ""
    assert found.facts.workdir == str(job.workdir)
    assert found.facts.workdir_free_bytes
    assert not found.payload_present
    job.start()
    record = job.wait()
    files = collect_job(job.shell, job.job, 1)

    assert (record["reason"], record["exit_status"]) == ("exited", 3)
    assert (files["log"], files["cells/000.json"], files["supervise.err"]) == (b"hello\n", b"{}\n", b"")
    assert probe(machine, job).payload_present
    assert clean_job(job.shell, job.job, job.settings)
    assert [path.name for path in job.workdir.iterdir()] == [f"payload-{job.sha256}.pyz"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_killed_supervisor_and_a_cancel_under_every_shell(ground: Path, shell: str) -> None:
    tools = lay_tools(ground / "bin", read_tools(), busybox=shell == "busybox")
    machine = Machine(ground / "tmp", shell=shell, path=str(tools))
    job = ScriptedJob(machine, make_workdir(ground / "work"), b'echo >"$4/up"; /bin/sleep 60\n')
    job.start()
    wait_for((job.directory / "out" / "up").exists)
    job.kill_supervisor()
    wait_for(job.take_up)
    cancel_job(job.shell, job.job, job.settings)

    assert job.wait()["reason"] == "cancelled"
    assert job.is_free()
    assert (job.directory / "supervise.err").read_bytes() == b""
    assert clean_job(job.shell, job.job, job.settings)


def test_the_scripts_are_read_whatever_the_locale_is() -> None:
    code = (
        "import importlib.resources as r; from fleet.host.framing import read_script\n"
        "for path in r.files('fleet.host').joinpath('scripts').iterdir(): read_script(path.name.removesuffix('.sh'))"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    argv = [sys.executable, "-X", "utf8=0", "-c", code]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tool", read_tools())
def test_a_missing_tool_is_named(ground: Path, tool: str) -> None:
    tools = lay_tools(ground / "bin", [name for name in read_tools() if name != tool], busybox=False)
    machine = Machine(ground / "tmp", path=str(tools))
    job = ScriptedJob(machine, make_workdir(ground / "work"), b"")

    assert probe(machine, job).findings.text("tools").split() == [tool]


def test_a_probe_leaves_an_empty_work_directory(ground: Path) -> None:
    machine = Machine(ground / "tmp")
    job = ScriptedJob(machine, ground / "work", b"")
    probe(machine, job)

    assert [*job.workdir.iterdir()] == []
    assert [*machine.tmp.iterdir()] == []
    assert job.workdir.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shell", SHELLS)
def test_who_measures_there_is_named(ground: Path, shell: str) -> None:
    tools = lay_tools(ground / "bin", read_tools(), busybox=shell == "busybox")
    machine = Machine(ground / "tmp", shell=shell, path=str(tools), uid=1001)
    job = ScriptedJob(machine, make_workdir(ground / "work", 1001), PAYLOAD)
    for name, text in {"2": "earlier@there", "1": "you@there (fleet run 1)"}.items():
        (machine.tmp / f"fleet.holder.{name}").symlink_to(text)
        os.utime(machine.tmp / f"fleet.holder.{name}", (int(name == "1"), int(name == "1")), follow_symlinks=False)
    with (machine.tmp / "fleet.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy) as busy:
            job.start()
        found = probe_host(Shell("here", machine), job.settings, change=False)

    assert "being measured by you@there (fleet run 1)" in busy.value.message
    assert found.findings.text("locked") == "you@there (fleet run 1)"
