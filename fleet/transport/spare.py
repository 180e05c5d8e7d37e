"""A channel that is asked for while a command runs on another: the next command need not wait for its round trip."""

from __future__ import annotations

import queue
import threading
import time

import paramiko

OPEN_LIMIT_S = 15.0

FRESH_S = 5.0
"""An older one may be of a connection that has died: opening another finds that out before anything is sent."""


class SpareChannel:
    """One that will be there, or not: an sshd may allow no second (MaxSessions)."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport, self._asked_at = transport, time.monotonic()
        self._answers: queue.SimpleQueue[paramiko.Channel | None] = queue.SimpleQueue()
        # Paramiko cannot ask without waiting.
        threading.Thread(target=self._open, name="fleet-channel", daemon=True).start()

    def take(self) -> paramiko.Channel | None:
        """The channel, as soon as there is an answer; None: open another."""
        channel = self._answers.get()
        if channel is None or channel.closed:
            return None
        if time.monotonic() - self._asked_at > FRESH_S:
            channel.close()
            return None
        return channel

    def _open(self) -> None:
        try:
            self._answers.put(self._transport.open_session(timeout=OPEN_LIMIT_S))
        except Exception:
            # Refused, or the connection is gone, which whoever opens another will be told.
            self._answers.put(None)
