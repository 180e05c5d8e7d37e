"""Names in a run directory. None of them is ever taken from a host unchecked."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9]{4}")

PLAN_FILE = "plan.json"
RUN_FILE = "run.json"
EVENTS_FILE = "events.jsonl"
LOG_FILE = "fleet.log"
HOSTS_DIRECTORY = "hosts"
OUTCOME_FILE = "host.json"
PAYLOAD_FILE = "payload.pyz"
CANCEL_FILE = "cancel"

_KEPT_FILE = re.compile(r"(?:cells/[0-9]{3,6}\.json|[a-z][a-z0-9_-]{0,31}(?:\.[a-z0-9]{1,8})?)")
_LONGEST = 200


def is_kept_name(name: str) -> bool:
    """Whether a host may have a file of this name kept: `log`, `exit.json`, `cells/007.json`, … but not `host.json`."""
    return _KEPT_FILE.fullmatch(name) is not None and name not in {OUTCOME_FILE, "cells"}


def name_directories(aliases: Iterable[str]) -> dict[str, str]:
    """A directory name for every alias: the alias itself where it can be, else percent-encoded (`fd00%3A%3A1`).

    Aliases that differ only in case have their capitals encoded too, because macOS would take them for one name; what
    is too long for a file system ends in a hash. Different aliases always get different names.
    """
    known = tuple(aliases)
    folded = Counter(alias.lower() for alias in known)
    return {alias: _name_directory(alias, encode_capitals=folded[alias.lower()] > 1) for alias in known}


def _name_directory(alias: str, *, encode_capitals: bool) -> str:
    name = quote(alias, safe="")
    if encode_capitals:
        name = "".join(f"%{ord(c):02X}" if "A" <= c <= "Z" else quote(c, safe="") for c in alias)
    if len(name) > _LONGEST:
        # No alias has a tilde, so a shortened name never meets a whole one.
        name = name[:_LONGEST] + "~" + hashlib.sha256(alias.encode()).hexdigest()[:16]
    return name
