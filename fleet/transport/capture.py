"""Keeps the beginning of a stream of bytes."""

from __future__ import annotations


class Capture:
    """At most `limit_bytes` of what is added; the rest is counted as lost.

    Args:
        limit_bytes: the most that is kept.
        mark: where the stream begins: all before it, and the mark itself, is noise. Empty: at once.
    """

    NOISE_LIMIT_BYTES = 1 << 16

    def __init__(self, limit_bytes: int, mark: bytes = b"") -> None:
        self._limit = limit_bytes
        self._mark = mark
        self._kept = bytearray()
        self._before = bytearray()
        self.marked = not mark
        """The mark has come."""
        self.truncated = False
        """There was more than the limit."""

    @property
    def data(self) -> bytes:
        return bytes(self._kept)

    @property
    def noise(self) -> bytes:
        """What came before the mark; only the last of it when there was much."""
        return bytes(self._before)

    def add(self, chunk: bytes) -> None:
        if not self.marked:
            chunk = self._find_mark(chunk)
        room = self._limit - len(self._kept)
        self._kept += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room

    def _find_mark(self, chunk: bytes) -> bytes:
        # Only the new part is searched, with as much of the old as a mark can straddle.
        start = max(0, len(self._before) - len(self._mark) + 1)
        self._before += chunk
        at = self._before.find(self._mark, start)
        if at < 0:
            del self._before[: -self.NOISE_LIMIT_BYTES]
            return b""
        self.marked = True
        rest = bytes(self._before[at + len(self._mark) :])
        del self._before[at:]
        return rest
