"""A tar made by `docker save`: which images are in it, and its bytes without the layers that an engine has already."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from fleet.host.image_stream import Span, Stream
from fleet.model.base import Record

MAX_DOCUMENT_BYTES = 4 << 20
"""Of a configuration or a manifest; those of NVIDIA's images are about 50 kB."""

_MANIFEST = "manifest.json"
_OPENERS: Mapping[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""By the first bytes of a file."""


class ArchiveError(Exception):
    """What is wrong with an archive; completes a sentence that begins with its name."""


class _Entry(Record):
    """One image in `manifest.json`."""

    config: str = Field(alias="Config")
    tags: tuple[str, ...] | None = Field(default=None, alias="RepoTags")
    layers: tuple[str, ...] = Field(alias="Layers")


class _RootFs(Record):
    diff_ids: tuple[str, ...] = ()


class _Config(Record):
    rootfs: _RootFs


class _Descriptor(Record):
    digest: str


class _Index(Record):
    """`index.json` and what it leads to: indexes of manifests, and manifests, which name a configuration."""

    manifests: tuple[_Descriptor, ...] = ()
    config: _Descriptor | None = None


@dataclass(frozen=True)
class Image:
    """One image, by all that engines call it."""

    names: tuple[str, ...]
    """`name:tag`."""
    ids: frozenset[str]
    """`sha256:…`: the digest of its configuration and, for engines that keep images in containerd, of its manifest."""
    layers: tuple[str, ...]
    """`sha256:…` of each layer, uncompressed, the lowest first."""


@dataclass(frozen=True)
class Archive:
    """An archive, as long as its file is open."""

    file: BinaryIO
    size: int
    """Bytes of the file."""
    images: tuple[Image, ...]
    layer_files: tuple[tuple[str, ...], ...]
    """For each image the members that hold its layers, the lowest first."""
    layer_sizes: Mapping[str, int]
    """Bytes of those members."""
    layer_spans: Mapping[str, Span]
    """Where in the file they lie, of those that can be left out; empty when it is compressed."""

    def cut(self, have: Sequence[int]) -> Stream:
        """What an engine has to be sent that has the lowest `have[i]` layers of image i: it does not look for those."""
        needed = {name for files, count in zip(self.layer_files, have, strict=True) for name in files[count:]}
        kept = []
        begin = 0
        for name, span in sorted(self.layer_spans.items(), key=lambda item: item[1]):
            if name not in needed:
                kept.append(Span(begin, span.begin))
                begin = span.end
        kept.append(Span(begin, self.size))
        sizes = (size for name, size in self.layer_sizes.items() if name in needed or name not in self.layer_spans)
        ids = tuple(sorted({found for image in self.images for found in image.ids}))
        return Stream(self.file, ids, tuple(span for span in kept if span.size), sum(sizes))


def read_archive(file: BinaryIO) -> Archive:
    """Find out what is in a file, which must be seekable. A compressed one is read to its end.

    Raises:
        ArchiveError: it is no tar made by `docker save`, or is cut off.
        OSError: it cannot be read.
    """
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(6)
    file.seek(0)
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    try:
        if opener is None:
            return _read_plain(file, size)
        return _read_compressed(file, size, cast(BinaryIO, opener(file)))
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ArchiveError(f"is no tar, or is cut off: {error}") from None


def _read_plain(file: BinaryIO, size: int) -> Archive:
    with tarfile.open(fileobj=file, mode="r:") as tar:
        members = {_clean(member.name): member for member in tar}

        def read(name: str) -> bytes | None:
            member = members.get(name)
            stream = tar.extractfile(member) if member and member.isfile() else None
            return stream.read(MAX_DOCUMENT_BYTES) if stream else None

        entries, images = _read_images(read)
    # The engine follows a link to the member that another image has the same layer in.
    linked = {_follow(name, member) for name, member in members.items() if member.issym() or member.islnk()}
    files = tuple(tuple(_clean(name) for name in entry.layers) for entry in entries)
    layers = {name: members[name] for names in files for name in names if name in members}
    spans = {name: _span(member) for name, member in layers.items() if member.isfile() and name not in linked}
    return Archive(file, size, images, files, {name: member.size for name, member in layers.items()}, spans)


def _read_compressed(file: BinaryIO, size: int, unpacked: BinaryIO) -> Archive:
    documents: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    with unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            sizes[_clean(member.name)] = member.size
            if member.size <= MAX_DOCUMENT_BYTES and (head := stream.read(1)) in (b"{", b"["):
                documents[_clean(member.name)] = head + stream.read()
    entries, images = _read_images(documents.get)
    files = tuple(tuple(_clean(name) for name in entry.layers) for entry in entries)
    layer_sizes = {name: sizes.get(name, 0) for names in files for name in names}
    return Archive(file, size, images, files, layer_sizes, {})


Read = Callable[[str], bytes | None]
"""The content of a member, None when there is none."""

Document = TypeVar("Document", bound=Record)


def _read_images(read: Read) -> tuple[list[_Entry], tuple[Image, ...]]:
    manifest = read(_MANIFEST)
    if manifest is None:
        raise ArchiveError(f"is no tar made by docker save: it has no {_MANIFEST}")
    try:
        entries = TypeAdapter(list[_Entry]).validate_json(manifest)
    except ValidationError:
        raise ArchiveError(f"is no tar made by docker save: its {_MANIFEST} cannot be read") from None
    if not entries:
        raise ArchiveError("holds no image")
    return entries, tuple(_read_image(read, entry) for entry in entries)


def _read_image(read: Read, entry: _Entry) -> Image:
    text = read(_clean(entry.config))
    config = _parse(text, _Config)
    if text is None or config is None or len(config.rootfs.diff_ids) != len(entry.layers):
        raise ArchiveError(f"holds an image whose configuration {entry.config} is missing or cannot be read")
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    index = _parse(read("index.json"), _Index) or _Index()
    named = {found.digest for found in index.manifests if _leads_to(read, found, digest)}
    return Image(entry.tags or (), frozenset({digest, *named}), config.rootfs.diff_ids)


def _leads_to(read: Read, start: _Descriptor, config: str, depth: int = 3) -> bool:
    """Whether a manifest, or one of an index, is that of the image with this configuration."""
    blob = _parse(read(f"blobs/{start.digest.replace(':', '/')}"), _Index)
    if blob is None or not depth:
        return False
    if blob.config is not None:
        return blob.config.digest == config
    return any(_leads_to(read, found, config, depth - 1) for found in blob.manifests)


def _parse(text: bytes | None, kind: type[Document]) -> Document | None:
    try:
        return kind.model_validate_json(text) if text is not None else None
    except ValidationError:
        return None


def _clean(name: str) -> str:
    return posixpath.normpath(name)


def _follow(name: str, link: tarfile.TarInfo) -> str:
    """The member that a link leads to: a hard link from the root, a symbolic one from its own directory."""
    return _clean(link.linkname if link.islnk() else posixpath.join(posixpath.dirname(name), link.linkname))


def _span(member: tarfile.TarInfo) -> Span:
    """A member with its headers and the padding to whole blocks."""
    blocks = -(-member.size // tarfile.BLOCKSIZE)
    return Span(member.offset, member.offset_data + blocks * tarfile.BLOCKSIZE)
