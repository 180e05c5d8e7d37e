"""Fills in what ssh_config leaves open: `%` tokens, `${VARIABLES}`, `~/`."""

from __future__ import annotations

import getpass
import os
import pwd
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Tokens:
    """What `%h` and its like stand for."""

    host: str
    port: int
    user: str
    name: str

    def expand(self, text: str) -> str:
        """Fill in `%` tokens, `${VARIABLES}` and a leading `~/`."""
        if "%" in text:
            values = {
                "%": "%",
                "d": str(home_directory()),
                "h": self.host,
                "i": str(os.getuid()),
                "n": self.name,
                "p": str(self.port),
                "r": self.user,
                "u": local_user(),
            }
            text = re.sub(r"%(.)", lambda m: values.get(m[1], m[0]), text)
        text = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], m[0]), text)
        return str(home_directory()) + text[1:] if text.startswith("~/") else text


@cache
def home_directory() -> Path:
    """The account's home, as ssh has it, not $HOME."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path(os.environ.get("HOME", "/"))


def local_user() -> str:
    """Who runs fleet."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "root" if os.getuid() == 0 else str(os.getuid())
