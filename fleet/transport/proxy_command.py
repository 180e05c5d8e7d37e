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

    def await_exit_status(self) -> int | None:
        """The command's exit status, when it ends within a moment; None while it runs."""
        if self.command is None:
            return None
        try:
            return self.command.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        super().close()
        command, self.command = self.command, None
        if command is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, signal.SIGTERM)
            try:
                command.wait(timeout=2)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(command.pid, signal.SIGKILL)
                command.wait()


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
