"""Every finding that forbids a job: its reason, what is wrong, what to do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fleet.errors import PreflightFailed
from fleet.host.framing import Section
from fleet.host.preflight import check_runtime, check_tools, check_workdir, find_warnings
from fleet.host.probe import Probe, read_probe
from fleet.model.inventory import Settings

GOOD = {
    "id": ("", "1001\n1001\nbench\n"),
    "engine": ("0", "28.0.1\n"),
    "tools": ("", "\n"),
    "workdir": ("none", "/home/bench/.fleet\n\n"),
    "disk": ("", "/dev/vda 264212084 30272868 76118044 29% /home\n"),
    "inodes": ("", "/dev/vda 16777216 549746 16227470 4% /home\n"),
}


def look(**found: tuple[str, str]) -> Probe:
    """A good host's probe, but for these sections (the words on their line, the body)."""
    sections = tuple(
        Section(name, tuple(words.split()), body.encode()) for name, (words, body) in {**GOOD, **found}.items()
    )
    return read_probe(b"", sections, "", None)


def check(probe: Probe, settings: Settings) -> None:
    check_tools("gpu01", probe)
    check_runtime("gpu01", settings, probe)
    check_workdir("gpu01", settings, probe)


def test_a_good_host_passes() -> None:
    check(look(), Settings())
    check(look(engine=("missing", ""), python=("", "0\nPython 3.10.12\n")), Settings(runtime="native"))


def test_a_file_system_without_a_number_of_inodes_passes() -> None:
    check(look(inodes=("", "/dev/sdb 0 0 0 - /home\n")), Settings())


@dataclass(frozen=True)
class Case:
    reason: str
    says: tuple[str, ...]
    found: dict[str, tuple[str, str]]
    settings: Settings = field(default_factory=Settings)


DENIED = (
    "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get"
    ' "http://%2Fvar%2Frun%2Fdocker.sock/v1.24/version": dial unix /var/run/docker.sock: connect: permission denied'
)

CASES = {
    "no_engine": Case("docker_missing", ("no `docker`", "Install Docker Engine"), {"engine": ("missing", "")}),
    "no_right": Case("docker_permission", ("bench may not use docker", "group docker"), {"engine": ("1", DENIED)}),
    "silent": Case("docker_failed", ("docker does not answer", "docker info"), {"engine": ("124", "")}),
    "not_looked": Case("docker_failed", ("docker does not answer",), {"engine": ("", "")}),
    "no_python": Case(
        "python_missing",
        ("python3 does not run there: sh: 1: python3: not found", "fleet_python"),
        {"python": ("", "127\nsh: 1: python3: not found\n")},
        Settings(runtime="native"),
    ),
    "own_python": Case(
        "python_missing",
        ("/opt/tf/bin/python does not run there: not found",),
        {"python": ("", "127\n")},
        Settings(runtime="native", python="/opt/tf/bin/python"),
    ),
    "tools": Case("tool_missing", ("flock, setsid not found", "util-linux"), {"tools": ("", "flock\nsetsid\n")}),
    "symlink": Case(
        "workdir_symlink", ("/tmp/w is a symbolic link", "fleet_workdir"), {"workdir": ("symlink", "/tmp/w\n\n")}
    ),
    "cannot_create": Case(
        "workdir_not_writable",
        ("/mnt/w cannot be made: mkdir: cannot create directory", "fleet_workdir"),
        {"workdir": ("cannot_create", "/mnt/w\nmkdir: cannot create directory: Read-only file system\n")},
    ),
    "foreign": Case(
        "workdir_foreign", ("/srv/w does not belong to bench", "of its own"), {"workdir": ("foreign", "/srv/w\n\n")}
    ),
    "not_writable": Case(
        "workdir_not_writable",
        ("bench cannot write to the work directory /srv/w: sh: cannot create",),
        {"workdir": ("not_writable", "/srv/w\nsh: cannot create /srv/w/.fleet-1: Read-only file system\n")},
    ),
    "unknown_word": Case(
        "workdir_bewitched", ("nothing is known of the work directory /srv/w",), {"workdir": ("bewitched", "/srv/w\n")}
    ),
    "full": Case(
        "disk_full", ("only 1.0 MiB are free", "needs 64 MiB"), {"disk": ("", "tmpfs 10240 9216 1024 90% /w\n")}
    ),
    "no_inodes": Case("disk_full", ("only 3 inodes are free",), {"inodes": ("", "/dev/vda 1000 997 3 99% /w\n")}),
    "full_quota": Case(
        "disk_full",
        ("nothing can be written to /w: Disk quota exceeded",),
        {"workdir": ("not_writable", "/w\nfleet: 31: cannot create /w/.fleet-9: Disk quota exceeded\n")},
    ),
    "inodes_used_up_before": Case(
        "disk_full",
        ("only 0 inodes are free",),
        {
            "workdir": ("cannot_create", "/w\nmkdir: cannot create directory '/w': No space left on device\n"),
            "inodes": ("", "/dev/vda 9 9 0 100% /\n"),
        },
    ),
    "inodes_used_up": Case("disk_full", ("only 0 inodes are free",), {"inodes": ("", "/dev/vda 9 9 0 100% /w\n")}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_finding_is_a_reason_and_a_sentence(name: str) -> None:
    case = CASES[name]

    with pytest.raises(PreflightFailed) as failed:
        check(look(**case.found), case.settings)

    error = failed.value
    assert (error.host, error.stage, error.reason) == ("gpu01", "probe", case.reason)
    said = f"{error.message} → {error.hint}"
    assert all(words in said for words in case.says), said
    assert error.hint.endswith(".")


def test_a_python_without_tensorflow_is_found_before_anything_is_started() -> None:
    probe = look(python=("", "0\nPython 3.11.2\nFalse\n"))

    with pytest.raises(PreflightFailed, match=r"/opt/py \(Python 3.11.2\) has no TensorFlow") as failure:
        check(probe, Settings(runtime="native", python="/opt/py"))

    assert failure.value.reason == "tensorflow_missing"
    check(look(python=("", "0\nPython 3.11.2\nTrue\n")), Settings(runtime="native"))


def test_a_gpu_host_without_a_gpu_is_warned_of() -> None:
    bare = look(gpus=("none", ""))

    (warning,) = find_warnings(Settings(devices=("0", "1")), bare)

    assert "fleet_devices says 0, 1: for a host without GPUs set fleet_devices: cpu" in warning
    assert find_warnings(Settings(devices="cpu"), bare) == ()
    assert find_warnings(Settings(), look()) == ()


def test_a_host_that_was_told_to_look_for_nothing_is_not_passed() -> None:
    sections = tuple(Section(name, (), b"") for name in ("id", "engine"))

    with pytest.raises(PreflightFailed) as failed:
        check_workdir("gpu01", Settings(), read_probe(b"", sections, "", None))

    assert failed.value.reason == "workdir_missing"
