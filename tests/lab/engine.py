"""The lab's own container engine: is it there, start it, ask it for things."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from tests.waiting import hold

LAB_DIR = Path("/var/lib/fleet-lab")
"""The engine's data, its log, and the directories of labs that are up. The same place as in setup.sh."""

SOCKET = Path("/run/fleet-lab/socket/docker.sock")
DOCKER_HOST = f"unix://{SOCKET}"
SETUP = Path(__file__).with_name("setup.sh")


class LabError(Exception):
    """The lab cannot do what was asked; one sentence that says what and why."""


def docker(*args: str, timeout_s: float = 120, stdin: bytes = b"", host: str = DOCKER_HOST) -> str:
    """What the client of an engine, the lab's by default, prints on stdout, without the last line end.

    Raises:
        LabError: it ended with another status than 0; the message is its stderr.
    """
    argv = ["docker", "--host", host, *args]
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise LabError(f"`docker {args[0]}` did not end within {timeout_s:g} s") from None
    if done.returncode:
        raise LabError(f"`docker {args[0]}` failed: {done.stderr.decode(errors='replace').strip()[-2000:]}")
    return done.stdout.decode(errors="replace").rstrip("\n")


def find_program(name: str) -> str | None:
    """Path of a program, also of one that only administrators have on PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def locked(work: str) -> AbstractContextManager[None]:
    """Hold a kind of work alone among all processes of this machine that use the lab."""
    return hold(LAB_DIR / f"{work}.lock")


def find_obstacle() -> str | None:
    """Why there can be no lab on this machine, as a sentence; None when there can."""
    if os.geteuid() != 0:
        return "the lab needs root, for its sshd, its mounts and its container engine"
    needed = ("docker", "dockerd", "debootstrap", "ssh", "ssh-keygen")
    absent = [name for name in needed if find_program(name) is None]
    if absent:
        return f"the lab needs {', '.join(absent)} on PATH; tests/lab/setup.sh installs what is missing"
    return None


def start() -> None:
    """Start the engine unless it answers already, and wait until it does.

    Raises:
        LabError: it cannot be started; the message says why.
    """
    obstacle = find_obstacle()
    if obstacle:
        raise LabError(obstacle)
    done = subprocess.run([str(SETUP), "engine"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    if done.returncode:
        raise LabError(done.stderr.decode(errors="replace").strip() or "the lab's engine does not start")
