"""Whether a host can do the job as it is: every finding that forbids it, as an error that says how to mend it."""

from __future__ import annotations

import re

from fleet.errors import PreflightFailed
from fleet.host.diagnosis import diagnose_engine
from fleet.host.framing import read_count
from fleet.host.probe import Probe
from fleet.model.inventory import Settings
from fleet.model.result import Stage

MIN_FREE_BYTES = 64 << 20
"""Spec, payload, log (at most 10 MB twice) and a document of some 10 kB a cell."""

MIN_FREE_INODES = 64
_MAKE_ROOM = "Remove files there, or set fleet_workdir to a directory on another file system."


def check_runtime(alias: str, settings: Settings, probe: Probe) -> None:
    """Raises PreflightFailed when what the payload should run in is not there."""
    if settings.runtime == "native":
        status, said, found, *_ = [*probe.findings.lines("python"), "", "", ""]
        if status != "0":
            raise _fail(
                alias,
                "python_missing",
                f"{settings.python or 'python3'} does not run there: {said or 'not found'}",
                "Set fleet_python to an interpreter that has TensorFlow, or fleet_runtime: docker.",
            )
        if found == "False":
            raise _fail(
                alias,
                "tensorflow_missing",
                f"{settings.python or 'python3'} ({said}) has no TensorFlow",
                "Install it there (pip install tensorflow), or set fleet_python to an interpreter that has it.",
            )
        return
    status, *_ = [*probe.findings.words("engine"), ""]
    if status == "missing":
        raise _fail(
            alias,
            "docker_missing",
            f"there is no `{settings.runtime}` on the host's PATH",
            "Install Docker Engine there, or set fleet_runtime: native for this host.",
        )
    if status != "0":
        raise _fail(alias, *diagnose_engine(probe.findings.text("engine"), probe.facts.user or "the user"))


def find_warnings(settings: Settings, probe: Probe) -> tuple[str, ...]:
    """What does not forbid a job and may well be a mistake, a sentence each."""
    found = []
    if settings.device == "gpu" and probe.findings.words("gpus")[:1] == ("none",):
        found.append(
            f"no GPU was found (no nvidia-smi, no NVIDIA driver), and fleet_devices says {_say_devices(settings)}: "
            "for a host without GPUs set fleet_devices: cpu"
        )
    return tuple(found)


def _say_devices(settings: Settings) -> str:
    return ", ".join(settings.devices) if isinstance(settings.devices, tuple) else str(settings.devices)


def check_tools(alias: str, probe: Probe) -> None:
    """Raises PreflightFailed when one of the few programs that the scripts call is not there."""
    missing = probe.findings.text("tools").split()
    if missing:
        raise _fail(
            alias,
            "tool_missing",
            f"{', '.join(missing)} not found on the host's PATH",
            "They belong to util-linux and coreutils (or busybox): install those.",
        )


def check_workdir(alias: str, settings: Settings, probe: Probe) -> None:
    """Raises PreflightFailed when nothing can be kept in the work directory."""
    problem, *_ = [*probe.findings.words("workdir"), "missing"]
    path = probe.facts.workdir or settings.workdir
    detail = [*probe.findings.lines("workdir"), "", ""][1]
    user = probe.facts.user or "the SSH user"
    sentences = {
        "symlink": f"the work directory {path} is a symbolic link, which somebody else may have laid",
        "cannot_create": f"the work directory {path} cannot be made: {detail}",
        "foreign": f"the work directory {path} does not belong to {user}",
        "not_writable": f"{user} cannot write to the work directory {path}: {detail}",
        "shared": f"the work directory {path} is not private: others may write to it",
        "occupied": f"the work directory {path} holds what is not fleet's: {detail}",
        "silent": f"the file system of the work directory {path} does not answer",
    }
    full = re.search(r"No space left on device|Disk quota exceeded", detail)
    if problem != "none" and not full:
        reason = "workdir_" + ("not_writable" if problem == "cannot_create" else problem)
        hint = f"Set fleet_workdir to a directory for fleet alone, e.g. {path.rstrip('/')}/fleet: it is made there."
        if problem not in {"shared", "occupied"}:
            hint = f"Give {user} a directory of its own, or set fleet_workdir to one."
        raise _fail(alias, reason, sentences.get(problem, f"nothing is known of the work directory {path}"), hint)
    _check_room(alias, path, probe)
    if full:
        raise _fail(alias, "disk_full", f"nothing can be written to {path}: {full[0]}", _MAKE_ROOM)


def _check_room(alias: str, path: str, probe: Probe) -> None:
    free = probe.facts.workdir_free_bytes
    if free is not None and free < MIN_FREE_BYTES:
        raise disk_full(alias, path, free)
    total, _, inodes = (read_count(word) for word in [*probe.findings.text("inodes").split(), "", "", "", ""][1:4])
    # File systems that have no fixed number of them say 0 of 0.
    if total and inodes is not None and inodes < MIN_FREE_INODES:
        said = f"only {inodes} inodes are free in {path}; a job needs {MIN_FREE_INODES}"
        raise _fail(alias, "disk_full", said, _MAKE_ROOM)


def disk_full(alias: str, path: str, free_bytes: int, stage: Stage = Stage.PROBE) -> PreflightFailed:
    """The error for too little space."""
    return PreflightFailed(
        alias,
        stage,
        "disk_full",
        f"only {free_bytes / (1 << 20):.1f} MiB are free in {path}; a job needs {MIN_FREE_BYTES >> 20} MiB",
        _MAKE_ROOM,
    )


def _fail(alias: str, reason: str, message: str, hint: str) -> PreflightFailed:
    return PreflightFailed(alias, Stage.PROBE, reason, message, hint)
