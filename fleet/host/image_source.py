"""Where an image comes from that hosts are sent: the control node's engine, or a file made by `docker save`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from fleet.errors import ConfigError, FleetError
from fleet.host.diagnosis import diagnose_engine
from fleet.host.image_archive import Archive, ArchiveError, Image, read_archive
from fleet.model.base import Record
from fleet.model.push import format_bytes
from fleet.model.text import make_inert
from fleet.transport.ssh_tokens import local_user

ENGINE = "docker"
INSPECT_TIMEOUT_S = 60.0
_FORM = '{"id":{{json .Id}},"layers":{{json .RootFS.Layers}},"size":{{json .Size}}}'
_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_PATH_BEGINNINGS = ("/", "./", "../", "~/")


class Source(Protocol):
    """Images, and the archive they are sent as."""

    images: tuple[Image, ...]
    """Known before there is an archive."""
    size: int
    """About how many bytes the archive has."""

    def open(self) -> Archive:
        """The archive, made when it is asked for first. Safe to call from several threads.

        Raises:
            FleetError: it cannot be made.
        """
        ...

    def close(self) -> None:
        """Let go of the archive, and leave nothing of it on the disk."""
        ...


def open_source(what: str) -> Source:
    """A file, by the ending or the beginning of its name, or because it is there and the name has no tag; else an image
    of the control node's engine.

    Raises:
        ConfigError: it is not there, is no archive, or has no name to be found by.
        FleetError: the engine does not answer.
    """
    is_there = ":" not in what and Path(what).is_file()
    if is_there or what.endswith(_ENDINGS) or what.startswith(_PATH_BEGINNINGS):
        return FileSource(Path(what).expanduser())
    return EngineSource(what)


class FileSource:
    """A file made by `docker save`."""

    def __init__(self, path: Path) -> None:
        try:
            if path.exists() and not path.is_file():
                raise ConfigError(f"{path} is no regular file.", hint="Name a file made by docker save.")
            self._file = path.open("rb")
            self._archive = read_archive(self._file)
        except OSError as error:
            raise ConfigError(f"{path}: {(error.strerror or str(error)).lower()}.") from None
        except ArchiveError as error:
            self._file.close()
            raise ConfigError(f"{path} {error}.", hint="Make it with: docker save -o FILE.tar IMAGE") from None
        for image in self._archive.images:
            if not image.names:
                self._file.close()
                hint = "Name it: docker tag ID NAME:TAG, then save it by that name."
                raise ConfigError(f"{path} holds an image without a name, which no host could find.", hint=hint)
        self.images, self.size = self._archive.images, self._archive.size

    def open(self) -> Archive:
        return self._archive

    def close(self) -> None:
        self._file.close()


class EngineSource:
    """An image of the control node's engine, saved into a file without a name when it is asked for."""

    def __init__(self, name: str) -> None:
        if "@" in name:
            hint = "Give it a tag, here and in fleet_image: docker tag NAME@DIGEST NAME:TAG"
            raise ConfigError(f"{name} is named by its digest, and only a registry can give it that name.", hint=hint)
        # Without a tag the engine would save all that there are.
        self._name = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
        found = _inspect(self._name)
        self.images: tuple[Image, ...] = (Image((self._name,), frozenset({found.id}), found.layers or ()),)
        self.size = found.size
        self._lock = threading.Lock()
        self._archive: Archive | None = None
        self._saving: subprocess.Popen[bytes] | None = None

    def open(self) -> Archive:
        with self._lock:
            if self._archive is None:
                self._archive = self._save()
            return self._archive

    def close(self) -> None:
        if self._saving is not None and self._saving.poll() is None:
            self._saving.kill()
        if self._archive is not None:
            self._archive.file.close()

    def _save(self) -> Archive:
        # Not /tmp, which is often in memory; these are gigabytes.
        folder = os.environ.get("TMPDIR") or "/var/tmp"
        try:
            free = shutil.disk_usage(folder).free
            if free < self.size:
                raise self._no_room(folder)
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 (closed by close)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise FleetError(f"{folder} takes no file: {why}.", "Set TMPDIR to a directory with room.") from None
        argv = [ENGINE, "image", "save", "--", self._name]
        self._saving = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE)
        said = self._saving.communicate()[1].decode(errors="replace")
        if self._saving.returncode:
            if "no space left" in said:
                raise self._no_room(folder)
            raise FleetError(f"docker save {self._name} failed: {_last_line(said)}.", "Try it by hand.")
        try:
            return read_archive(file)
        except ArchiveError as error:
            raise FleetError(f"what docker save {self._name} wrote {error}.", "Try it by hand.") from None

    def _no_room(self, folder: str) -> FleetError:
        what = f"{self._name} does not fit into {folder}, where it is kept while it is sent: it takes "
        return FleetError(f"{what}{format_bytes(self.size)}.", "Free some space, or set TMPDIR to a larger directory.")


class _Found(Record):
    id: str
    layers: tuple[str, ...] | None
    size: int


def _inspect(name: str) -> _Found:
    argv = [ENGINE, "image", "inspect", "--format", _FORM, "--", name]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSPECT_TIMEOUT_S)
        said = done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return _Found.model_validate_json(done.stdout)
    except FileNotFoundError:
        what = f"There is no docker on this machine, which should give the image {name}."
        raise FleetError(
            what, "Give a file made by docker save on another machine: fleet push-image FILE.tar"
        ) from None
    except subprocess.TimeoutExpired:
        raise FleetError("The docker of this machine does not answer.", "Try: docker info") from None
    if re.search("no such image|invalid reference format", said, re.IGNORECASE):
        raise ConfigError(f"The docker of this machine has no image {name}.", hint=f"Get it: docker pull {name}")
    _, message, hint = diagnose_engine(said, local_user())
    raise FleetError(f"This machine gives no image: {message}.", f"{hint} Or give a file made by docker save.")


def _last_line(said: str) -> str:
    lines = make_inert(said).split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
