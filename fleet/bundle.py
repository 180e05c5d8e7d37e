"""payload/ → one file that a host can run, the same bytes every time.

A host gets the benchmark as a single `.pyz` that it checks by content, so the bytes must depend on nothing but the
payload's source: entries are sorted and carry a fixed time, mode and system.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import fleet
from fleet.errors import FleetError
from fleet.model.suite import ModelInfo

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\n\nfrom payload.__main__ import main\n\nsys.exit(main())\n"
_SUFFIXES = {".py", ".json"}
"""Source and data. An editor's backup or a compiled file beside them must not change the hash."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold."""

_REINSTALL = "Install fleet again: its benchmark is not complete."


@dataclass(frozen=True)
class Bundle:
    """The payload as one executable zip, and its name by content."""

    data: bytes
    sha256: str
    """Lower-case hex of `data`."""


def build_bundle() -> Bundle:
    """Zip the payload. Equal sources give equal bytes (with the same zlib).

    Raises:
        FleetError: this installation of fleet has no payload.
    """
    root = _find_payload()
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*")
        if path.suffix in _SUFFIXES and path.is_file() and not path.name.startswith(".")
    )
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)  # before the archive, whose offsets then count from the start of the file
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN)
        for name, path in files:
            _add(archive, f"payload/{name}", path.read_bytes())
    data = buffer.getvalue()
    return Bundle(data=data, sha256=hashlib.sha256(data).hexdigest())


def read_models() -> dict[str, ModelInfo]:
    """The payload's catalogue, by model name, in its order.

    Raises:
        FleetError: the catalogue is missing or cannot be read.
    """
    path = _find_payload() / "catalog.json"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        models = TypeAdapter(tuple[ModelInfo, ...]).validate_python(document["models"], strict=False)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as e:
        raise FleetError(f"{path}: the catalogue of models cannot be read: {e}", _REINSTALL) from e
    return {model.name: model for model in models}


def _find_payload() -> Path:
    """In a wheel the payload lies inside the package; in a checkout beside it."""
    package = Path(fleet.__file__).resolve().parent
    for root in (package / "_payload", package.parent / "payload"):
        if (root / "catalog.json").is_file():
            return root
    raise FleetError(f"There is no payload in or beside {package}.", _REINSTALL)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.create_system = 3  # Unix, whatever system this is
    info.external_attr = 0o100644 << 16
    archive.writestr(info, data, compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)
