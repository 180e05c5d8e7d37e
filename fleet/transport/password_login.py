"""Logs in with a password: one try, by whichever method the host has."""

from __future__ import annotations

from collections.abc import Sequence

import paramiko

from fleet.errors import AuthFailed
from fleet.model.text import make_inert
from fleet.transport.faults import Place, auth_failed

REFUSED = "password_refused"
"""The reason after which the same password is not offered to that host again."""

METHODS = frozenset({"password", "keyboard-interactive"})


class _Question(paramiko.SSHException):
    """The host asks for something else than a password."""


class _Answers:
    """What paramiko asks when a host asks: the password for the first hidden answer, and then nothing more."""

    def __init__(self, password: str) -> None:
        self._password: str | None = password

    def __call__(self, title: str, instructions: str, fields: Sequence[tuple[str, bool]]) -> list[str]:
        if not fields:
            return []
        password, self._password = self._password, None
        if len(fields) > 1 or fields[0][1] or password is None:
            raise _Question(" ".join(prompt.strip() for prompt, _ in fields))
        return [password]


def ask_methods(transport: paramiko.Transport, user: str) -> Sequence[str]:
    """How the host lets this user log in; nothing when it already has. Does not count as a try for OpenSSH."""
    try:
        return transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        return error.allowed_types


def offer_password(transport: paramiko.Transport, user: str, password: str, methods: Sequence[str]) -> Sequence[str]:
    """Offer it once; what else the host wants. One of `METHODS` is among the methods.

    Raises:
        paramiko.SSHException, EOFError, OSError: it was not taken; see `explain_refusal`.
    """
    if "password" in methods:
        # Without paramiko's second try by the other method: accounts are locked after few.
        return transport.auth_password(user, password, fallback=False)
    return transport.auth_interactive(user, _Answers(password))


def explain_refusal(place: Place, who: str, error: Exception, keys_failed: AuthFailed | None) -> AuthFailed:
    """What to raise.

    Args:
        who: user and address.
        keys_failed: why no key was taken.
    """
    if isinstance(error, _Question):
        what = f"{who} asks for something else than a password: {make_inert(str(error))[:200]!r}."
        return auth_failed(place, "second_factor", what, "fleet needs an account that a key or a password alone opens.")
    what = f"{who} refused the password. {keys_failed.message if keys_failed else ''}".strip()
    step = "It was tried once, lest the account be locked. Type it anew, or correct ansible_user."
    return auth_failed(place, REFUSED, what, step)
