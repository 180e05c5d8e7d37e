"""Rules of this machine's packet filter that are gone when the test is over, however it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.engine import find_program


@contextmanager
def rule(*words: str) -> Iterator[None]:
    """Treat what comes in so, e.g. `rule("-d", "127.66.0.1", "-j", "DROP")`."""
    _call("-I", *words)
    try:
        yield
    finally:
        _call("-D", *words)


def _call(action: str, *words: str) -> None:
    subprocess.run([find_program("iptables") or "iptables", "--wait", action, "INPUT", *words], check=True, timeout=30)
