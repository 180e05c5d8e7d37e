"""The bytes of an archive that a host is sent: parts of a file one after the other, read from anywhere by many."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, NamedTuple

from fleet.errors import FleetError

_READ_BYTES = 1 << 20


class Span(NamedTuple):
    """From `begin` to before `end`, in bytes."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Stream:
    """Spans of a file as one sequence of bytes. Safe to share among threads."""

    file: BinaryIO
    ids: tuple[str, ...]
    """Of the images in it."""
    spans: tuple[Span, ...]
    unpacked_bytes: int
    """What the layers in it take, unpacked."""

    @cached_property
    def size(self) -> int:
        """Bytes."""
        return sum(span.size for span in self.spans)

    @cached_property
    def key(self) -> str:
        """A name of 16 hexadecimal digits: the same for the same images, saved in the same way and cut alike."""
        return hashlib.sha256(repr((self.ids, self.spans)).encode()).hexdigest()[:16]

    def read_at(self, offset: int, most: int) -> bytes:
        """Bytes from `offset` on, at most so many; none at the end.

        Raises:
            FleetError: the file cannot be read, or has become shorter.
        """
        for span in self.spans:
            if offset < span.size:
                wanted = min(most, span.size - offset)
                try:
                    data = os.pread(self.file.fileno(), wanted, span.begin + offset)
                except OSError as error:
                    raise FleetError(f"The image cannot be read: {(error.strerror or str(error)).lower()}.") from None
                if wanted and not data:
                    raise FleetError("The image's file has become shorter while it was sent.", "Push it again.")
                return data
            offset -= span.size
        return b""

    def open(self, offset: int, length: int, count: Callable[[int], None]) -> Part:
        """A reader of `length` bytes from `offset` on; `count` is told of every byte that is read."""
        return Part(self, offset, offset + length, count)

    def digest(self, length: int) -> str:
        """sha256 of the first `length` bytes, in hexadecimal digits."""
        found, offset = hashlib.sha256(), 0
        while chunk := self.read_at(offset, min(_READ_BYTES, length - offset)):
            found.update(chunk)
            offset += len(chunk)
        return found.hexdigest()


@dataclass
class Part:
    """Reads a part of a stream once (see `fleet.transport.base.Reader`)."""

    stream: Stream
    offset: int
    end: int
    count: Callable[[int], None]

    def read(self, most: int, /) -> bytes:
        left = min(most, self.end - self.offset)
        chunk = self.stream.read_at(self.offset, left) if left else b""
        self.offset += len(chunk)
        self.count(len(chunk))
        return chunk
