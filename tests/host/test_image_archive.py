"""Archives of images: what is in them, and what is left of them when layers are left out."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator

import pytest

from fleet.errors import FleetError
from fleet.host.image_archive import Archive, Image, read_archive
from fleet.host.image_stream import Stream
from tests.image_builder import BuiltImage, build_image, make_layer, make_tar

LAYERS = [make_layer(os.urandom(size)) for size in (70_000, 1_000, 130_001)]
IMAGE = build_image("lab/image:1", LAYERS)
WHOLE = Image(("lab/image:1",), frozenset({IMAGE.id}), IMAGE.layers)


Read = Callable[[bytes], Archive]


@pytest.fixture
def read() -> Iterator[Read]:
    """Reads these bytes as an archive."""
    with contextlib.ExitStack() as opened:

        def read(data: bytes) -> Archive:
            file = opened.enter_context(tempfile.TemporaryFile())
            file.write(data)
            return read_archive(file)

        yield read


def read_stream(stream: Stream) -> bytes:
    part = stream.open(0, stream.size, lambda count: None)
    return b"".join(iter(lambda: part.read(10_007), b""))


def list_members(data: bytes) -> list[str]:
    """The names in a tar, every one of which can be read."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            assert member.issym() or len(stream.read()) == member.size
        return tar.getnames()


def describe_blobs(image: BuiltImage, nested: bool) -> tuple[dict[str, bytes], str]:
    """The same image as engines from version 25 on save it, and the digest that `index.json` gives it."""
    blobs = {layer: LAYERS[number] for number, layer in enumerate(image.layers)}
    blobs[image.id] = next(data for name, data in image.members.items() if name.endswith(image.id[7:] + ".json"))

    def add(document: dict[str, object]) -> str:
        data = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return digest

    top = add({"schemaVersion": 2, "config": {"digest": image.id}, "layers": []})
    if nested:
        absent = "sha256:" + "0" * 64  # of a platform that was not saved
        top = add({"schemaVersion": 2, "manifests": [{"digest": absent}, {"digest": top}]})
    other = add({"schemaVersion": 2, "config": {"digest": "sha256:" + "1" * 64}})
    names = {digest: f"blobs/{digest.replace(':', '/')}" for digest in blobs}
    entry = {"Config": names[image.id], "RepoTags": [image.name], "Layers": [names[layer] for layer in image.layers]}
    members = {names[digest]: data for digest, data in blobs.items()}
    members["index.json"] = json.dumps({"manifests": [{"digest": other}, {"digest": top}]}).encode()
    return members | {"manifest.json": json.dumps([entry]).encode()}, top


def test_an_archive_is_cut_to_what_is_needed(read: Read) -> None:
    data = make_tar(IMAGE.members)
    archive = read(data)
    cuts = [archive.cut([count]) for count in range(4)]

    assert archive.images == (WHOLE,)
    assert read_stream(cuts[0]) == data
    names = list(IMAGE.members)
    assert [list_members(read_stream(cut)) for cut in cuts] == [names[:1] + names[1 + n :] for n in range(4)]
    assert [cut.unpacked_bytes for cut in cuts] == [sum(map(len, LAYERS[n:])) for n in range(4)]
    assert [cut.size for cut in cuts] == [len(read_stream(cut)) for cut in cuts]
    assert len({cut.key for cut in cuts}) == 4
    assert cuts[1].digest(1_000) == hashlib.sha256(read_stream(cuts[1])[:1_000]).hexdigest()
    assert cuts[3].digest(cuts[3].size) == hashlib.sha256(read_stream(cuts[3])).hexdigest()


def test_a_part_is_read_from_anywhere_and_counted(read: Read) -> None:
    cut = read(make_tar(IMAGE.members)).cut([1])
    whole = read_stream(cut)
    counts: list[int] = []
    part = cut.open(900, 5_000, counts.append)

    assert b"".join(iter(lambda: part.read(333), b"")) == whole[900:5_900]
    assert sum(counts) == 5_000
    assert cut.read_at(cut.size, 10) == b""


def test_a_file_that_becomes_shorter_is_not_the_hosts_fault(read: Read) -> None:
    cut = read(make_tar(IMAGE.members)).cut([1])
    part = cut.open(0, cut.size, lambda count: None)
    os.truncate(cut.file.fileno(), cut.spans[0].begin)

    with pytest.raises(FleetError, match="shorter while it was sent"):
        part.read(333)


@pytest.mark.parametrize("nested", [False, True])
def test_an_image_has_the_ids_that_every_engine_gives_it(nested: bool, read: Read) -> None:
    members, digest = describe_blobs(IMAGE, nested)
    archive = read(make_tar(members))

    assert archive.images == (Image(WHOLE.names, frozenset({IMAGE.id, digest}), WHOLE.layers),)
    left = list_members(read_stream(archive.cut([2])))
    assert set(members) - set(left) == {f"blobs/{layer.replace(':', '/')}" for layer in IMAGE.layers[:2]}


def test_what_another_image_needs_stays(read: Read) -> None:
    """Two images share a layer: as one file, or as a link to the file of the other."""
    other = build_image("lab/other:2", LAYERS[:1])
    entries = [json.loads(image.members["manifest.json"])[0] for image in (IMAGE, other)]
    shared = {**other.members, **IMAGE.members, "manifest.json": json.dumps(entries).encode()}
    archive = read(make_tar(shared))
    layer = entries[0]["Layers"][0]
    assert layer in list_members(read_stream(archive.cut([3, 0])))
    assert layer not in list_members(read_stream(archive.cut([1, 1])))

    entries[1]["Layers"] = [f"other/{layer}"]
    buffer = io.BytesIO(make_tar({**shared, "manifest.json": json.dumps(entries).encode()}))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        link = tarfile.TarInfo(f"other/{layer}")
        link.type, link.linkname = tarfile.SYMTYPE, f"../../{layer}"
        tar.addfile(link)
    linked = read(buffer.getvalue())
    assert layer in list_members(read_stream(linked.cut([3, 0])))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_archive_is_sent_whole(pack: Callable[[bytes], bytes], read: Read) -> None:
    data = pack(make_tar(IMAGE.members))
    archive = read(data)

    assert archive.images == (WHOLE,)
    assert read_stream(archive.cut([3])) == data
    assert archive.cut([3]).unpacked_bytes == sum(map(len, LAYERS))
