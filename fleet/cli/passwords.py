"""Asks for passwords on the terminal, once, and never for one that no host wants."""

from __future__ import annotations

import getpass
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.cli.words import tell
from fleet.errors import ConfigError
from fleet.transport.open import Target
from fleet.transport.passwords import Passwords


@dataclass(frozen=True)
class Ask:
    """Which passwords were said to be asked for."""

    login: bool
    sudo: bool


def ask_passwords(ask: Ask, hosts: Iterable[Target]) -> Passwords:
    """What is typed on the terminal.

    Args:
        hosts: those that will be connected to.

    Raises:
        ConfigError: there is no terminal, or nothing was typed.
    """
    hosts = tuple(hosts)
    login = sudo = None
    if ask.login and _is_wanted("--ask-pass", any(h.connection.kind == "ssh" for h in hosts), "is reached over SSH"):
        login = _read_password("--ask-pass", "SSH password: ")
    if ask.sudo and _is_wanted("--ask-become-pass", any(h.settings.become for h in hosts), "has fleet_become: true"):
        same = " (empty: the SSH password)" if login else ""
        sudo = _read_password("--ask-become-pass", f"sudo password{same}: ", otherwise=login)
    return Passwords(login, sudo)


def _is_wanted(option: str, wanted: bool, what: str) -> bool:
    if not wanted:
        tell(f"fleet: {option} asks for nothing, for no host {what}.")
    return wanted


def _read_password(option: str, prompt: str, otherwise: str | None = None) -> str:
    with warnings.catch_warnings():
        # Without a terminal it would be read from standard input, and shown.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            typed = getpass.getpass(prompt) or otherwise
        except (getpass.GetPassWarning, OSError):
            hint = "Run fleet from a terminal; unattended, use keys and sudo's NOPASSWD."
            raise ConfigError("there is no terminal to ask on", file=option, hint=hint) from None
        except UnicodeError:
            raise ConfigError("what was typed is not UTF-8", file=option) from None
        except EOFError:
            typed = None
    if not typed:
        raise ConfigError("no password was typed", file=option)
    return typed
