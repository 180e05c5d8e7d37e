"""The words that start a payload, and what docker's own client and engine make of them."""

from __future__ import annotations

import json
import os
import secrets
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet.model.inventory import Settings
from fleet.runtime.base import HostJob
from fleet.runtime.choose import choose_runtime
from fleet.runtime.docker import DockerRuntime
from fleet.runtime.native import NativeRuntime
from tests.lab.engine import docker

SHA = "ab" * 32
JOB = HostJob("20261201t000000z-k3x9-000", "20261201T000000Z-k3x9", "/home/u/.fleet", SHA, 1001, 1002)


def build(job: HostJob = JOB, **settings: Any) -> tuple[str, ...]:
    return DockerRuntime().build_arguments(Settings(**settings), job)


def values(arguments: tuple[str, ...], option: str) -> list[str]:
    """What follows each occurrence of an option."""
    return [after for word, after in pairwise(arguments) if word == option]


def test_the_runtime_is_the_one_of_the_settings() -> None:
    assert isinstance(choose_runtime(Settings()), DockerRuntime)
    assert isinstance(choose_runtime(Settings(runtime="native")), NativeRuntime)


def test_names_and_paths() -> None:
    assert JOB.container == "fleet-20261201t000000z-k3x9-000"
    assert JOB.directory == "/home/u/.fleet/jobs/20261201t000000z-k3x9-000"
    assert JOB.payload == f"/home/u/.fleet/payload-{SHA}.pyz"


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        ("all", ["all"]),
        (2, ["2"]),
        (["0", "1"], ['"device=0,1"']),
        (["GPU-3b84c06a-611d-8e07-2726-44a868f646fe"], ['"device=GPU-3b84c06a-611d-8e07-2726-44a868f646fe"']),
        (["0:0"], ['"device=0:0"']),
        ("cpu", []),
    ],
)
def test_gpus_are_asked_for_as_the_client_reads_them(devices: object, gpus: list[str]) -> None:
    arguments = build(devices=devices)

    assert values(arguments, "--gpus") == gpus
    hidden = "NVIDIA_VISIBLE_DEVICES=void" in values(arguments, "--env")
    assert hidden == (devices == "cpu")


@pytest.mark.parametrize(
    ("uid", "rootless", "user"), [(1001, False, "1001:1002"), (0, False, "65534:65534"), (1001, True, "0:0")]
)
def test_the_user_is_never_root_of_the_host(uid: int, rootless: bool, user: str) -> None:
    job = HostJob(JOB.job_id, JOB.run_id, JOB.workdir, SHA, uid, 1002, rootless)

    assert values(build(job), "--user") == [user]


def test_limits_and_shared_memory_can_be_left_out() -> None:
    assert values(build(), "--ulimit") == ["memlock=-1", "stack=67108864"]
    assert values(build(), "--ipc") == ["host"]
    bare = build(ulimits={}, ipc="private")
    assert "--ulimit" not in bare
    assert "--ipc" not in bare


def test_a_users_own_arguments_come_last_before_the_image() -> None:
    arguments = build(image="nvcr.io/x:1", runtime_args=["--network", "host", "--cpuset-cpus", "0-15"])

    place = arguments.index("nvcr.io/x:1")
    assert arguments[place - 4 : place] == ("--network", "host", "--cpuset-cpus", "0-15")
    assert arguments.index("none") < place - 4, "so that they win"
    assert arguments[place + 1 :] == ("python3", "/fleet/payload.pyz", "run", "/fleet/spec.json", "--out", "/fleet/out")


def test_no_more_power_than_needed() -> None:
    arguments = build()

    for option, value in (("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges")):
        assert values(arguments, option) == [value]
    assert not {"--privileged", "--rm", "--entrypoint", "-v", "--volume"} & set(arguments)
    assert not any("docker.sock" in word for word in arguments)


@pytest.fixture
def created(tensorflow_image: str, tmp_path: Path) -> Any:
    """Create, never start, a container from the words; what the engine says of it."""
    # A comma and a quote, as a home directory may have them: the client reads --mount as CSV.
    workdir = tmp_path / 'o"dd, home'
    job = HostJob(f"create-{secrets.token_hex(4)}", JOB.run_id, str(workdir), SHA, os.getuid() or 1001, 1002)
    Path(job.directory, "out").mkdir(parents=True)
    Path(job.directory, "spec.json").write_text("{}")
    Path(job.payload).write_text("")
    names: list[str] = []

    def create(**settings: Any) -> tuple[HostJob, Any]:
        arguments = build(job, image=tensorflow_image, **settings)
        docker("create", "--name", job.container, *arguments)
        names.append(job.container)
        return job, json.loads(docker("inspect", job.container))[0]

    yield create
    for name in names:
        docker("rm", "-f", name)


@pytest.mark.needs("docker")
def test_the_engine_understands_every_word(created: Any, tensorflow_image: str) -> None:
    job, seen = created(devices="cpu", runtime_args=["--memory", "1g"])

    host, config = seen["HostConfig"], seen["Config"]
    assert config["Image"] == tensorflow_image
    assert config["User"] == f"{job.uid}:1002"
    assert config["Labels"].items() >= {"fleet.run": job.run_id, "fleet.job": job.job_id}.items()
    assert config["Entrypoint"] == ["/opt/nvidia/nvidia_entrypoint.sh"]
    assert config["Cmd"][:3] == ["python3", "/fleet/payload.pyz", "run"]
    assert {"HOME=/tmp", "NVIDIA_VISIBLE_DEVICES=void", "CUDA_VISIBLE_DEVICES="} <= set(config["Env"])
    assert (host["NetworkMode"], host["IpcMode"], host["Memory"]) == ("none", "host", 1 << 30)
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert (host["Privileged"], host["AutoRemove"]) == (False, False)
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["LogConfig"]["Config"] == {"max-size": "10m"}
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {"memlock": -1, "stack": 67108864}
    assert {(m["Source"], m["Destination"], m["RW"]) for m in seen["Mounts"]} == {
        (f"{job.directory}/spec.json", "/fleet/spec.json", False),
        (job.payload, "/fleet/payload.pyz", False),
        (f"{job.directory}/out", "/fleet/out", True),
    }


@pytest.mark.needs("docker")
@pytest.mark.parametrize(
    ("devices", "count", "identifiers"), [("all", -1, None), (2, 2, None), (["0", "1"], 0, ["0", "1"])]
)
def test_the_client_asks_for_the_gpus_that_are_meant(
    created: Any, devices: object, count: int, identifiers: list[str] | None
) -> None:
    _, seen = created(devices=devices, ulimits={}, ipc="private")

    (request,) = seen["HostConfig"]["DeviceRequests"]
    assert (request["Count"], request["DeviceIDs"]) == (count, identifiers)
    assert request["Capabilities"] == [["gpu"]]


def native(**settings: Any) -> tuple[str, ...]:
    return NativeRuntime().build_arguments(Settings(runtime="native", **settings), JOB)


def test_native_is_the_payloads_own_command() -> None:
    spec, out = f"{JOB.directory}/spec.json", f"{JOB.directory}/out"

    assert native() == ("env", "PYTHONDONTWRITEBYTECODE=1", "python3", JOB.payload, "run", spec, "--out", out)
    assert native(python="/opt/tf/bin/python")[2] == "/opt/tf/bin/python"


@pytest.mark.parametrize(
    ("devices", "environment"),
    [
        ("cpu", ["CUDA_VISIBLE_DEVICES="]),
        (["1", "0"], ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1,0"]),
        (2, []),
        ("all", []),
    ],
)
def test_native_shows_the_payload_the_gpus_that_are_meant(devices: object, environment: list[str]) -> None:
    assert list(native(devices=devices)[2:-6]) == environment
