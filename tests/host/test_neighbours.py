"""Who else uses a machine: found by the real script, told in words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.host.facts import Findings
from fleet.host.framing import Section, Shell
from fleet.host.neighbours import Disturbance, ask_for, find_disturbances, look_around, read_apps
from fleet.model.inventory import Settings
from fleet.model.telemetry import GpuApp
from tests.host.doubles import HostileHost
from tests.host.script_machine import Machine
from tests.host.smi_program import A100, T4, SmiProgram

GPU, CPU = Settings(), Settings(devices="cpu")
USE = f"{A100}, 0, 81920, 97\n{T4}, 1, 15360, 0\n"
SHELLS = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("dash", "busybox")]
OWNERS = (
    "dr-xr-xr-x 9 alice users 0 Dec  1 09:50 /proc/4242\n"
    "dr-xr-xr-x 9 bob          users 0 Dec  1 09:50 /proc/99\n"
    "ls: cannot access '/proc/7': No such file or directory\n"
)


def find(settings: Settings = GPU, words: str = "0 200", **bodies: str) -> tuple[Disturbance, ...]:
    sections = {name: Section(name, tuple(words.split()), body.encode()) for name, body in bodies.items()}
    return find_disturbances(Findings(sections), settings)


def say_gpus(*apps: str, use: str = USE, settings: Settings = GPU) -> str:
    found = find(settings, gpu_apps="\n".join(apps), gpu_use=use, owners=OWNERS)
    assert {disturbance.reason for disturbance in found} <= {"gpu_busy"}
    return "".join(disturbance.message for disturbance in found)


def test_a_gpu_that_others_compute_on_is_busy_with_whom() -> None:
    said = say_gpus(f"{A100}, 4242, 59392, /opt/conda/bin/python3", f"{A100}, 7, 410, [Not Found]")

    assert said == "GPU 0 is used by python3 (alice, pid 4242), a process (pid 7): 58.4 of 80.0 GiB, 97 % busy"


@pytest.mark.parametrize(
    ("row", "use", "busy"),
    [
        ("4242, 500", "81920, 0", False),  # a context kept open
        ("4242, 500", "81920, 5", False),
        ("4242, 500", "81920, 6", True),
        ("4242, 4096", "81920, 0", False),
        ("4242, 4097", "81920, 0", True),
        ("4242, 4097", "81920, [N/A]", True),
        ("4242, 500", "81920, [N/A]", False),
        ("4242, [N/A]", "81920, 0", True),
        ("[Not Supported], 500", "4096, 0", True),
    ],
)
def test_how_much_makes_a_gpu_busy(row: str, use: str, busy: bool) -> None:
    assert bool(say_gpus(f"{A100}, {row}, python3", use=f"{A100}, 0, {use}")) is busy


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("all", ["GPU 0", "GPU 1"]),
        (1, ["GPU 0"]),
        (2, ["GPU 0", "GPU 1"]),
        (("1",), ["GPU 1"]),
        ((A100[:12],), ["GPU 0"]),
        (("1:0", "MIG-2b1c"), []),
        ("cpu", []),
    ],
)
def test_only_the_gpus_of_the_job_count(devices: object, said: list[str]) -> None:
    settings = Settings.model_validate({"devices": devices})
    text = say_gpus(f"{A100}, 1, 60000, a", f"{T4}, 2, 9000, b", settings=settings)

    assert [part.partition(" is used by ")[0] for part in text.split("; ") if part] == said


def test_what_is_no_table_says_nothing() -> None:
    for words in ("Failed to initialize NVML: Driver/library version mismatch", "[Not Supported], 1, 2, x", "a, b"):
        assert say_gpus(words, use=words) == ""
    assert read_apps(f"{A100}, 12, [N/A], a, b\n") == {A100: (GpuApp(pid=12, name="a, b", memory_bytes=None),)}


def test_many_are_counted() -> None:
    rows = "".join(f"GPU-{place}, {place}, 81920, 50\n" for place in range(8))
    said = say_gpus(*(f"GPU-{place}, 4242, 60000, python3" for place in range(8)), use=rows)

    one = "is used by python3 (alice, pid 4242): 58.6 of 80.0 GiB, 50 % busy"
    assert said == f"GPU 0 {one}; GPU 1 {one}; GPU 2 {one} and 5 more"


PROCESSES = (
    "4242 100 20 python3\n4242 150 30 python3\n99 10 0 c++ (x) 1\n99 11 1 c++ (x) 1\n5 900 0 died\n6 70 0 born\n"
)


def test_busy_processors_and_whose_processes_they_are() -> None:
    (found,) = find(CPU, "130 200", cpu=PROCESSES, owners=OWNERS)

    who = "python3 (alice, pid 4242) 30 %, c++ (x) 1 (bob, pid 99) 1 %"
    assert found == Disturbance("cpu_busy", f"65 % of its processors are busy with other work: {who}")


def test_processors_that_are_busy_with_what_is_hidden() -> None:
    (found,) = find(CPU, "130 200", cpu="")

    assert found.message == "65 % of its processors are busy with other work"


@pytest.mark.parametrize("words", ["19 200", "0 0", "", "x y", "-1 200"])
def test_processors_that_are_not_busy(words: str) -> None:
    assert find(CPU, words, cpu=PROCESSES) == ()


def test_another_fleet_says_it_all() -> None:
    locked = find(CPU, locked="you@there (fleet run 1, as gpu01)")

    assert locked == (Disturbance("locked", "it is being measured by you@there (fleet run 1, as gpu01)"),)
    assert "left no name" in find(CPU, locked="")[0].message


def test_a_host_that_lies_is_shown_inertly() -> None:
    rows = b"%b, 1, 60000, \x1b[31mevil\x1b[0m\n" % A100.encode()
    answer = b"\n@@{nonce} gpu_apps\n" + rows + b"\n@@{nonce} gpu_use\n" + USE.encode()
    (found,) = look_around(Shell("gpu01", HostileHost(answer)), GPU)

    assert "\x1b" not in found.message
    assert "evil" in found.message


@pytest.fixture
def smi(ground: Path) -> SmiProgram:
    return SmiProgram(ground / "smi")


@pytest.fixture
def worker() -> Iterator[int]:
    """The pid of a process of user 1234 that takes a processor for itself."""
    argv = ["setpriv", "--reuid=1234", "--clear-groups", "sh", "-c", "while :; do :; done"]
    process = subprocess.Popen(argv)
    yield process.pid
    process.kill()
    process.wait()


def run_script(machine: Machine, settings: Settings, least: str) -> Findings:
    arguments = [ask_for(settings, busy=True)[0], least]
    _, sections = Shell("here", machine).read("neighbours", arguments, stage="probe", timeout_s=60)
    return Findings({section.name: section for section in sections})


@pytest.mark.needs("root", "unshare", "setpriv", "flock")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_finds_who_works(ground: Path, smi: SmiProgram, worker: int, shell: str) -> None:
    smi.say(f"{A100}, {worker}, 60000, /usr/bin/sh", f"{T4}, 999999999, 100, gone")
    found = run_script(Machine(ground / "tmp", shell=shell, path=smi.path), GPU, "0")

    busy, total = map(int, found.words("cpu"))
    assert 0 < busy <= total
    assert total <= (os.cpu_count() or 1) * 100 * 10, "ticks of about a second"
    lines = [line.split(" ", 3) for line in found.lines("cpu") if line.startswith(f"{worker} ")]
    assert [line[3] for line in lines] == ["sh", "sh"]
    assert sum(map(int, lines[1][1:3])) != sum(map(int, lines[0][1:3]))
    assert f"GPU 0 is used by sh (1234, pid {worker}): 58.6 of 80.0 GiB" in find_disturbances(found, GPU)[0].message


@pytest.mark.needs("root", "unshare", "setpriv", "flock")
def test_the_script_lists_no_processes_of_a_machine_that_is_not_busy(ground: Path, worker: int) -> None:
    found = run_script(Machine(ground / "tmp"), CPU, "101")

    assert found.text("cpu") == ""
    assert "owners" not in found.sections
    assert found.sections.keys() == {"neighbours", "cpu"}


@pytest.mark.needs("root", "unshare", "setpriv", "flock")
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_of_little_load_is_not_watched_for_a_second(ground: Path, shell: str) -> None:
    found = run_script(Machine(ground / "tmp", shell=shell), CPU, "100000")

    assert found.words("cpu") == ("0", "0")
    assert found.sections.keys() == {"neighbours", "cpu"}


@pytest.mark.needs("root", "unshare", "setpriv", "flock")
def test_a_gpu_tool_that_hangs_costs_its_own_limit(ground: Path, smi: SmiProgram) -> None:
    (smi.directory / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 3600\n")
    found = run_script(Machine(ground / "tmp", path=smi.path), GPU, "101")

    assert found.text("gpu_apps") == ""
    assert "cpu" in found.sections


@pytest.mark.needs("root", "unshare", "setpriv", "flock")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_that_is_being_measured_is_asked_nothing_more(ground: Path, smi: SmiProgram, shell: str) -> None:
    machine = Machine(ground / "tmp", shell=shell, path=smi.path)
    (machine.tmp / "fleet.holder.1").symlink_to("you@there (fleet run 1, as gpu01)")
    with (machine.tmp / "fleet.lock").open("w") as lock:
        subprocess.run(["flock", str(lock.fileno())], pass_fds=[lock.fileno()], check=True)
        found = run_script(machine, GPU, "0")

    assert found.sections.keys() == {"neighbours", "locked"}
    assert found.text("locked") == "you@there (fleet run 1, as gpu01)"
