"""The bundle: the same bytes from the same sources, and a file that Python can run."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fleet
from fleet import bundle
from fleet.bundle import build_bundle, read_models
from fleet.errors import FleetError

ROOT = Path(fleet.__file__).parent.parent


def run_python(code: str, checkout: Path) -> str:
    """Run code with the fleet of a checkout of its own, in another time zone."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "TZ": "Pacific/Chatham"}
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, check=True).stdout


def build_in(checkout: Path) -> tuple[str, list[str]]:
    """Hash and entries of the bundle that the checkout builds."""
    sha256, names = run_python(
        "import io, zipfile; from fleet.bundle import build_bundle; b = build_bundle(); print(b.sha256);"
        "print(*zipfile.ZipFile(io.BytesIO(b.data)).namelist())",
        checkout,
    ).splitlines()
    return sha256, names.split()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for part in ("fleet", "payload"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_bundle_depends_on_the_sources_and_on_nothing_else(checkout: Path) -> None:
    before = build_bundle()
    assert before.sha256 == hashlib.sha256(before.data).hexdigest()
    for path in (checkout / "payload").rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    cache = checkout / "payload" / "__pycache__"
    cache.mkdir(exist_ok=True)
    for stray in (cache / "x.pyc", checkout / "payload" / "cell.py~", checkout / "payload" / ".#cell.py"):
        stray.write_text("stray")
    sha256, names = build_in(checkout)
    assert sha256 == before.sha256
    assert names[0] == "__main__.py"
    assert names[1:] == sorted(names[1:])
    assert "payload/catalog.json" in names
    with (checkout / "payload" / "__init__.py").open("a") as f:
        f.write("# changed\n")
    assert build_in(checkout)[0] != before.sha256


def test_bundle_runs_by_itself_and_lists_the_catalogue(tmp_path: Path) -> None:
    made = build_bundle()
    assert made.data.startswith(b"#!/usr/bin/env python3\n")
    assert len(made.data) < 150_000
    archive = zipfile.ZipFile(io.BytesIO(made.data))
    assert archive.testzip() is None
    assert {i.external_attr >> 16 for i in archive.infolist()} == {0o100644}
    file = tmp_path / "fleet-payload.pyz"
    file.write_bytes(made.data)
    done = subprocess.run(
        [sys.executable, "-I", str(file), "models"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in read_models())


def test_catalogue_is_read_by_name() -> None:
    models = read_models()
    assert models["resnet50"].parameters == 25_559_081
    assert models["alexnet_conv"].phases == ("forward", "forward_backward")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"models": 3}', '{"models": [{"name": "x"}]}'])
def test_broken_catalogue_is_one_sentence(checkout: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (checkout / "payload" / "catalog.json").write_text(text)
    monkeypatch.setattr(bundle, "_find_payload", lambda: checkout / "payload")
    with pytest.raises(FleetError, match="catalogue of models cannot be read"):
        read_models()


def test_missing_payload_is_one_sentence(checkout: Path) -> None:
    shutil.rmtree(checkout / "payload")
    printed = run_python(
        "from fleet.bundle import build_bundle\ntry: build_bundle()\nexcept Exception as e: print(type(e).__name__, e)",
        checkout,
    )
    assert printed.startswith("FleetError There is no payload in or beside ")
