"""Archives as `docker save` writes them, of images that are nothing but files of random bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BuiltImage:
    name: str
    id: str
    """Digest of the configuration."""
    layers: tuple[str, ...]
    """Digests of the layers."""
    members: Mapping[str, bytes]
    """Of the archive, by their names there."""


def make_layer(content: bytes) -> bytes:
    """A layer with one file, named by what is in it."""
    return make_tar({f"file-{hashlib.sha256(content).hexdigest()[:12]}": content})


def make_tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def build_image(name: str, layers: Sequence[bytes]) -> BuiltImage:
    """As engines before version 25 save an image: a directory for each layer. An empty `name`: it has none."""
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    files = [f"{number:064x}/layer.tar" for number in range(len(layers))]
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": digests}}
    ).encode()
    found = hashlib.sha256(config).hexdigest()
    entry = {"Config": f"{found}.json", "RepoTags": [name] if name else None, "Layers": files}
    members = {f"{found}.json": config, **dict(zip(files, layers, strict=True))}
    members["manifest.json"] = json.dumps([entry]).encode()
    return BuiltImage(name, f"sha256:{found}", tuple(digests), members)


def write_archive(path: Path, image: BuiltImage) -> Path:
    path.write_bytes(make_tar(image.members))
    return path
