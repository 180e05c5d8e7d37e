"""Whole run directories that come from elsewhere, or go for good. Each is there as a whole, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fleet.errors import LockedError, StoreError
from fleet.store.files import explain_error, sync_directory, write_all
from fleet.store.naming import CANCEL_FILE, EVENTS_FILE, PLAN_FILE, RUN_FILE, RUN_ID
from fleet.store.reader import is_running, read_run
from fleet.store.rundir import Store

_CHUNK_BYTES = 1 << 20


def find_runs(directory: Path) -> tuple[Path, ...]:
    """The run directories that `directory` is or holds, oldest first: a run, a reports directory, or its `runs`.

    Raises:
        StoreError: there are none, or it cannot be read.
    """
    directory = directory.resolve()
    if (directory / PLAN_FILE).is_file():
        return (directory,)
    for place in (directory / "runs", directory):
        try:
            found = sorted(path for path in place.iterdir() if RUN_ID.fullmatch(path.name) and path.is_dir())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise explain_error(error, place) from error
        if found:
            return tuple(found)
    raise StoreError(f"{directory}: there is no run.", "Name a run's directory, or a reports directory.")


def take_in_run(store: Store, source: Path) -> bool:
    """Copy the complete run in the directory `source` to the others; False: it is there already, file for file.

    Raises:
        StoreError: it is not complete or cannot be read, or another run is there under its id.
    """
    run = read_run(source)
    if run.summary is None or is_running(source):
        raise StoreError(f"run {source.name} is not complete.", "Only a complete run can be taken in: end it there.")
    target = store.runs_path / source.name
    files = _list_files(source)
    if target.exists():
        _require_same(source, target, files)
        return False
    temporary = store.runs_path / f".{source.name}.{secrets.token_hex(4)}.tmp"
    try:
        store.runs_path.mkdir(parents=True, exist_ok=True)
        try:
            _copy_files(source, temporary, files)
            temporary.rename(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(store.runs_path)
    except OSError as error:
        raise explain_error(error, target) from error
    return True


def remove_run(store: Store, path: Path) -> None:
    """Delete the run in the directory `path`, which is one of the store's.

    Raises:
        LockedError: a fleet works at it.
        StoreError: it cannot be deleted.
    """
    gone = path.with_name(f".{path.name}.{secrets.token_hex(4)}.deleted")
    try:
        events = os.open(path / EVENTS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CREAT, 0o600)
        try:
            fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.rename(gone)
        except BlockingIOError as error:
            hint = f"End it first, with: fleet cancel {path.name}"
            raise LockedError(f"run {path.name} is going on: a fleet works at it.", hint) from error
        finally:
            os.close(events)
        sync_directory(store.runs_path)
        _leave_latest(store, path.name)
        # Also what somebody has left who was killed at this place.
        for left in store.runs_path.glob(".*.deleted"):
            shutil.rmtree(left, ignore_errors=left != gone)
    except OSError as error:
        raise explain_error(error, path) from error


def measure_size(path: Path) -> int:
    """Bytes of all files in the directory."""
    return sum(entry.lstat().st_size for entry in path.rglob("*") if not entry.is_dir())


def _leave_latest(store: Store, run_id: str) -> None:
    """The newest complete run is the latest when the latest is gone."""
    latest = store.root / "latest"
    try:
        if latest.readlink().name != run_id:
            return
    except OSError:
        return
    latest.unlink()
    complete = next((path for path in store.paths() if (path / RUN_FILE).is_file()), None)
    if complete is not None:
        with suppress(FileExistsError):  # a run has become complete just now
            latest.symlink_to(Path("runs") / complete.name)


def _list_files(directory: Path) -> tuple[str, ...]:
    """Names below `directory`, sorted. Anything but files and directories is refused: it might lead out of it."""
    return tuple(sorted(name for name in _walk(directory) if name != CANCEL_FILE))


def _walk(directory: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(directory, onerror=_complain):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path.relative_to(directory).as_posix()
            elif not stat.S_ISDIR(mode):
                raise StoreError(f"{path} is neither a file nor a directory.", "Fleet made no such thing: remove it.")


def _complain(error: OSError) -> None:
    raise explain_error(error, Path(error.filename)) from error


def _require_same(source: Path, target: Path, files: tuple[str, ...]) -> None:
    there = _list_files(target)
    different = sorted(set(files) ^ set(there)) or [
        name for name in files if (source / name).read_bytes() != (target / name).read_bytes()
    ]
    if different:
        raise StoreError(
            f"{source}: run {source.name} is there already, and differs in {different[0]}.",
            "Nothing was overwritten. Delete the one that you do not want.",
        )


def _copy_files(source: Path, target: Path, files: tuple[str, ...]) -> None:
    target.mkdir(mode=0o700)
    folders = {target}
    for name in files:
        path = target / name
        for folder in reversed(path.relative_to(target).parents[:-1]):
            (target / folder).mkdir(mode=0o700, exist_ok=True)
            folders.add(target / folder)
        _copy_file(source / name, path)
    for folder in folders:
        sync_directory(folder)


def _copy_file(source: Path, target: Path) -> None:
    """With its time, by which the index knows the state of a run."""
    try:
        reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise explain_error(error, source) from error
    with os.fdopen(reading, "rb") as stream:
        found = os.fstat(reading)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(source))
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            while chunk := stream.read(_CHUNK_BYTES):
                write_all(writing, chunk)
            os.utime(writing, ns=(found.st_mtime_ns, found.st_mtime_ns))
            os.fsync(writing)
        finally:
            os.close(writing)
