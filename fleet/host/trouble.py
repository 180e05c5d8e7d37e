"""Which trouble with a host may pass by itself, and how long to wait before it is tried again."""

from __future__ import annotations

import random

from fleet.errors import ContactLost, HostError, Unreachable
from fleet.host.pause import Pause

ATTEMPTS = 3
"""How often a step that may safely be repeated is taken before anything was started on a host."""

CANCELLED = "cancel"
"""Why contact is lost with a host that nobody waits for any more."""

LONGEST_S = 30.0

_PASSING = frozenset({"dns", "refused", "timeout", "no_route", "key_exchange", "jump", "proxy_command"})
"""Why there was no connection. An sshd too busy to answer (banner) has been tried for long before that is said."""


def may_pass(error: HostError) -> bool:
    """Whether it is worth another try. A refused login is not: accounts get locked; nor is a wrong host key."""
    if isinstance(error, ContactLost):
        return error.reason != CANCELLED
    return isinstance(error, Unreachable) and error.reason in _PASSING


def wait_before(attempt: int, *, connecting: bool) -> Pause:
    """Before the try after this one, counted from 1: twice as long each time, at different moments on all hosts."""
    return Pause(min(2.0**attempt, LONGEST_S) * random.uniform(0.5, 1.5), connecting=connecting)
