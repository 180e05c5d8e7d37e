"""Files that are whole or not there, whatever kills the process that writes them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fleet.errors import StoreError


def write_atomic(path: Path, data: bytes, *, sync_parent: bool = True, mode: int = 0o600) -> None:
    """Write `data` under a temporary name, flush it to the disk, and rename it to `path`.

    When this returns the file survives a power cut; before that `path` is what it was.

    Args:
        sync_parent: also flush the directory. A caller that writes several files there does it once, afterwards.
        mode: who may read it, less what the process's umask takes away.

    Raises:
        StoreError: the file cannot be written; nothing of it is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        if sync_parent:
            sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise explain_error(error, path) from error


def resolve_target(path: Path) -> Path:
    """Where a file that somebody names is written anew: what a link leads to, never over a device or a directory.

    Raises:
        StoreError: something else than a regular file is there.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise StoreError(f"{path} is no regular file.", "Name a file.")
    return target


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, without ever waiting for a pipe or reading a device that has no end.

    Raises:
        FileNotFoundError: there is none.
        StoreError: it cannot be read, is no regular file, or is larger than `most_bytes`.
    """
    with _open_regular(path, most_bytes) as stream:
        # Python takes memory for all that it is asked to read.
        return stream.read(os.fstat(stream.fileno()).st_size)


def read_lines(path: Path, most_bytes: int, longest: int) -> Iterator[bytes]:
    """The lines of a regular file one by one; what is longer than `longest` bytes comes in several.

    Raises:
        FileNotFoundError, StoreError: as `read_regular`.
    """
    with _open_regular(path, most_bytes) as stream:
        while line := stream.readline(longest):
            yield line


@contextlib.contextmanager
def _open_regular(path: Path, most_bytes: int) -> Iterator[BinaryIO]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _refuse_irregular(path)
            if found.st_size > most_bytes:
                what = f"{path} is larger than {most_bytes >> 20} MiB."
                raise StoreError(what, "Fleet wrote no such file: remove it.")
            yield stream
    except FileNotFoundError:
        raise
    except OSError as error:
        raise explain_error(error, path) from error


def open_for_appending(path: Path, *, new: bool = False) -> int:
    """A descriptor of a regular file for reading and for writing at its end; the file is made where there is none.

    Args:
        new: there must be none.

    Raises:
        StoreError: it cannot be opened, or is a link, a pipe or whatever else somebody put in its place.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_EXCL if new else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        irregular = error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}
        raise (_refuse_irregular(path) if irregular else explain_error(error, path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refuse_irregular(path)
    return descriptor


def _refuse_irregular(path: Path) -> StoreError:
    """For what lies where a file should."""
    return StoreError(f"{path} is no regular file.", "Somebody put something else there: remove it.")


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; `os.write` may take fewer than it is given."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Flush a directory, so that the names in it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explain_error(error: OSError, path: Path) -> StoreError:
    """What an `OSError` at `path` means, as a sentence and what to do next."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreError(f"{path}: the disk (or your quota on it) is full.", "Free some space there and run again.")
    if error.errno in {errno.EACCES, errno.EPERM}:
        return StoreError(
            f"{path}: permission denied.", "Give yourself the rights, or choose another reports directory."
        )
    if error.errno == errno.EROFS:
        return StoreError(f"{path}: the file system is read-only.", "Choose another reports directory.")
    return StoreError(f"{path}: {os.strerror(error.errno or 0)}.", "Correct that, or choose another reports directory.")
