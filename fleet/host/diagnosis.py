"""What container engines print when they fail, and what it means.

The texts are those of Docker Engine 20.10 to 28, containerd and the NVIDIA Container Toolkit; case does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.model.text import make_inert

Diagnosis = tuple[str, str, str]
"""Reason, sentence, what to do next."""


@dataclass(frozen=True)
class _Known:
    pattern: str
    reason: str
    message: str
    hint: str


_LOGIN = (
    "Log in there with docker login (nvcr.io: user name $oauthtoken, your key); a stale login fails too: docker logout."
)

_KNOWN = (
    _Known(
        r'could not select device driver "\w*" with capabilities: \[\[gpu\]\]|no known gpu vendor found',
        "toolkit_missing",
        "docker cannot hand out GPUs: the NVIDIA Container Toolkit is missing",
        "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure`, restart docker.",
    ),
    _Known(
        r"(unknown or invalid runtime name|unknown runtime specified):? nvidia",
        "toolkit_not_registered",
        "docker does not know the runtime nvidia",
        "Run `nvidia-ctk runtime configure --runtime=docker` there and restart docker.",
    ),
    _Known(
        r"initialization error: (nvml error: )?driver (not loaded|rpc error)|load library failed: libnvidia-ml",
        "driver_not_loaded",
        "the NVIDIA driver is not loaded",
        "Run nvidia-smi there; install the driver or reboot into the kernel it was built for.",
    ),
    _Known(
        r"unsatisfied condition: cuda>=([\d.]+)",
        "driver_too_old",
        "the NVIDIA driver is too old for this image",
        "Update the driver, or set fleet_image to an older release for this host.",
    ),
    _Known(
        r"unresolvable cdi devices|cdi device injection failed",
        "cdi_spec_missing",
        "docker has no description of the GPUs (CDI)",
        "Run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` there.",
    ),
    _Known(
        r"device error: .*unknown device",
        "bad_gpu_index",
        "a GPU that fleet_devices names is not there",
        "Compare fleet_devices with `nvidia-smi -L` on the host.",
    ),
    _Known(
        r"driver/library version mismatch",
        "driver_mismatch",
        "the NVIDIA driver was updated without a reboot",
        "Reboot the host, or reload the nvidia kernel modules.",
    ),
    _Known(
        r"failed to initialize nvml: (unknown error|insufficient permissions)",
        "nvml_failed",
        "the container cannot reach the NVIDIA driver",
        "Check the device files' permissions, SELinux, and no-cgroups in the toolkit's configuration.",
    ),
    _Known(
        # Before the missing image: "no matching manifest for … : not found".
        r"no matching manifest for|no match for platform in manifest|exec format error",
        "wrong_architecture",
        "the image {image} is not built for this host's processor",
        "Set fleet_image to one that is.",
    ),
    _Known(
        r"manifest unknown|manifest for .* not found|repository .*does not exist"
        r"|pull access denied|name unknown|no such image|failed to resolve reference .*: not found",
        "image_not_found",
        "the image {image} is not on the host and no registry gives it",
        "Check fleet_image, its tag and the right to pull it; or send it: `fleet push-image -i INVENTORY`.",
    ),
    _Known(
        r"unauthorized|authentication required|\b(401|403 forbidden)\b|(?<!permission )(?<!access )\bdenied(: |$)"
        r"|failed to fetch (anonymous|oauth) token: unexpected status",
        "registry_auth",
        "the registry refuses to give the image {image}",
        _LOGIN,
    ),
    _Known(
        r"toomanyrequests|\b429\b",
        "rate_limited",
        "the registry allows no more pulls for now: {image} did not come",
        "Log in there, or try later.",
    ),
    _Known(
        r"no space left on device|disk quota exceeded",
        "disk_full",
        "there is no space for the image {image} in docker's data directory",
        "Free some there (docker system df, docker image prune).",
    ),
    _Known(
        r"operation not permitted.*rlimit|rlimit.*operation not permitted|error setting rlimit",
        "ulimit_refused",
        "this engine may not raise limits",
        "Set fleet_ulimits: {} for this host.",
    ),
    _Known(
        r"cannot join ipc|\bipc\b.*(not permitted|not supported|not allowed)",
        "ipc_refused",
        "this engine does not share the host's shared memory",
        "Set fleet_ipc: private for this host.",
    ),
    _Known(
        r"unknown (shorthand )?flag|flag needs an argument|flag provided but not defined|invalid argument .* for \"-"
        r"|conflicting options|invalid reference format",
        "bad_arguments",
        "docker does not understand an argument",
        "Check fleet_runtime_args and fleet_image.",
    ),
    _Known(
        # The engine is another machine's, or may not look where the user may.
        r"bind source path does not exist|error while creating mount source path|invalid mount config",
        "mount_refused",
        "the engine cannot see the work directory",
        "Set fleet_workdir to a directory on a local disk: an NFS home that squashes root, or docker's snap, hides it.",
    ),
    _Known(
        r"executable file not found|no such file or directory: unknown",
        "no_python",
        "the image {image} has no python3",
        "Set fleet_image to an image with Python and TensorFlow.",
    ),
    _Known(
        r"x509:|certificate signed by unknown authority|i/o timeout|tls handshake timeout|proxyconnect"
        r"|no such host|server misbehaving|connection refused|connection reset|no route to host"
        r"|network is unreachable|request canceled while waiting|gave http response to https client"
        r"|client\.timeout exceeded|context deadline exceeded|temporary failure in name",
        "registry_network",
        "the image {image} is not on the host and its registry cannot be reached from there",
        "Is fleet_image right? Then check the way to the registry there (proxy, DNS), or send it: "
        "`fleet push-image -i INVENTORY`.",
    ),
)

_ENGINE = (
    _Known(
        # Not any "permission denied": the client also warns so of its own configuration.
        r"permission denied while trying to connect|connect: permission denied",
        "docker_permission",
        "{user} may not use docker",
        "Add the user to the group docker there (it is as good as root), or run a rootless engine.",
    ),
    _Known(
        r"cannot connect to the docker daemon|docker daemon running|connection refused|no such file or directory",
        "docker_not_running",
        "the docker daemon does not run, or not where the client looks for it",
        "Start it there: systemctl start docker.",
    ),
)


def diagnose_engine(said: str, user: str) -> Diagnosis:
    """Why the engine does not answer, from what its client printed."""
    return _diagnose(
        _ENGINE, said, ("docker_failed", "docker does not answer", "Run `docker info` there."), {"user": user}
    )


def diagnose_launch(said: str, image: str) -> Diagnosis:
    """Why a container did not start, or an image did not come, from what the engine printed."""
    fallback = ("launch_failed", "the engine did not start {image}", "Start it there by hand to see more.")
    return _diagnose(_KNOWN, said, fallback, {"image": image})


def diagnose_load(said: str, image: str) -> Diagnosis:
    """Why an image that was sent did not load, from what the engine printed."""
    fallback = (
        "load_failed",
        "the engine did not load {image}",
        "Is the archive whole? Try docker load by hand.",
    )
    return _diagnose(_KNOWN, said, fallback, {"image": image})


def _diagnose(table: tuple[_Known, ...], said: str, fallback: Diagnosis, names: Mapping[str, str]) -> Diagnosis:
    evidence = _shorten(said)
    for known in table:
        if re.search(known.pattern, said, re.IGNORECASE | re.MULTILINE):
            reason, message, hint = known.reason, known.message, known.hint
            break
    else:
        reason, message, hint = fallback
    message = message.format(**names)
    return reason, f"{message} ({evidence})" if evidence else message, hint


def _shorten(said: str) -> str:
    """The line that says why: the last that is neither empty nor the client's pointer to its help."""
    lines = [line.strip() for line in make_inert(said, 8192).split("\n")]
    telling = [
        line
        for line in lines
        if line and not re.match(r"(see|run) .*--help|errors pretty printing info", line, re.IGNORECASE)
    ]
    line = telling[-1] if telling else ""
    return line if len(line) <= 300 else line[:299] + "…"
