"""A connection through the ProxyCommand of ssh_config: its standard input and output are one end of a socket pair."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess

from fleet.transport.faults import Place, unreachable
from fleet.transport.sockets import SshSocket


class ProxySocket(SshSocket):
    """Our end of the pair. Closing it ends the command."""

    command: subprocess.Popen[bytes] | None = None

    def await_failure(self) -> int | None:
        """The status of a command that ended by itself, and not with 0, within a moment; None otherwise."""
        if self.command is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.command.wait(timeout=0.5)
        # Below 0: a signal, which close() sends.
        return self.command.returncode if (self.command.returncode or 0) > 0 else None

    def close(self) -> None:
        super().close()
        if self.command is None or self.command.poll() is not None:
            return
        try:
            # It sees the end of its standard input first, and may have a status to tell.
            self.command.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            _kill_group(self.command)


def _kill_group(command: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(command.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(timeout=2)
            return


def open_proxy(place: Place, command: str) -> ProxySocket:
    """Start the command (a shell's text, as ssh_config has it, `%` tokens filled in).

    Raises:
        Unreachable: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    sock = ProxySocket(ours.family, ours.type, ours.proto, ours.detach())
    with theirs:
        try:
            sock.command = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            sock.close()
            raise unreachable(place, "proxy_command", f"has a ProxyCommand that cannot be run: {error}") from None
    return sock
