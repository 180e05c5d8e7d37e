"""Passwords that somebody typed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Passwords:
    """What was typed when a command began. It is nowhere shown, logged or kept, not even in `repr`."""

    login: str | None = field(default=None, repr=False)
    """For SSH, where a host takes none of our keys."""
    sudo: str | None = field(default=None, repr=False)
    """For the hosts with `fleet_become`."""


NO_PASSWORDS = Passwords()
