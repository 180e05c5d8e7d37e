"""What a test may need of the machine, and what is missing of it."""

from __future__ import annotations

import functools
import importlib.util
import os
import re

from tests import postgres
from tests.lab import engine


def read_required() -> frozenset[str]:
    """The needs that must be met: `FLEET_REQUIRE=ssh,docker,tensorflow`."""
    return frozenset(filter(None, re.split(r"[,\s]+", os.environ.get("FLEET_REQUIRE", ""))))


@functools.cache
def find_missing(need: str) -> str | None:
    """Why a need is not met, as a sentence; None when it is.

    Args:
        need: `root`; `ssh` (OpenSSH's client and server); `docker` (the lab and its engine); `tensorflow` (importable
            here); `postgres` (a server that can be started); anything else is the
            name of a program on PATH.
    """
    if need == "root":
        return None if os.geteuid() == 0 else "root: the tests do not run as root"
    if need == "docker":
        return _find_missing_lab()
    if need == "postgres":
        return postgres.find_missing()
    if need == "tensorflow":
        found = importlib.util.find_spec("tensorflow") is not None
        return None if found else "tensorflow: this Python has none; pip install tensorflow-cpu"
    programs = ("ssh", "ssh-keygen", "sshd") if need == "ssh" else (need,)
    absent = [program for program in programs if engine.find_program(program) is None]
    return f"{need}: {', '.join(absent)} not found on PATH" if absent else None


def _find_missing_lab() -> str | None:
    try:
        engine.start()
    except engine.LabError as error:
        return f"docker: {error}"
    return None


def find_required(reason: str) -> str | None:
    """The required need that a test was skipped for, by the words of its reason; None when it is another reason."""
    words = set(re.findall(r"[a-z0-9_+-]+", reason.lower()))
    return min(words & read_required(), default=None)
