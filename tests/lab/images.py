"""The lab's images, built once and kept under a tag that is the hash of what they are built from."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.lab.engine import DOCKER_HOST, LAB_DIR, LabError, docker, find_program, locked

CONTEXTS = Path(__file__).with_name("dockerfiles")
BUILD_TIMEOUT_S = 1200
_BASE_VERSION = 3
"""Goes up when the base image is made in another way."""
_MACHINE_CA = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP_SETTINGS = ("index-url", "extra-index-url", "find-links", "trusted-host", "proxy", "default-timeout")


def build_host_image() -> str:
    """The tag of the image that is a lab's machine: sshd, shells, the engine's client. Built if it is not there."""
    return _build("host", {})


def build_tensorflow_image() -> str:
    """The tag of the stand-in for NVIDIA's TensorFlow image. Built if it is not there: minutes, and 2 GB."""
    return _build("ngc-tensorflow", _read_pip_settings())


def _build(name: str, arguments: Mapping[str, str]) -> str:
    context = CONTEXTS / name
    # Test processes that start together want the same image.
    with locked("build"):
        base = _build_base()
        digest = hashlib.sha256(base.encode())
        for file in sorted(context.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        tag = f"fleet-lab/{name}:{digest.hexdigest()[:12]}"
        if not _exists(tag):
            _run_build(context, tag, {"BASE": base, **arguments})
    return tag


def _run_build(context: Path, tag: str, arguments: Mapping[str, str]) -> None:
    # BuildKit needs a plugin of the client that Debian 12 does not ship; the classic builder does all we need.
    environment = {**os.environ, "DOCKER_HOST": DOCKER_HOST, "DOCKER_BUILDKIT": "0"}
    # The engine knows these names: they reach the build and stay out of the image.
    proxies = {name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ}
    options = [word for key, value in {**proxies, **arguments}.items() for word in ("--build-arg", f"{key}={value}")]
    argv = ["docker", "build", "--network=host", "--force-rm", "--tag", tag, *options, str(context)]
    _call(argv, f"building {tag}", environment)


def _build_base() -> str:
    """This machine's own distribution, as small as debootstrap makes it, with this machine's way to packages."""
    release = _read_os_release()
    suite = release.get("VERSION_CODENAME", "")
    mirror = _find_mirror(suite)
    variant = f"{release.get('ID')} {suite} {os.uname().machine} {mirror} {_BASE_VERSION}"
    tag = f"fleet-lab/base:{hashlib.sha256(variant.encode()).hexdigest()[:12]}"
    if _exists(tag):
        return tag
    with tempfile.TemporaryDirectory(prefix="base-", dir=LAB_DIR) as directory:
        root = Path(directory, "root")
        argv = [
            find_program("debootstrap") or "debootstrap",
            "--variant=minbase",
            suite,
            str(root),
            *([mirror] if mirror else []),
        ]
        _call(argv, f"debootstrap of {suite}", dict(os.environ))
        _copy_package_sources(root)
        for cache in root.glob("var/cache/apt/archives/*.deb"):
            cache.unlink()
        archive = Path(directory, "root.tar")
        _call(["tar", "-C", str(root), "-cf", str(archive), "."], "packing the base image", dict(os.environ))
        docker("import", str(archive), tag, timeout_s=BUILD_TIMEOUT_S)
    return tag


def _copy_package_sources(root: Path) -> None:
    """Give the image this machine's package mirrors, its settings for reaching them and the authorities it trusts."""
    sources = _list_apt_sources()
    if sources:
        (root / "etc/apt/sources.list").unlink(missing_ok=True)  # debootstrap's own, which would say the same twice
    for source in sources:
        target = root / source.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    kept = re.findall(r"^Acquire::(?:https?::|Retries|Check-Valid-Until|Check-Date).*$", settings, re.MULTILINE)
    (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join([*kept, ""]))
    if _MACHINE_CA.exists():
        shutil.copy(_MACHINE_CA, root / "etc/fleet-lab-ca.crt")


def _list_apt_sources() -> list[Path]:
    """The distribution's own source files. Those of third parties need keys that the image does not have."""
    directory = Path("/etc/apt/sources.list.d")
    candidates = [Path("/etc/apt/sources.list"), directory / "debian.sources", directory / "ubuntu.sources"]
    return [path for path in candidates if path.exists()]


def _find_mirror(suite: str) -> str | None:
    """The first mirror that serves the suite itself; None leaves the choice to debootstrap."""
    for source in _list_apt_sources():
        for stanza in re.split(r"\n\s*\n", source.read_text()):
            one_line = re.search(rf"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{re.escape(suite)}\s", stanza, re.MULTILINE)
            uris = re.search(r"^URIs:\s*(\S+)", stanza, re.MULTILINE)
            suites = re.search(r"^Suites:\s*(.*)$", stanza, re.MULTILINE)
            if one_line:
                return one_line[1]
            if uris and suites and suite in suites[1].split():
                return uris[1]
    return None


def _read_os_release() -> dict[str, str]:
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE)
    return dict(pairs)


def _read_pip_settings() -> dict[str, str]:
    """This machine's way to a package index, as build arguments; without its directories, which an image lacks."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(argv, capture_output=True, text=True).stdout
    lines = re.findall(r"^(global|install|:env:)\.([a-z-]+)=(.*)$", listed, re.MULTILINE)
    found = {}
    for _, key, value in sorted(lines, key=lambda line: line[0] == ":env:"):  # the environment has the last word
        text = str(ast.literal_eval(value))
        if key in _PIP_SETTINGS and not text.startswith("/"):
            found[f"PIP_{key.upper().replace('-', '_')}"] = text
    return found


def _exists(tag: str) -> bool:
    return bool(docker("image", "ls", "--quiet", tag))


def _call(argv: list[str], what: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment
    )
    if done.returncode:
        raise LabError(f"{what} failed: {(done.stdout + done.stderr).strip()[-3000:]}")
